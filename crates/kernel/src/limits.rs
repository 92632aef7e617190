//! Bounds that hold everywhere. What an Operator may set lies in the settings; these are the hard maxima and the shared ones.

use std::time::Duration;

/// Steps of a turn unless set otherwise: eleven with Tools, and an answer.
pub const DEFAULT_STEPS: u32 = 12;
/// The most steps that can be set.
pub const MAX_STEPS: u32 = 50;
/// Tool calls of one step unless set otherwise; further ones get an error result.
pub const DEFAULT_CALLS_PER_STEP: u32 = 16;
/// The most calls a step that can be set.
pub const MAX_CALLS_PER_STEP: u32 = 64;
/// Wall-clock time of a turn unless set otherwise.
pub const DEFAULT_TURN_TIME: Duration = Duration::from_mins(10);
/// The longest turn that can be set.
pub const MAX_TURN_TIME: Duration = Duration::from_hours(1);
/// How deep colleagues may ask colleagues unless set otherwise.
pub const DEFAULT_DELEGATION_DEPTH: u32 = 2;
/// The deepest delegation that can be set.
pub const MAX_DELEGATION_DEPTH: u32 = 4;
/// Tool calls of one turn, over all its steps.
pub const CALLS_PER_TURN: u32 = 64;
/// Tool calls that run at the same time in one turn.
pub const PARALLEL_CALLS: usize = 8;
/// Tools in one Tool set: several Providers refuse more.
pub const TOOLS_PER_SET: usize = 128;
/// Bytes of one Tool result that the model reads; the middle is cut.
pub const TOOL_RESULT_BYTES: usize = 16 * 1_024;
/// Bytes of one Tool call's arguments.
pub const TOOL_ARGUMENT_BYTES: usize = 256 * 1_024;
/// Bytes of one stored Part.
pub const PART_BYTES: usize = 1_024 * 1_024;
/// Bytes of a Player's Message.
pub const MESSAGE_BYTES: usize = 64 * 1_024;
/// Bytes of an NPC's persona.
pub const PERSONA_BYTES: usize = 32 * 1_024;
/// Characters of an id that a client chooses (Conversation, Message, request).
pub const CLIENT_ID_CHARS: usize = 200;
/// Bytes of one gRPC message, both ways.
pub const RPC_MESSAGE_BYTES: usize = 8 * 1_024 * 1_024;
/// Bytes of one HTTP request body at the edge.
pub const HTTP_BODY_BYTES: usize = 2 * 1_024 * 1_024;
/// Rows of one page of a list.
pub const PAGE_ROWS: u32 = 200;
/// Grants of one NPC.
pub const GRANTS_PER_NPC: usize = 256;
/// How deep JSON from outside may nest: what `serde_json` reads.
pub const JSON_DEPTH: usize = 127;
