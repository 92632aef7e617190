//! The turn: Tool set, Provider, Tool calls, Parts.
