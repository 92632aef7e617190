//! Bounds on reading.

use std::thread::available_parallelism;

/// What one process may spend on reading pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Children that read at the same time; more wait for their turn until their deadline. By default one a core, from 2 to 8.
    pub at_once: usize,
    /// Memory that a child may take, in bytes, its stack included (`RLIMIT_DATA`). The program's own pages come on top.
    pub memory_bytes: u64,
    /// Time of a core that a child may take, in seconds (`RLIMIT_CPU`).
    pub cpu_seconds: u64,
    /// Bytes of text of one reading; the rest is left out, and the reading says so.
    pub text_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            at_once: available_parallelism().map_or(2, usize::from).clamp(2, 8),
            memory_bytes: 48 * 1_024 * 1_024,
            cpu_seconds: 6,
            text_bytes: 2 * 1_024 * 1_024,
        }
    }
}
