//! All services in one process, and the command line.
