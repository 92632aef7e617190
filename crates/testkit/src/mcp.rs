//! Scripted MCP Servers: what they say is a [`Script`], and what says it is a transport.
//!
//! ```no_run
//! # async fn example() {
//! use testkit::mcp::{Eras, Fault, Manner, Script, ScriptedMcp, Speaks};
//!
//! let script = Script::with(Eras::Legacy, [Fault::NeverAnswers("tools/call")]);
//! let server = ScriptedMcp::start(script, Speaks::Http(Manner::Sse)).await;
//! println!("{}", server.url());
//! # }
//! ```

mod http;
mod script;
pub mod stdio;
mod tools;

pub use http::{HttpFault, Manner, ScriptedMcp, Speaks};
pub use script::{Act, Conversation, Eras, Fault, LEGACY, MODERN, Script};
pub use tools::{all as all_tools, plain as plain_tool};
