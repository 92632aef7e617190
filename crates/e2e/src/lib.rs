//! The whole system, embedded and split: its tests stand in `tests/it`, its benchmarks in `benches`.
