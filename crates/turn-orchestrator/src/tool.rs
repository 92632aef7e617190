//! What a Tool is, the Tools that this service runs itself, and the seam that every Tool's result goes through.

pub(crate) mod current_time;
pub(crate) mod fetch_url;
pub(crate) mod mcp;
mod media;
#[cfg(test)]
mod tests;

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use kernel::{
    BuiltinTool, CallId, Clock, JsonText, NpcId, PlayerId, ToolName, TurnId,
    limits::TOOL_RESULT_BYTES,
};
use llm::ToolSpec;
use tokio::time::Instant;

use crate::{
    limits::{Repeats, Verdict, cut_end, cut_middle},
    parts::{MediaKind, Outcome},
    peers::{Fetch, Gateway},
    prompt::{FENCE_BYTES, fence},
    schema::Schema,
};

pub(crate) use mcp::McpTool;
pub(crate) use media::Shelf;

/// Bytes of what is said around data: status lines and warnings.
const LEAD_BYTES: usize = 768;
/// Bytes of data from outside in one result, so that the whole stays within [`TOOL_RESULT_BYTES`].
pub(crate) const DATA_BYTES: usize = TOOL_RESULT_BYTES - FENCE_BYTES - LEAD_BYTES;

/// What a Tool is.
#[derive(Debug)]
pub(crate) struct Definition {
    /// What the model sees.
    pub(crate) spec: ToolSpec,
    /// What runs it.
    pub(crate) owner: Owner,
    /// How long one call may take.
    pub(crate) timeout: Duration,
    /// How many calls of it may run at the same time in one turn; 1 for a Tool whose calls must not overlap.
    pub(crate) at_once: usize,
    /// What its arguments are judged by.
    pub(crate) schema: Arc<Schema>,
}

/// What runs a Tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This service.
    Builtin(BuiltinTool),
    /// An MCP Server, through the mcp-gateway.
    Mcp(McpTool),
}

impl Definition {
    /// A Tool of ours. Its schema is a constant, and a test compiles it.
    fn of(
        kind: BuiltinTool,
        description: &str,
        schema: &serde_json::Value,
        timeout: Duration,
        at_once: usize,
    ) -> Result<Self, String> {
        let schema = Schema::ours(schema)?;
        Ok(Self {
            spec: ToolSpec {
                name: kind
                    .as_str()
                    .parse::<ToolName>()
                    .map_err(|error| error.to_string())?,
                description: description.to_owned(),
                schema: schema.sent.clone(),
            },
            owner: Owner::Builtin(kind),
            timeout,
            at_once,
            schema: Arc::new(schema),
        })
    }

    /// Says what is wrong with a call's arguments, for the model to mend.
    pub(crate) fn judge(&self, arguments: &JsonText) -> Result<(), String> {
        self.schema.judge(arguments).map_err(|faults| {
            format!(
                "the arguments do not fit the schema of {}{faults}. Correct them and call again.",
                self.spec.name
            )
        })
    }
}

/// The Tools of ours, compiled once.
#[derive(Debug)]
pub(crate) struct Toolbox {
    builtins: Vec<Arc<Definition>>,
}

impl Toolbox {
    /// Compiles every schema.
    ///
    /// # Errors
    /// Never, as long as the schemas in the source are schemas.
    pub(crate) fn compile() -> Result<Self, String> {
        let builtins = BuiltinTool::ALL
            .into_iter()
            .map(|tool| {
                match tool {
                    BuiltinTool::CurrentTime => current_time::definition(),
                    BuiltinTool::FetchUrl => fetch_url::definition(),
                }
                .map(Arc::new)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { builtins })
    }

    /// The Tool of this name.
    pub(crate) fn builtin(&self, name: &str) -> Option<&Arc<Definition>> {
        self.builtins
            .iter()
            .find(|tool| matches!(tool.owner, Owner::Builtin(builtin) if builtin.as_str() == name))
    }
}

/// What a call knows besides its arguments. None of it comes from the model.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// The NPC that calls.
    pub(crate) npc: NpcId,
    /// The Player whose turn it is.
    pub(crate) player: PlayerId,
    /// The turn.
    pub(crate) turn: TurnId,
    /// Hosts that the NPC may fetch from; empty for every public one.
    pub(crate) fetch_hosts: Arc<[String]>,
    /// Where pages come from.
    pub(crate) fetch: Option<Fetch>,
    /// Where MCP Servers are called.
    pub(crate) gateway: Option<Gateway>,
    /// When the turn is over.
    pub(crate) ends_at: Instant,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
}

/// What a Tool gave, before it is made into what the model reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ran {
    /// A result.
    Gave(Given),
    /// The Tool says that it failed, in words from outside.
    Erred(Given),
    /// No result, and why: a sentence for the model.
    Failed(String),
    /// It is not allowed, and why.
    Denied(String),
}

/// What a Tool gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Given {
    /// In our own words.
    pub(crate) lead: String,
    /// Text from outside, and where it comes from: it will be fenced.
    pub(crate) data: Option<Data>,
    /// What is no text.
    pub(crate) media: Vec<GivenMedia>,
    /// What is said of it, once it is known what was kept: at most some two KiB. Not compared: ids differ.
    pub(crate) notes: String,
}

/// What a Tool gave that is no text, before it is known whether it can be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GivenMedia {
    /// What it is.
    pub(crate) kind: MediaKind,
    /// Its media type.
    pub(crate) media_type: String,
    /// How many bytes it has.
    pub(crate) bytes: u64,
    /// The bytes; none when they did not come this far.
    pub(crate) data: Option<Bytes>,
}

/// Text from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Data {
    /// Where it comes from.
    pub(crate) source: String,
    /// The text.
    pub(crate) text: String,
    /// When it was had, in words of ours that go on from the lead. Not compared: the same text a second later is the same result.
    pub(crate) stamp: String,
}

/// Runs a Tool. Dropping the future ends the call.
pub(crate) async fn run(
    tool: &Definition,
    call: CallId,
    arguments: &JsonText,
    context: &Context,
) -> Ran {
    let work = async {
        match &tool.owner {
            Owner::Builtin(BuiltinTool::CurrentTime) => current_time::run(&*context.clock),
            Owner::Builtin(BuiltinTool::FetchUrl) => fetch_url::run(arguments, context).await,
            Owner::Mcp(owner) => mcp::run(owner, call, arguments, context).await,
        }
    };
    match tokio::time::timeout(tool.timeout, work).await {
        Ok(ran) => ran,
        Err(_elapsed) => Ran::Failed(format!(
            "{} took longer than {} seconds and was ended.",
            tool.spec.name,
            tool.timeout.as_secs()
        )),
    }
}

/// What the model reads of a call, and what it means that it was made.
#[derive(Debug)]
pub(crate) struct Read {
    /// The call's one result. An output is a JSON string of exactly what the model reads, so that a replay is exact.
    pub(crate) outcome: Outcome,
    /// Whether the model goes in circles.
    pub(crate) verdict: Verdict,
    /// Whether something was cut.
    pub(crate) cut: bool,
}

/// Makes a Tool's result into what the model reads: bounded, fenced, and with a warning when it repeats itself.
pub(crate) fn read(
    call: CallId,
    tool: &str,
    arguments: &JsonText,
    ran: Ran,
    repeats: &mut Repeats,
) -> Read {
    let verdict = repeats.count(tool, arguments, &fingerprint(&ran));
    let warning = match verdict {
        Verdict::Fine => "",
        Verdict::Warn | Verdict::Stop => {
            "\nThis is the same call with the same result as before. Calling again will not help: change your approach, or answer."
        }
    };
    let failed = |sentence: &str| {
        let cut = sentence.len() > TOOL_RESULT_BYTES - LEAD_BYTES;
        let sentence = cut_middle(sentence, TOOL_RESULT_BYTES - LEAD_BYTES);
        (format!("{sentence}{warning}"), cut)
    };
    let (outcome, cut) = match ran {
        Ran::Gave(given) => {
            let (text, cut) = text_of(call, given);
            (Outcome::Ok(JsonText::of(&format!("{text}{warning}"))), cut)
        }
        Ran::Erred(given) => {
            let (text, cut) = text_of(call, given);
            (Outcome::Error(format!("{text}{warning}")), cut)
        }
        Ran::Failed(sentence) => {
            let (sentence, cut) = failed(&sentence);
            (Outcome::Error(sentence), cut)
        }
        Ran::Denied(sentence) => {
            let (sentence, cut) = failed(&sentence);
            (Outcome::Denied(sentence), cut)
        }
    };
    Read {
        outcome,
        verdict,
        cut,
    }
}

/// What a Tool gave as the model reads it, and whether something was cut.
fn text_of(call: CallId, given: Given) -> (String, bool) {
    let notes = if given.notes.is_empty() {
        String::new()
    } else {
        format!("\n{}", given.notes)
    };
    let Some(data) = given.data else {
        let room = TOOL_RESULT_BYTES.saturating_sub(LEAD_BYTES + notes.len());
        let cut = given.lead.len() > room;
        let lead = cut_middle(&given.lead, room);
        return (format!("{lead}{notes}"), cut);
    };
    let room = DATA_BYTES.saturating_sub(notes.len());
    let cut = data.text.len() > room;
    let fenced = fence(call.as_uuid(), &data.source, &cut_middle(&data.text, room));
    let lead = cut_end(&given.lead, LEAD_BYTES * 2 / 3);
    (format!("{lead}{}{notes}\n{fenced}", data.stamp), cut)
}

/// What is compared with the results of other calls: fences and ids differ from call to call.
fn fingerprint(ran: &Ran) -> String {
    let (word, given) = match ran {
        Ran::Gave(given) => ("ok", given),
        Ran::Erred(given) => ("erred", given),
        Ran::Failed(sentence) | Ran::Denied(sentence) => return format!("failed\n{sentence}"),
    };
    let text = given.data.as_ref().map_or("", |data| data.text.as_str());
    let mut media = DefaultHasher::new();
    for piece in &given.media {
        (piece.kind, &piece.media_type, piece.bytes, &piece.data).hash(&mut media);
    }
    format!("{word}\n{}\n{text}\n{}", given.lead, media.finish())
}
