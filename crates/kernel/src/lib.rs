//! Words that every crate of the house shares.
//!
//! Pure data and pure decisions: who is calling, what they may do, how a failure is classed, how big a thing may be.
//!
//! **Architecture invariant:** no tokio, no tonic, no database, no HTTP. Time comes in through [`Clock`].

mod authorization;
mod caller;
mod clock;
mod error_code;
mod grant;
mod id;
mod json;
pub mod limits;
mod nearest;
mod secret;
mod slug;
mod text;
mod tool_definition;
mod tool_name;

pub use authorization::{Act, Decision, McpTransport, NpcFacts, OwnedFacts, decide};
pub use caller::{Caller, CallerKind, ServiceName, UnknownServiceName};
pub use clock::{Clock, SystemClock, Timestamp};
pub use error_code::ErrorCode;
pub use grant::{BuiltinTool, Family, GrantKind, GrantWhat, InvalidGrantWhat};
pub use id::{
    AuditId, CallId, ConversationId, GrantId, InvalidId, McpServerId, MediaId, MessageId, NpcId,
    PlayerId, SkillId, TurnId,
};
pub use json::{InvalidJson, JsonText};
pub use nearest::nearest;
pub use secret::Secret;
pub use slug::{InvalidSlug, Slug};
pub use text::{clean_text, floor_char_boundary, strip_control};
pub use tool_definition::ToolDefinition;
pub use tool_name::{InvalidToolName, ToolName};
