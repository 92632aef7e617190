//! The Tools that this service runs itself, and the seam that every Tool's result goes through.

pub(crate) mod current_time;
pub(crate) mod fetch_url;
#[cfg(test)]
mod tests;

use std::{fmt::Write as _, sync::Arc, time::Duration};

use jsonschema::Validator;
use kernel::{
    BuiltinTool, CallId, Clock, JsonText, NpcId, PlayerId, ToolName, TurnId,
    limits::TOOL_RESULT_BYTES,
};
use llm::ToolSpec;

use crate::{
    limits::{Repeats, Verdict, cut_end, cut_middle},
    parts::Outcome,
    peers::Fetch,
    prompt::{FENCE_BYTES, fence},
};

/// Faults of arguments that the model is told at once.
const TOLD_FAULTS: usize = 5;
/// Bytes of one fault, or of one sentence from a peer.
const FAULT_BYTES: usize = 300;
/// Bytes of what is said around data: status lines and warnings.
const LEAD_BYTES: usize = 768;
/// Bytes of data from outside in one result, so that the whole stays within [`TOOL_RESULT_BYTES`].
pub(crate) const DATA_BYTES: usize = TOOL_RESULT_BYTES - FENCE_BYTES - LEAD_BYTES;

/// What a Tool is: all that does not differ from NPC to NPC.
#[derive(Debug)]
pub(crate) struct Definition {
    /// What the model sees.
    pub(crate) spec: ToolSpec,
    /// What runs it.
    pub(crate) kind: BuiltinTool,
    /// How long one call may take.
    pub(crate) timeout: Duration,
    /// How many calls of it may run at the same time in one turn; 1 for a Tool whose calls must not overlap.
    pub(crate) at_once: usize,
    schema: Validator,
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
        Ok(Self {
            spec: ToolSpec {
                name: kind
                    .as_str()
                    .parse::<ToolName>()
                    .map_err(|error| error.to_string())?,
                description: description.to_owned(),
                schema: JsonText::of(schema),
            },
            kind,
            timeout,
            at_once,
            schema: jsonschema::validator_for(schema).map_err(|error| error.to_string())?,
        })
    }

    /// Says what is wrong with a call's arguments, for the model to mend: at most [`TOLD_FAULTS`] faults, without the values.
    pub(crate) fn judge(&self, arguments: &JsonText) -> Result<(), String> {
        let value = arguments
            .to_value()
            .map_err(|error| format!("the arguments cannot be read: {error}"))?;
        let mut faults = self.schema.iter_errors(&value);
        let mut sentence = String::new();
        for fault in faults.by_ref().take(TOLD_FAULTS) {
            let at = fault.instance_path().to_string();
            let at = if at.is_empty() { "the arguments" } else { &at };
            let said = format!("{at}: {}", fault.masked());
            let _infallible = write!(sentence, "; {}", cut_end(&said, FAULT_BYTES));
        }
        if sentence.is_empty() {
            return Ok(());
        }
        if faults.next().is_some() {
            sentence.push_str("; and more");
        }
        Err(format!(
            "the arguments do not fit the schema of {}{}. Correct them and call again.",
            self.spec.name,
            sentence.replacen(';', ":", 1)
        ))
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
        self.builtins.iter().find(|tool| tool.kind.as_str() == name)
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
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
}

/// What a Tool gave, before it is made into what the model reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ran {
    /// A result.
    Gave {
        /// In our own words.
        lead: String,
        /// Text from outside, and where it comes from: it will be fenced.
        data: Option<Data>,
    },
    /// No result, and why: a sentence for the model.
    Failed(String),
    /// It is not allowed, and why.
    Denied(String),
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
pub(crate) async fn run(tool: &Definition, arguments: &JsonText, context: &Context) -> Ran {
    let work = async {
        match tool.kind {
            BuiltinTool::CurrentTime => current_time::run(&*context.clock),
            BuiltinTool::FetchUrl => fetch_url::run(arguments, context).await,
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
        Ran::Gave { lead, data } => {
            let (mut text, cut) = match data {
                None => {
                    let cut = lead.len() > TOOL_RESULT_BYTES - LEAD_BYTES;
                    (
                        cut_middle(&lead, TOOL_RESULT_BYTES - LEAD_BYTES).into_owned(),
                        cut,
                    )
                }
                Some(data) => {
                    let cut = data.text.len() > DATA_BYTES;
                    let fenced = fence(call, &data.source, &cut_middle(&data.text, DATA_BYTES));
                    let lead = cut_end(&lead, LEAD_BYTES * 2 / 3);
                    (format!("{lead}{}\n{fenced}", data.stamp), cut)
                }
            };
            text.push_str(warning);
            (Outcome::Ok(JsonText::of(&text)), cut)
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

/// What is compared with the results of other calls: fences differ from call to call.
fn fingerprint(ran: &Ran) -> String {
    match ran {
        Ran::Gave { lead, data } => {
            let text = data.as_ref().map_or("", |data| data.text.as_str());
            format!("ok\n{lead}\n{text}")
        }
        Ran::Failed(sentence) | Ran::Denied(sentence) => format!("failed\n{sentence}"),
    }
}
