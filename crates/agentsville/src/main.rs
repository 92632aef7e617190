//! AgentsVille in one process.
fn main() {}
