//! Event log and signals between processes: in process or Redis.
