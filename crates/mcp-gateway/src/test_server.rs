//! Tests of servers, saved or not yet saved: connect, list, and say in words what went wrong.
//!
//! Whoever tests has the gateway connect somewhere. What is not public the guard refuses before anything is opened, so that no answer tells an
//! open private port from a closed one; and nobody tests fast enough to map a network.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kernel::{Act, Caller, Decision, McpTransport, PlayerId, Timestamp, decide};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::{
    Endpoint, Error, Failure, FailureCode, Target, Tested,
    peers::Server,
    report,
    service::Gateway,
    validate::{self, Draft},
};

/// Tests that run at the same time.
const AT_ONCE: usize = 10;
/// Tests of one Player that run at the same time.
const AT_ONCE_PER_PLAYER: usize = 4;
/// Tests that one Player begins in [`MINUTE`]. The Operator, who may edit the settings, is not counted.
const PER_MINUTE: usize = 30;
/// The time over which tests are counted.
const MINUTE: Duration = Duration::from_mins(1);
/// Players whose tests are counted before those who have not tested for a minute are forgotten.
const MAX_COUNTED: usize = 1_024;
/// Bytes of a server's name or id.
const NAME_BYTES: usize = 256;

/// What is to be tested.
pub(crate) enum Subject {
    /// A saved server, by name or id.
    Saved(String),
    /// One that is not saved.
    Unsaved(Draft),
}

/// How a test went.
#[derive(Debug)]
pub(crate) struct TestReport {
    pub(crate) tested: Tested,
    pub(crate) transport: McpTransport,
    pub(crate) at: Timestamp,
}

impl Gateway {
    /// Tests a server. What a saved one's test found is kept.
    ///
    /// # Errors
    /// The caller may not test it, the request is wrong, or too many tests run. Everything else is how the test went.
    pub(crate) async fn test(
        &self,
        caller: &Caller,
        subject: Subject,
        patience: Duration,
    ) -> Result<TestReport, Error> {
        let _running = self.running.token();
        let until = Instant::now() + patience;
        let (Caller::Operator(player) | Caller::Player(player)) = *caller else {
            return Err(not_allowed(caller));
        };
        match subject {
            Subject::Saved(name) => {
                let server = self.saved(caller, player, &name).await?;
                let _place = self.tests.place(caller, player)?;
                let report = match &server.unreadable {
                    Some(failure) => self.report(server.facts.transport, untested(failure)),
                    None => {
                        self.try_out(caller, &server.target, Some(player), until)
                            .await
                    }
                };
                self.registry
                    .save_test(&server, Some(player), &report)
                    .await;
                if let Ok(listed) = &report.tested.outcome {
                    self.servers.spoken(&server, listed.facts.era);
                }
                Ok(report)
            }
            Subject::Unsaved(draft) => {
                let transport = draft.transport;
                if !decide(caller, Act::RegisterMcpServer(transport)).allows() {
                    return Err(only_the_operator(caller));
                }
                let target = validate::target(&self.vault, draft)?;
                let _place = self.tests.place(caller, player)?;
                Ok(match target {
                    Ok(target) => self.try_out(caller, &Arc::new(target), None, until).await,
                    Err(failure) => self.report(transport, untested(&failure)),
                })
            }
        }
    }

    async fn saved(&self, caller: &Caller, player: PlayerId, name: &str) -> Result<Server, Error> {
        if name.is_empty() || name.len() > NAME_BYTES {
            return Err(Error::argument(
                "saved",
                format!("name the server by its name or id, in at most {NAME_BYTES} bytes"),
            ));
        }
        let server = self.registry.resolve(name, Some(player)).await?;
        match decide(caller, Act::TestMcpServer(server.facts)) {
            Decision::Allow | Decision::AllowAudited | Decision::AllowWithoutContent => Ok(server),
            Decision::Deny if server.facts.transport == McpTransport::Stdio => {
                Err(only_the_operator(caller))
            }
            Decision::Deny => Err(not_allowed(caller)),
            Decision::Hide => Err(Error::NoServer(name.to_owned())),
        }
    }

    async fn try_out(
        &self,
        caller: &Caller,
        target: &Arc<Target>,
        keep_for: Option<PlayerId>,
        until: Instant,
    ) -> TestReport {
        let begun = Instant::now();
        let mut event = report::test(caller, target);
        let work = event.within(Box::pin(self.clients.test(target, keep_for)));
        let tested = tokio::time::timeout_at(until, work).await;
        let tested = tested.unwrap_or_else(|_elapsed| {
            let latency = begun.elapsed();
            Tested {
                latency,
                outcome: Err(late(target, latency)),
            }
        });
        report::tested(&mut event, &tested.outcome);
        let transport = match &target.endpoint {
            Endpoint::Stdio(_) => McpTransport::Stdio,
            Endpoint::Http(_) => McpTransport::Http,
            Endpoint::Sse(_) => McpTransport::Sse,
        };
        self.report(transport, tested)
    }

    fn report(&self, transport: McpTransport, tested: Tested) -> TestReport {
        TestReport {
            tested,
            transport,
            at: self.clock.now(),
        }
    }
}

/// A failure that was there before anything was tried.
fn untested(failure: &Failure) -> Tested {
    Tested {
        latency: Duration::ZERO,
        outcome: Err(failure.clone()),
    }
}

fn late(target: &Target, waited: Duration) -> Failure {
    Failure::new(
        FailureCode::TimedOut,
        format_args!(
            "{} did not finish connecting and listing its Tools within {} s.",
            target.name,
            waited.as_secs_f64().round()
        ),
        "See whether it runs and answers, and test again with more time.",
    )
}

fn not_allowed(caller: &Caller) -> Error {
    Error::NotAllowed {
        caller: caller.label(),
        what: "test this MCP Server",
    }
}

fn only_the_operator(caller: &Caller) -> Error {
    Error::NotAllowed {
        caller: caller.label(),
        what: "test an MCP Server that runs a command on the Village's own host; only the Operator may",
    }
}

/// The tests that run and ran.
#[derive(Debug)]
pub(crate) struct Tests {
    places: Arc<Semaphore>,
    players: Arc<Mutex<HashMap<PlayerId, Counted>>>,
}

#[derive(Debug, Default)]
struct Counted {
    running: usize,
    begun: VecDeque<Instant>,
}

/// A test's place, until it is dropped.
#[derive(Debug)]
struct Place {
    _permit: OwnedSemaphorePermit,
    players: Arc<Mutex<HashMap<PlayerId, Counted>>>,
    player: PlayerId,
}

impl Default for Tests {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(AT_ONCE)),
            players: Arc::default(),
        }
    }
}

impl Tests {
    fn place(&self, caller: &Caller, player: PlayerId) -> Result<Place, Error> {
        let now = Instant::now();
        let recent = |begun: &Instant| now < *begun + MINUTE;
        let mut players = self.players.lock().unwrap_or_else(PoisonError::into_inner);
        if players.len() >= MAX_COUNTED {
            players.retain(|_, counted| {
                counted.running > 0 || counted.begun.back().is_some_and(recent)
            });
        }
        let counted = players.entry(player).or_default();
        while counted.begun.front().is_some_and(|begun| !recent(begun)) {
            counted.begun.pop_front();
        }
        if counted.running >= AT_ONCE_PER_PLAYER {
            return Err(Error::TooManyTests(
                "four of your tests run already; wait for one of them to end",
            ));
        }
        if counted.begun.len() >= PER_MINUTE && !matches!(caller, Caller::Operator(_)) {
            return Err(Error::TooManyTests(
                "that was the thirtieth test within a minute; wait a minute",
            ));
        }
        let permit = Arc::clone(&self.places).try_acquire_owned();
        let permit = permit.map_err(|_all_taken| {
            Error::TooManyTests("ten tests run already; try again when one of them has ended")
        })?;
        counted.running += 1;
        counted.begun.push_back(now);
        counted.begun.truncate(PER_MINUTE);
        Ok(Place {
            _permit: permit,
            players: Arc::clone(&self.players),
            player,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut players = self.players.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counted) = players.get_mut(&self.player) {
            counted.running = counted.running.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use kernel::SystemClock;

    use super::*;

    fn player() -> (Caller, PlayerId) {
        let player = PlayerId::mint(&SystemClock);
        (Caller::Player(player), player)
    }

    #[tokio::test]
    async fn a_player_has_four_tests_at_a_time_and_all_have_ten() {
        let tests = Tests::default();
        let (first, id) = player();
        let mut places: Vec<Place> = (0..4).map(|_| tests.place(&first, id).unwrap()).collect();
        assert!(tests.place(&first, id).is_err());
        let (second, other) = player();
        places.extend((0..4).map(|_| tests.place(&second, other).unwrap()));
        let (third, last) = player();
        places.extend((0..2).map(|_| tests.place(&third, last).unwrap()));
        assert!(tests.place(&third, last).is_err());
        places.clear();
        assert!(tests.place(&third, last).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_player_cannot_scan_a_network_by_testing() {
        let tests = Tests::default();
        let (caller, id) = player();
        for _test in 0..PER_MINUTE {
            drop(tests.place(&caller, id).unwrap());
        }
        assert!(tests.place(&caller, id).is_err());
        tokio::time::advance(MINUTE).await;
        assert!(tests.place(&caller, id).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_operator_may_test_as_often_as_it_takes() {
        let tests = Tests::default();
        let id = PlayerId::mint(&SystemClock);
        for _test in 0..200 {
            drop(tests.place(&Caller::Operator(id), id).unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn players_who_test_no_more_are_forgotten() {
        let tests = Tests::default();
        for _player in 0..MAX_COUNTED {
            let (caller, id) = player();
            drop(tests.place(&caller, id).unwrap());
        }
        tokio::time::advance(MINUTE).await;
        let (caller, id) = player();
        drop(tests.place(&caller, id).unwrap());
        assert_eq!(tests.players.lock().unwrap().len(), 1);
    }
}
