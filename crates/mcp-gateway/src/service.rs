//! What the gateway does for turns: lists of Tools, and calls. Wire types end in `grpc`.

mod offer;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use kernel::{
    Caller, Clock, McpServerId, PlayerId, ServiceName, floor_char_boundary, strip_control,
};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use vault::Vault;

use crate::{
    Call, CallEnd, Clients, Config, Error, Failure, FailureCode, Progress,
    peers::{Registry, Server},
    report,
    servers::Servers,
    test_server::Tests,
};

pub(crate) use offer::{Offer, Unavailable, in_words};

/// Progress that is told on: at most once in this time, so that no server floods a turn.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// Bytes of a server's words on its progress.
const PROGRESS_BYTES: usize = 512;

/// The gateway itself: what the gRPC face calls.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) config: Arc<Config>,
    pub(crate) clients: Clients,
    pub(crate) servers: Servers,
    pub(crate) registry: Registry,
    pub(crate) vault: Arc<Vault>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tests: Tests,
    /// What runs: each request holds a token of it.
    pub(crate) running: TaskTracker,
}

/// A server whose Tools are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) id: McpServerId,
    /// At least this generation.
    pub(crate) generation: u64,
    /// Only these, by their names at the server. Empty: all of them.
    pub(crate) tools: Vec<String>,
    /// The most Tools. 0: the setting.
    pub(crate) limit: usize,
}

/// Who waits no longer than this is about to begin a turn, and waits once for a server that does not answer.
const A_TURNS_PATIENCE: Duration = Duration::from_secs(5);

/// A Tool that is to be called.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) id: McpServerId,
    pub(crate) generation: u64,
    pub(crate) call: Call,
}

/// The Player for whom the turns of the house use servers.
///
/// # Errors
/// Somebody else calls.
pub(crate) fn turn_of(caller: &Caller) -> Result<Option<PlayerId>, Error> {
    match *caller {
        Caller::Service {
            name: ServiceName::TurnOrchestrator,
            player,
        } => Ok(player),
        Caller::Operator(_) | Caller::Player(_) | Caller::Npc { .. } | Caller::Service { .. } => {
            Err(Error::NotAllowed {
                caller: caller.label(),
                what: "use MCP Servers; turns do",
            })
        }
    }
}

/// The Player for whom Tools are listed: the one of a turn, or one who looks at them before a Grant. Whoever lists sees what turns of their
/// own could use, and nothing else.
///
/// # Errors
/// Somebody else calls.
pub(crate) fn reader_of(caller: &Caller) -> Result<Option<PlayerId>, Error> {
    match *caller {
        Caller::Operator(player) | Caller::Player(player) => Ok(Some(player)),
        Caller::Npc { .. } | Caller::Service { .. } => turn_of(caller),
    }
}

impl Gateway {
    /// The Tools of servers, all at the same time, each with its own outcome, in the order in which they were asked for. What is not there
    /// after `patience` is said not to be; it goes on for the next turn.
    pub(crate) async fn list(
        &self,
        player: Option<PlayerId>,
        wanted: &[Wanted],
        patience: Duration,
    ) -> Vec<Result<Offer, Unavailable>> {
        let _running = self.running.token();
        let until = Instant::now() + patience;
        join_all(wanted.iter().map(|wanted| async move {
            let mut event = report::list(&wanted.id.to_string(), player);
            let work = self.offer(player, wanted, until, patience);
            let outcome = event.within(work).await;
            report::listed(&mut event, &outcome);
            outcome
        }))
        .await
    }

    async fn offer(
        &self,
        player: Option<PlayerId>,
        wanted: &Wanted,
        until: Instant,
        patience: Duration,
    ) -> Result<Offer, Unavailable> {
        let resolved = self.servers.get(wanted.id, player, wanted.generation);
        let resolved = tokio::time::timeout_at(until, resolved).await;
        let server = match resolved {
            Ok(Ok(server)) => server,
            Ok(Err(error)) => return Err(Unavailable::unresolved(&error)),
            Err(_elapsed) => return Err(Unavailable::unresolved(&Error::RegistryAway)),
        };
        usable(&server)?;
        let tools = async {
            if patience > A_TURNS_PATIENCE {
                self.clients.tools(&server.target, player).await
            } else {
                self.clients.tools_for_turn(&server.target, player).await
            }
        };
        let listed = tokio::time::timeout_at(until, tools)
            .await
            .unwrap_or_else(|_elapsed| Err(late(&server, patience)))?;
        self.servers.spoken(&server, listed.facts.era);
        Ok(Offer::of(&server, &listed, wanted, &self.config))
    }

    /// Calls a Tool for a Player. Dropping the future cancels the call.
    ///
    /// # Errors
    /// What is wrong with the request itself. All that a server does wrong is an end.
    pub(crate) async fn call(
        &self,
        player: Option<PlayerId>,
        wish: Wish,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<Called, Error> {
        let _running = self.running.token();
        let mut event = report::call(&wish.id.to_string(), player, &wish.call);
        let span = event.span().clone();
        let work = self.run(player, wish, progress);
        let called = tracing::Instrument::instrument(work, span).await;
        match &called {
            Ok(called) => report::called(&mut event, &called.end),
            Err(error) => {
                event.outcome(runtime::Outcome::Error(error.code()));
            }
        }
        called
    }

    async fn run(
        &self,
        player: Option<PlayerId>,
        wish: Wish,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<Called, Error> {
        let Wish {
            id,
            generation,
            call,
        } = wish;
        let resolved = self.servers.get(id, player, generation);
        let resolved = tokio::time::timeout_at(call.deadline, resolved).await;
        let server = match resolved.unwrap_or(Err(Error::RegistryAway)) {
            Ok(server) => server,
            // The turn was given it when it began.
            Err(Error::NoServer(_)) => return Ok(Called::removed(REMOVED)),
            Err(Error::RegistryAway) => self
                .servers
                .last_known(id, player, generation)
                .ok_or(Error::RegistryAway)?,
            Err(error) => return Err(error),
        };
        if !server.enabled {
            return Ok(Called::removed(&disabled(&server)));
        }
        if let Some(failure) = &server.unreadable {
            return Ok(Called::failed(failure.clone()));
        }
        let pace = Pace::default();
        let told = |step: Progress| {
            if let Some(step) = pace.next(&step) {
                progress(step);
            }
        };
        let target = &server.target;
        let end = Box::pin(self.clients.call(target, player, call, &told)).await;
        if matches!(end, CallEnd::ServerRemoved) {
            let name = &target.name;
            return Ok(Called::removed(&format!(
                "{name} was deleted or disabled while the call ran; it may have been carried out."
            )));
        }
        Ok(Called {
            end,
            sentence: String::new(),
        })
    }
}

/// There is no such server, or none for this Player: one sentence for both.
const REMOVED: &str = "The MCP Server was deleted, or may not be used any more.";

/// How a call ended, and what the server's removal is called.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) end: CallEnd,
    /// Of [`CallEnd::ServerRemoved`] only.
    pub(crate) sentence: String,
}

impl Called {
    fn removed(sentence: &str) -> Self {
        Self {
            end: CallEnd::ServerRemoved,
            sentence: sentence.to_owned(),
        }
    }

    fn failed(failure: Failure) -> Self {
        Self {
            end: CallEnd::Failed(failure),
            sentence: String::new(),
        }
    }
}

/// Lets through as much progress as anybody reads.
#[derive(Debug, Default)]
struct Pace(Mutex<Option<Instant>>);

impl Pace {
    fn next(&self, step: &Progress) -> Option<Progress> {
        let now = Instant::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| now < last + PROGRESS_EVERY) {
            return None;
        }
        *last = Some(now);
        drop(last);
        let number = |number: f64| if number.is_finite() { number } else { 0.0 };
        let text = strip_control(&step.message);
        Some(Progress {
            done: number(step.done),
            total: step.total.map(number),
            message: text[..floor_char_boundary(&text, PROGRESS_BYTES)].to_owned(),
        })
    }
}

fn usable(server: &Server) -> Result<(), Failure> {
    if !server.enabled {
        return Err(Failure::new(
            FailureCode::Disabled,
            disabled(server),
            "Enable it again if it is to be used.",
        ));
    }
    match &server.unreadable {
        Some(failure) => Err(failure.clone()),
        None => Ok(()),
    }
}

fn disabled(server: &Server) -> String {
    format!("{} is disabled.", server.target.name)
}

fn late(server: &Server, patience: Duration) -> Failure {
    // Rounded up: the caller's own deadline is what people know.
    let seconds = patience.as_secs_f64().ceil();
    Failure::new(
        FailureCode::TimedOut,
        format_args!("{} did not answer within {seconds} s.", server.target.name),
        "It is asked again at the next turn.",
    )
}

/// The first server that is asked for more than once.
pub(crate) fn named_twice(wanted: &[Wanted]) -> Option<McpServerId> {
    let mut seen = HashSet::new();
    let again = wanted.iter().find(|wanted| !seen.insert(wanted.id));
    again.map(|wanted| wanted.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(done: f64) -> Progress {
        Progress {
            done,
            total: None,
            message: String::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_progress_is_told_ten_times_a_second() {
        let pace = Pace::default();
        let mut told = 0;
        for number in 0..10_000 {
            told += usize::from(pace.next(&step(f64::from(number))).is_some());
            tokio::time::advance(Duration::from_micros(100)).await;
        }
        assert_eq!(told, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn words_of_a_server_on_its_progress_are_cut_and_lose_control_characters() {
        let told = Pace::default().next(&Progress {
            done: f64::NAN,
            total: Some(f64::INFINITY),
            message: format!("\u{1b}[2J{}", "é".repeat(10_000)),
        });
        let told = told.unwrap();
        assert_eq!((told.done, told.total), (0.0, Some(0.0)));
        assert!(told.message.starts_with("[2Jé"), "{}", told.message);
        assert!(told.message.len() <= PROGRESS_BYTES);
    }

    #[test]
    fn only_turns_use_servers() {
        let clock = kernel::SystemClock;
        let player = PlayerId::mint(&clock);
        for caller in [
            Caller::Operator(player),
            Caller::Player(player),
            Caller::Npc {
                npc: kernel::NpcId::mint(&clock),
                player,
            },
            Caller::Service {
                name: ServiceName::Edge,
                player: Some(player),
            },
            Caller::Service {
                name: ServiceName::McpGateway,
                player: Some(player),
            },
        ] {
            let refused = turn_of(&caller).expect_err("it is refused");
            assert_eq!(refused.code(), kernel::ErrorCode::PermissionDenied);
        }
        let turn = |player| Caller::Service {
            name: ServiceName::TurnOrchestrator,
            player,
        };
        assert_eq!(turn_of(&turn(Some(player))), Ok(Some(player)));
        assert_eq!(turn_of(&turn(None)), Ok(None));
        assert_eq!(reader_of(&Caller::Player(player)), Ok(Some(player)));
        assert_eq!(reader_of(&turn(Some(player))), Ok(Some(player)));
    }
}
