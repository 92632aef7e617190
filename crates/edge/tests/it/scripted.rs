//! Scripted peers: a registry that knows tokens, and an orchestrator whose turns a test writes.

mod registry;
mod turns;

pub(crate) use registry::{Registry, Somebody};
pub(crate) use turns::{Script, Turns, say};
