//! One step: a Provider's stream becomes Parts, and the calls in it are judged and run.

use std::{collections::VecDeque, sync::Arc};

use futures::{FutureExt as _, StreamExt as _, stream};
use kernel::{
    CallId, ErrorCode, JsonText, ToolName, clean_text, floor_char_boundary,
    limits::{CALLS_PER_TURN, PARALLEL_CALLS},
};
use llm::{CallArguments, Finish, Provider, ProviderError, StepEvent, StepRequest, Usage};
use runtime::{EventKind, WideEvent, attributes};
use tokio_util::sync::CancellationToken;

use crate::{
    Error,
    journal::Journal,
    limits::{ANSWER_BYTES, Limit, Limits, Repeats, Verdict, cut_end},
    parts::{Content, Outcome},
    peers::NAME_BYTES,
    tool::{self, Context, Owner, Ran, Shelf},
    toolset::ToolSet,
};

/// The slug of the MCP Server that is called.
const MCP_SERVER_SLUG: &str = "agentsville.mcp_server.slug";
/// The Tool's name at its server.
const MCP_TOOL: &str = "agentsville.mcp_server.tool";
/// Bytes of text that come at once and go on as one event.
const GATHERED_BYTES: usize = 1_024;

/// Why a step did not come to its end.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The Provider failed before it had begun to answer.
    Opening(ProviderError),
    /// The Provider failed in the middle of its answer.
    Stream(ProviderError),
    /// The model wrote more than an answer may have.
    Runaway(String),
    /// The database failed, or the turn is no longer ours.
    Store(Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// What a Provider's stream came to.
#[derive(Debug)]
pub(crate) struct Written {
    /// Why it ended.
    pub(crate) finish: Finish,
    /// What it cost.
    pub(crate) usage: Usage,
    /// The model that answered.
    pub(crate) model: Option<String>,
    /// Its calls, which are yet to be judged.
    pub(crate) calls: Vec<Asked>,
}

/// A call that the model asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    index: usize,
    arguments: CallArguments,
}

/// Streams one Provider call into Parts.
pub(crate) async fn stream(
    journal: &mut Journal,
    provider: &dyn Provider,
    request: &StepRequest,
    cancel: &CancellationToken,
) -> Result<Written, Broken> {
    let mut events = journal
        .during(provider.stream(request, cancel))
        .await?
        .map_err(Broken::Opening)?;
    let mut calls = Vec::new();
    let mut ahead = VecDeque::new();
    loop {
        let event = match ahead.pop_front() {
            Some(event) => event,
            None => journal.during(events.next()).await?,
        };
        let Some(event) = event else {
            return Err(Broken::Runaway(
                "the Provider's stream ended without an end".to_owned(),
            ));
        };
        let mut fits = true;
        match event.map_err(Broken::Stream)? {
            StepEvent::TextDelta(mut text) => {
                // What has come already goes on as one event: fewer events cost less, and nothing comes later for it.
                while text.len() < GATHERED_BYTES
                    && let Some(next) = events.next().now_or_never()
                {
                    match next {
                        Some(Ok(StepEvent::TextDelta(more))) => text.push_str(&more),
                        other => {
                            ahead.push_back(other);
                            break;
                        }
                    }
                }
                let text = clean_text(&text);
                let kept = fitting(journal, &text);
                fits = kept.len() == text.len();
                journal.recorder.text(kept);
            }
            StepEvent::ReasoningDelta(text) => {
                let text = clean_text(&text);
                let kept = fitting(journal, &text);
                fits = kept.len() == text.len();
                journal.recorder.reasoning(kept);
            }
            StepEvent::ReasoningDone { meta } => journal.recorder.reasoning_done(meta),
            StepEvent::CallStarted { index, name } => journal.recorder.call_started(index, &name),
            StepEvent::CallArgumentsDelta { index, delta } => {
                journal.recorder.call_arguments(index, &delta);
            }
            StepEvent::CallFinished {
                index,
                arguments,
                wire_id,
                meta,
            } => {
                journal.recorder.call_origin(index, wire_id, meta);
                calls.push(Asked { index, arguments });
            }
            StepEvent::Done {
                finish,
                usage,
                model,
            } => {
                return Ok(Written {
                    finish,
                    usage,
                    model,
                    calls,
                });
            }
        }
        journal.tell().await?;
        if !fits || journal.recorder.bytes() > ANSWER_BYTES {
            return Err(Broken::Runaway(format!(
                "the answer grew beyond {} MiB",
                ANSWER_BYTES / 1_048_576
            )));
        }
    }
}

/// As much of a delta as the answer still has room for: a Provider may send megabytes at once, and what is stored must be read again.
fn fitting<'t>(journal: &Journal, text: &'t str) -> &'t str {
    let room = ANSWER_BYTES.saturating_sub(journal.recorder.bytes());
    &text[..floor_char_boundary(text, room)]
}

/// Whether Tools run in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tools {
    /// They do.
    On,
    /// An answer is forced.
    Off,
}

/// What calls of a turn share.
#[derive(Debug)]
pub(crate) struct Desk {
    /// The Tool set.
    pub(crate) tools: ToolSet,
    /// What a Tool knows of the turn.
    pub(crate) context: Context,
    /// The ceilings.
    pub(crate) limits: Limits,
    /// Calls of the turn so far.
    pub(crate) calls: u32,
    /// Finds circles.
    pub(crate) repeats: Repeats,
    /// Where what is no text is put.
    pub(crate) shelf: Shelf,
    /// Limits that the calls of the step met.
    pub(crate) met: Vec<Limit>,
}

/// A call that is recorded and going to run.
struct Ready {
    at: usize,
    id: CallId,
    tool: usize,
    arguments: JsonText,
}

impl Desk {
    /// Judges the calls of a step, records them, runs those that may run, and records their results.
    pub(crate) async fn serve(
        &mut self,
        journal: &mut Journal,
        written: &mut Written,
        tools: Tools,
    ) -> Result<(), Error> {
        let mut ready = VecDeque::new();
        let calls = std::mem::take(&mut written.calls);
        if calls.is_empty() {
            return Ok(());
        }
        for (place, call) in calls.into_iter().enumerate() {
            let verdict = self.judge(journal, place, &call, &written.finish, tools);
            match verdict {
                Ok((tool, arguments)) => {
                    let Some(at) = journal.recorder.call_ready(call.index, &arguments) else {
                        continue;
                    };
                    let Some(id) = journal.recorder.call_id(at) else {
                        continue;
                    };
                    ready.push_back(Ready {
                        at,
                        id,
                        tool,
                        arguments,
                    });
                }
                Err(outcome) => {
                    let input = input_of(&call.arguments);
                    self.tell_refusal(journal, call.index, &input);
                    journal.recorder.call_refused(call.index, input, outcome);
                }
            }
        }
        // No Tool starts before this has returned: whatever happens, the call and what became of it are known.
        journal.commit().await?;
        self.run(journal, ready).await
    }

    /// Says which Tool a call runs, or with which words it is refused. A refused call counts as a call.
    fn judge(
        &mut self,
        journal: &Journal,
        place: usize,
        call: &Asked,
        finish: &Finish,
        tools: Tools,
    ) -> Result<(usize, JsonText), Outcome> {
        let (name, id) = journal
            .recorder
            .streaming_call_of(call.index)
            .ok_or_else(|| Outcome::Error("the call was never begun.".to_owned()))?;
        if tools == Tools::Off {
            return Err(Outcome::Error(
                "Tools are turned off: answer with what you know.".to_owned(),
            ));
        }
        if place >= self.limits.calls_per_step {
            self.meet(Limit::CallsPerStep);
            return Err(Outcome::Error(format!(
                "at most {} calls run in one step; this one did not. Call it in the next step if it is still needed.",
                self.limits.calls_per_step
            )));
        }
        if self.calls >= CALLS_PER_TURN {
            self.meet(Limit::Calls);
            return Err(Outcome::Error(format!(
                "at most {CALLS_PER_TURN} calls run in one turn; this one did not. Answer with what you know."
            )));
        }
        self.calls += 1;
        let input = input_of(&call.arguments);
        let mut refuse = |sentence: String| {
            let read = tool::read(id, name, &input, Ran::Failed(sentence), &mut self.repeats);
            if read.verdict == Verdict::Stop && !self.met.contains(&Limit::Repeats) {
                self.met.push(Limit::Repeats);
            }
            Err(read.outcome)
        };
        let Some(tool) = self.tools.find(name) else {
            return refuse(self.tools.no_such_tool(name));
        };
        let whole = match finish {
            Finish::Length | Finish::ContentFilter => false,
            Finish::Stop | Finish::ToolCalls | Finish::Other(_) => true,
        };
        match &call.arguments {
            CallArguments::Complete(arguments) if whole => {
                match self.tools.tools()[tool].definition.judge(arguments) {
                    Ok(()) => Ok((tool, arguments.clone())),
                    Err(sentence) => refuse(sentence),
                }
            }
            CallArguments::Complete(_) | CallArguments::Cut { .. } => refuse(
                "the arguments were cut before they were whole, so the call did not run. Try again with shorter ones."
                    .to_owned(),
            ),
            CallArguments::Malformed { problem, .. } => refuse(format!(
                "the arguments are not a JSON object: {problem}. Correct them and call again."
            )),
        }
    }

    /// Runs calls, at most [`PARALLEL_CALLS`] at the same time, and records each result as it comes.
    async fn run(&mut self, journal: &mut Journal, ready: VecDeque<Ready>) -> Result<(), Error> {
        let (tools, context) = (self.tools.clone(), Arc::new(self.context.clone()));
        let mut running = stream::iter(ready)
            .map(|call| run_one(tools.clone(), Arc::clone(&context), call))
            .buffer_unordered(PARALLEL_CALLS);
        while let Some(done) = journal.during(running.next()).await? {
            self.record(journal, done);
            // Results that are there already go into the same write.
            while let Some(Some(done)) = running.next().now_or_never() {
                self.record(journal, done);
            }
            journal.tell_result().await?;
        }
        Ok(())
    }

    fn record(&mut self, journal: &mut Journal, done: Done) {
        let Done {
            call,
            name,
            mut ran,
            mut event,
        } = done;
        let media = self.shelf.keep(call.id, &mut ran, &*self.context.clock);
        let read = tool::read(call.id, &name, &call.arguments, ran, &mut self.repeats);
        if read.verdict == Verdict::Stop {
            self.meet(Limit::Repeats);
        }
        tell_end(&mut event, &read);
        drop(event);
        journal.recorder.call_ended(call.at, read.outcome, media);
    }

    /// A call that was refused is a call, and has its event.
    fn tell_refusal(&self, journal: &Journal, index: usize, input: &JsonText) {
        let Some((name, id)) = journal.recorder.streaming_call_of(index) else {
            return;
        };
        let mut event = self
            .context
            .begin(id, cut_end(name, ToolName::MAX).into_owned(), input);
        event
            .outcome(runtime::Outcome::Error(ErrorCode::InvalidArgument))
            .set(attributes::REASON, "refused");
    }

    fn meet(&mut self, limit: Limit) {
        if !self.met.contains(&limit) {
            self.met.push(limit);
        }
    }
}

/// A call that ran.
struct Done {
    call: Ready,
    name: String,
    ran: Ran,
    event: WideEvent,
}

async fn run_one(tools: ToolSet, context: Arc<Context>, call: Ready) -> Done {
    let tool = &tools.tools()[call.tool];
    let name = tool.definition.spec.name.to_string();
    let mut event = context.begin(call.id, name.clone(), &call.arguments);
    if let Owner::Mcp(owner) = &tool.definition.owner {
        event
            .set_display(attributes::MCP_SERVER_ID, owner.server)
            .set(MCP_SERVER_SLUG, owner.slug.clone())
            .set(MCP_TOOL, cut_end(&owner.tool, NAME_BYTES).into_owned());
    }
    let ran = match tool.slots.acquire().await {
        Ok(_slot) => {
            event
                .within(tool::run(
                    &tool.definition,
                    call.id,
                    &call.arguments,
                    &context,
                ))
                .await
        }
        Err(_closed) => Ran::Failed("the Tool was taken away.".to_owned()),
    };
    Done {
        call,
        name,
        ran,
        event,
    }
}

impl Context {
    /// The wide event of a call.
    fn begin(&self, id: CallId, name: String, arguments: &JsonText) -> WideEvent {
        let mut event = WideEvent::begin(EventKind::ToolCall);
        event
            .set(attributes::OPERATION, "execute_tool")
            .set(attributes::TOOL_NAME, name)
            .set_display(attributes::TOOL_CALL_ID, id)
            .set_display(attributes::NPC_ID, self.npc)
            .set_display(attributes::PLAYER_ID, self.player)
            .set_display(attributes::TURN_ID, self.turn)
            .set(attributes::INPUT_BYTES, arguments.as_str().len())
            .content(attributes::TOOL_ARGUMENTS, || arguments.as_str().to_owned());
        event
    }
}

fn tell_end(event: &mut WideEvent, read: &tool::Read) {
    let (outcome, text) = match &read.outcome {
        Outcome::Ok(output) => (runtime::Outcome::Ok, output.as_str()),
        Outcome::Error(sentence) => (
            runtime::Outcome::Error(ErrorCode::FailedPrecondition),
            sentence.as_str(),
        ),
        Outcome::Denied(sentence) => (runtime::Outcome::Denied, sentence.as_str()),
        Outcome::Interrupted(sentence) => (runtime::Outcome::Interrupted, sentence.as_str()),
    };
    event
        .outcome(outcome)
        .set(attributes::OUTPUT_BYTES, text.len())
        .set(attributes::TRUNCATED, read.cut)
        .content(attributes::TOOL_RESULT, || text.to_owned());
}

/// A call's arguments as they are stored: JSON where they are, else a JSON string of what the model wrote.
fn input_of(arguments: &CallArguments) -> JsonText {
    match arguments {
        CallArguments::Complete(arguments) => arguments.clone(),
        CallArguments::Malformed { raw, .. } | CallArguments::Cut { raw } => JsonText::of(raw),
    }
}

/// Whether a step has said anything to the Player.
pub(crate) fn has_words(journal: &Journal) -> bool {
    journal
        .recorder
        .step_parts()
        .iter()
        .any(|part| matches!(&part.content, Content::Text(prose) if !prose.text.trim().is_empty()))
}
