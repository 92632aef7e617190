//! The turn: steps until the model has answered, a ceiling is met, or something stops it.
//!
//! **Invariants.** A turn ends in exactly one way, and every Part of it is settled in the transaction that ends it. Nothing that
//! ran is run again: what fails in the middle of a Provider's stream is retried as a new step, before any of its calls ran.

mod report;
#[cfg(test)]
mod tests;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use kernel::{ErrorCode, TurnId};
use llm::{ErrorKind, Finish, ModelName, Provider, ProviderError, StepRequest, ToolUse, Usage};
use runtime::attributes;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::Instrument as _;

use crate::{
    Error, history,
    journal::Journal,
    limits::{Limit, Limits, Repeats, cut_end},
    parts::{Content, FinishReason, NoticeCode, Recorder, TurnEnd, TurnStatus},
    peers::Npc,
    prompt::{Prompt, answer_now},
    running::{Guard, Stop},
    service::Service,
    step::{self, Broken, Desk, Tools},
    store::{Role, Started},
    tool::{Context, Shelf},
    toolset::Asked,
};

/// The longest that a turn waits before it tries a step again, whatever the Provider asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long it waits when the Provider asks for nothing.
const SHORT_WAIT: Duration = Duration::from_millis(250);
/// Bytes of a Provider's sentence that a Player reads.
const SENTENCE_BYTES: usize = 1_024;

/// A turn that was started and is going to run.
pub(crate) struct Turn {
    /// The service.
    pub(crate) service: Arc<Service>,
    /// What was started.
    pub(crate) started: Started,
    /// The Player.
    pub(crate) player: kernel::PlayerId,
    /// The NPC.
    pub(crate) npc: Npc,
    /// The model.
    pub(crate) model: ModelName,
    /// Who serves it.
    pub(crate) provider: Arc<dyn Provider>,
    /// Its place among the running ones.
    pub(crate) guard: Guard,
}

/// How a turn came to its end.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// There is an answer.
    Answered(FinishReason),
    /// The Provider, the store or a fault of ours ended it; in a sentence.
    Failed(ErrorCode, String),
    /// It took too long.
    Time,
    /// Somebody stopped it.
    Stopped(Stop),
    /// It is no longer this process's.
    Lost,
}

/// What a turn gathers while it runs.
struct Work {
    journal: Journal,
    usage: Usage,
    met: Vec<Limit>,
    calls: u32,
    /// What was asked of MCP Servers.
    asked: Option<Asked>,
    /// When it is over.
    deadline: Instant,
}

impl Turn {
    /// Runs the turn to its end, whatever happens.
    pub(crate) async fn run(self) {
        let limits = self.service.limits;
        let mut event = self.begin_event();
        let mut work = Work {
            journal: Journal::new(
                Recorder::start(
                    Arc::clone(&self.service.clock),
                    self.model.to_string(),
                    self.started.turn,
                    self.started.conversation,
                    self.started.message,
                ),
                self.service.store.clone(),
                Arc::clone(&self.service.log),
                self.started.clone(),
            ),
            usage: Usage::default(),
            met: Vec::new(),
            calls: 0,
            asked: None,
            deadline: Instant::now() + limits.time,
        };
        let deadline = work.deadline;
        let handle = Arc::clone(self.guard.handle());
        let span = event.span().clone();
        let end = {
            let steps = AssertUnwindSafe(event.within(self.steps(&mut work))).catch_unwind();
            tokio::select! {
                biased;
                why = handle.stopped() => End::Stopped(why),
                () = self.service.hard.cancelled() => End::Stopped(Stop::Shutdown),
                () = sleep_until(deadline) => End::Time,
                end = steps => end.unwrap_or_else(|_panic| {
                    tracing::error!(turn = %self.started.turn, "a turn panicked");
                    End::Failed(
                        ErrorCode::Internal,
                        "The turn failed by a fault in the program. Try again.".to_owned(),
                    )
                }),
            }
        };
        report::end(&mut event, &end);
        self.finish(&mut work, end, limits).instrument(span).await;
        report::work(&mut event, &work);
    }

    /// Steps until there is an answer.
    async fn steps(&self, work: &mut Work) -> End {
        match self.try_steps(work).await {
            Ok(finish) => End::Answered(finish),
            Err(broken) => broken_end(self.started.turn, self.guard.handle().why(), broken),
        }
    }

    async fn try_steps(&self, work: &mut Work) -> Result<FinishReason, Broken> {
        work.journal.tell().await?;
        let (gathered, past) = tokio::join!(
            self.service.tools(&self.npc, self.player),
            self.service
                .store
                .history(self.started.conversation, self.started.message)
        );
        let past = past?;
        let tools = gathered.tools;
        work.asked = Some(gathered.asked);
        self.service.pin(self.player, gathered.unpinned);
        if let Some(sentence) = tools.unavailable_sentence() {
            work.journal
                .recorder
                .notice(NoticeCode::UnavailableTools, &sentence);
            work.journal.tell().await?;
        }
        let mut request = StepRequest {
            model: self.model.model().to_owned(),
            system: Prompt {
                npc: &self.npc.name,
                persona: &self.npc.persona,
                tools: &tools,
                now: self.service.clock.now(),
                shortened: past.shortened,
            }
            .text(),
            messages: Vec::with_capacity(2 * past.messages.len() + 8),
            tools: tools.specs(),
            tool_use: ToolUse::Auto,
            max_output_tokens: None,
        };
        for message in &past.messages {
            match message.role {
                Role::User => {
                    for part in &message.parts {
                        if let Content::Text(prose) = &part.content {
                            history::push_question(&mut request.messages, &prose.text);
                        }
                    }
                }
                Role::Assistant => {
                    history::push_answer(
                        &mut request.messages,
                        &message.parts,
                        self.model.as_str(),
                    );
                }
            }
        }
        let mut desk = Desk {
            context: Context {
                npc: self.npc.id,
                player: self.player,
                turn: self.started.turn,
                fetch_hosts: Arc::clone(&self.npc.fetch_hosts),
                fetch: self.service.fetch.clone(),
                gateway: self.service.gateway.clone(),
                ends_at: work.deadline,
                clock: Arc::clone(&self.service.clock),
            },
            tools,
            limits: self.service.limits,
            calls: 0,
            repeats: Repeats::default(),
            shelf: Shelf::default(),
            met: Vec::new(),
        };
        self.take_steps(work, &mut request, &mut desk).await
    }

    async fn take_steps(
        &self,
        work: &mut Work,
        request: &mut StepRequest,
        desk: &mut Desk,
    ) -> Result<FinishReason, Broken> {
        let limits = self.service.limits;
        let mut forced = None;
        loop {
            let number = work.journal.recorder.step() + 1;
            if forced.is_none() && number >= limits.steps && !desk.tools.is_empty() {
                forced = Some(Limit::Steps);
            }
            let tools = match forced {
                None => Tools::On,
                Some(limit) => {
                    let sentence = limits.sentence(limit);
                    request.tool_use = ToolUse::None;
                    request.system.push_str(&answer_now(&sentence));
                    Tools::Off
                }
            };
            let ended = self.take_step(work, request, desk, number, forced).await;
            work.calls = desk.calls;
            let (finish, usage) = match (ended, tools) {
                (Ok(ended), _) => ended,
                // The Player gets words all the same.
                (Err(Broken::Opening(error) | Broken::Stream(error)), Tools::Off)
                    if error.kind != ErrorKind::Cancelled =>
                {
                    tracing::warn!(turn = %self.started.turn, error = %error, "the Provider failed a forced answer");
                    work.journal.recorder.settle(CUT);
                    (Finish::Other("error".to_owned()), Usage::default())
                }
                (Err(broken), _) => return Err(broken),
            };
            let parts = work.journal.recorder.step_parts();
            history::push_step(&mut request.messages, parts, self.model.as_str());
            let called = work.journal.recorder.calls() > 0;
            for limit in desk.met.drain(..) {
                meet(&mut work.met, limit);
                if limit.ends_turn() {
                    forced.get_or_insert(limit);
                } else {
                    work.journal
                        .recorder
                        .notice(NoticeCode::Limit, &limits.sentence(limit));
                }
            }
            if tools == Tools::Off {
                if !step::has_words(&work.journal) {
                    let limit = forced.unwrap_or(Limit::Steps);
                    work.journal.recorder.text(&last_words(&limits, limit));
                }
                work.journal.recorder.end_step(usage);
                return Ok(FinishReason::Other);
            }
            work.journal.recorder.end_step(usage);
            work.journal.tell().await?;
            if !called || finish == Finish::ContentFilter {
                // Tools were to be called and no call came: there is nothing to go on with.
                return Ok(if finish == Finish::ToolCalls {
                    FinishReason::Stop
                } else {
                    FinishReason::from(&finish)
                });
            }
        }
    }

    /// One step. A Provider that fails in the middle is asked once more, and that counts as the same step.
    async fn take_step(
        &self,
        work: &mut Work,
        request: &StepRequest,
        desk: &mut Desk,
        number: u32,
        forced: Option<Limit>,
    ) -> Result<(Finish, Usage), Broken> {
        work.journal.recorder.begin_step(number);
        if let Some(limit) = forced {
            meet(&mut work.met, limit);
            let sentence = self.service.limits.sentence(limit);
            work.journal.recorder.notice(NoticeCode::Limit, &sentence);
        }
        work.journal.tell().await?;
        let mut event = self.begin_step_event(number);
        let cancel = self.guard.handle().token();
        let mut streamed = step::stream(&mut work.journal, &*self.provider, request, cancel).await;
        // What failed at its opening was tried again where that makes sense.
        if let Err(Broken::Stream(error)) = &streamed
            && error.retryable()
        {
            event
                .outcome(runtime::Outcome::Error(error.code()))
                .set(attributes::ERROR_TYPE, error.kind.as_str());
            drop(event);
            let wait = error.retry_after().unwrap_or(SHORT_WAIT).min(LONGEST_WAIT);
            let sentence = format!("{} The step begins again.", for_player(error));
            work.journal.recorder.settle(CUT);
            work.journal.recorder.notice(NoticeCode::Retry, &sentence);
            work.journal.recorder.end_step(Usage::default());
            work.journal.tell_and_write().await?;
            work.journal.during(sleep(wait)).await?;
            work.journal.recorder.begin_step(number);
            work.journal.tell().await?;
            event = self.begin_step_event(number);
            streamed = step::stream(&mut work.journal, &*self.provider, request, cancel).await;
        }
        let mut written = match streamed {
            Ok(written) => written,
            Err(broken) => {
                if let Broken::Opening(error) | Broken::Stream(error) = &broken {
                    event
                        .outcome(runtime::Outcome::Error(error.code()))
                        .set(attributes::ERROR_TYPE, error.kind.as_str());
                }
                return Err(broken);
            }
        };
        add(&mut work.usage, written.usage);
        event
            .set(
                attributes::FINISH_REASONS,
                FinishReason::from(&written.finish).as_str(),
            )
            .set(attributes::TOOL_CALLS, written.calls.len())
            .set_some(attributes::RESPONSE_MODEL, written.model.take())
            .set_some(attributes::INPUT_TOKENS, written.usage.input)
            .set_some(attributes::OUTPUT_TOKENS, written.usage.output)
            .set_some(attributes::CACHED_TOKENS, written.usage.cached_input);
        let tools = if forced.is_some() {
            Tools::Off
        } else {
            Tools::On
        };
        event
            .within(desk.serve(&mut work.journal, &mut written, tools))
            .await?;
        event.outcome(runtime::Outcome::Ok);
        Ok((written.finish, written.usage))
    }

    /// Settles everything, and writes the end.
    async fn finish(&self, work: &mut Work, end: End, limits: Limits) {
        let recorder = &mut work.journal.recorder;
        let (status, finish, sentence) = match end {
            End::Answered(finish) => {
                recorder.settle(CUT);
                let ending = work.met.iter().find(|limit| limit.ends_turn());
                let sentence = ending.map(|limit| limits.sentence(*limit));
                (TurnStatus::Finished, finish, sentence)
            }
            End::Failed(_, sentence) => {
                recorder.settle("The turn failed before this call was done.");
                (TurnStatus::Failed, FinishReason::Error, Some(sentence))
            }
            End::Time => {
                recorder.settle("The turn ran out of time before this call was done.");
                meet(&mut work.met, Limit::Time);
                recorder.notice(NoticeCode::Limit, &limits.sentence(Limit::Time));
                recorder.text(&last_words(&limits, Limit::Time));
                (
                    TurnStatus::Finished,
                    FinishReason::Other,
                    Some(limits.sentence(Limit::Time)),
                )
            }
            End::Stopped(Stop::Aborted) => {
                recorder.settle("The turn was stopped before this call was done.");
                (
                    TurnStatus::Aborted,
                    FinishReason::Other,
                    Some("The turn was stopped.".to_owned()),
                )
            }
            End::Stopped(Stop::Shutdown) => {
                recorder.settle("The service was shut down before this call was done.");
                (
                    TurnStatus::Interrupted,
                    FinishReason::Other,
                    Some(
                        "The service was shut down before the turn ended; what it had done is kept."
                            .to_owned(),
                    ),
                )
            }
            End::Lost => return work.journal.abandon().await,
        };
        let told = match status {
            TurnStatus::Failed => Some(NoticeCode::Failed),
            TurnStatus::Aborted | TurnStatus::Interrupted => Some(NoticeCode::Stopped),
            TurnStatus::Running | TurnStatus::Finished => None,
        };
        if let (Some(code), Some(sentence)) = (told, &sentence) {
            recorder.notice(code, sentence);
        }
        recorder.end_step(Usage::default());
        let end = TurnEnd {
            status,
            finish,
            sentence,
            limits: work.met.clone(),
        };
        work.journal.end(&end, work.usage, limits).await;
    }
}

/// The end that a broken step makes. `stop` is why the turn was stopped, if it was.
fn broken_end(turn: TurnId, stop: Option<Stop>, broken: Broken) -> End {
    match (broken, stop) {
        // The Provider's reader may hear of the stop before the turn itself does.
        (Broken::Opening(error) | Broken::Stream(error), Some(why))
            if error.kind == ErrorKind::Cancelled =>
        {
            End::Stopped(why)
        }
        (Broken::Opening(error) | Broken::Stream(error), _) => {
            tracing::warn!(%turn, error = %error, kind = error.kind.as_str(), "the Provider failed a turn");
            End::Failed(error.code(), for_player(&error))
        }
        (Broken::Runaway(what), _) => End::Failed(
            ErrorCode::ResourceExhausted,
            format!("The turn was ended because {what}."),
        ),
        (Broken::Store(Error::LeaseLost), _) => End::Lost,
        (Broken::Store(error), _) => {
            tracing::error!(%turn, error = %error, "the store failed a turn");
            End::Failed(
                error.code(),
                "The turn was ended because the database did not take what it wrote. Try again in a moment.".to_owned(),
            )
        }
    }
}

/// What a call is told that the Provider's stream was cut under.
const CUT: &str =
    "the Provider's stream broke off before the call was whole, so it did not run. Try again.";

/// The words of a turn that has none of the model's.
fn last_words(limits: &Limits, limit: Limit) -> String {
    format!(
        "I could not finish this. {} Ask me to go on, and I will take it from here.",
        limits.sentence(limit)
    )
}

/// A Provider's failure as a Player reads it.
fn for_player(error: &ProviderError) -> String {
    let mut sentence = cut_end(error.sentence.trim(), SENTENCE_BYTES).into_owned();
    if let Some(first) = sentence.get(..1) {
        let upper = first.to_ascii_uppercase();
        sentence.replace_range(..1, &upper);
    }
    if !sentence.ends_with(['.', '!', '?', '…']) {
        sentence.push('.');
    }
    sentence
}

fn meet(met: &mut Vec<Limit>, limit: Limit) {
    if !met.contains(&limit) {
        met.push(limit);
    }
}

/// Sums tokens. What a Provider does not tell stays untold.
fn add(sum: &mut Usage, step: Usage) {
    let plus = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
    };
    *sum = Usage {
        input: plus(sum.input, step.input),
        output: plus(sum.output, step.output),
        cached_input: plus(sum.cached_input, step.cached_input),
        reasoning: plus(sum.reasoning, step.reasoning),
    };
}
