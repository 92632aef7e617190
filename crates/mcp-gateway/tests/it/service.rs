//! The service: who may do what, lists of many servers, calls, tests, and what happens when a server is changed meanwhile.

mod calls;
mod changes;
mod lists;
mod process;
mod stdio;
mod testing;
mod village;
