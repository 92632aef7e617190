//! Which clients there are: one for each configuration and, where the server keeps a state, each Player.

mod slots;

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{FutureExt as _, future::join_all};
use kernel::PlayerId;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::slots::{Key, Learned, Slot, Slots, State, Step, busy, full, slow, still};
use super::{
    Haste, InUse, Listed, Target,
    client::{Client, Retired},
};
use crate::{
    Config, Endpoint, Failure,
    connect::{Connecting, Connection, connect},
    report,
};

/// How often it is looked for clients that nobody needs, at the least.
const ROUND: Duration = Duration::from_secs(15);
/// How long closing all clients may take at the end.
const LAST_GOODBYES: Duration = Duration::from_secs(8);
/// The first time for which a server that failed is left alone; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest time for which a server that failed is left alone.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The clients of this process.
#[derive(Debug)]
pub(super) struct Pool {
    config: Arc<Config>,
    connecting: Arc<Connecting>,
    tracker: TaskTracker,
    ended: CancellationToken,
    jitter: RandomState,
    slots: Mutex<Slots>,
}

impl Pool {
    pub(super) fn new(
        config: Arc<Config>,
        connecting: Arc<Connecting>,
        tracker: TaskTracker,
        ended: CancellationToken,
    ) -> Self {
        Self {
            config,
            connecting,
            tracker,
            ended,
            jitter: RandomState::new(),
            slots: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client for this configuration and Player. Everybody who waits for the same shares one attempt and its failure.
    pub(super) async fn client(
        self: &Arc<Self>,
        target: &Arc<Target>,
        principal: Option<PlayerId>,
        haste: Haste,
    ) -> Result<InUse, Failure> {
        let fingerprint = target.fingerprint();
        for _look in 0..slots::LOOKS {
            let (work, since, before) = match self.step(target, fingerprint, principal) {
                Step::Use(client) => return Ok(client),
                Step::Fail(failure) => return Err(failure),
                Step::Wait(work, since, before) => (work, since, before),
            };
            let connected = match haste.patience(since, before.as_ref()) {
                None => work.await,
                Some(patience) => tokio::time::timeout(patience, work)
                    .await
                    .unwrap_or_else(|_elapsed| Err(before.unwrap_or_else(|| still(target)))),
            };
            let client = InUse::new(connected?);
            // Connecting may have shown that the server keeps a state, and then the client is of the Player who connected.
            if client.serves(principal) && !client.is_broken() {
                return Ok(client);
            }
        }
        Err(busy(target))
    }

    fn step(
        self: &Arc<Self>,
        target: &Arc<Target>,
        fingerprint: [u8; 32],
        principal: Option<PlayerId>,
    ) -> Step {
        let mut slots = self.lock();
        if slots.closed {
            return Step::Fail(busy(target));
        }
        let key = slots.key(target, fingerprint, principal);
        let mut times = 0;
        let mut asleep = None;
        let mut before = None;
        if let Some(slot) = slots.by_key.get(&key) {
            match &slot.state {
                State::Working(work) => {
                    return Step::Wait(work.clone(), slot.since, slot.before.clone());
                }
                State::Failing { failure, until, .. } if Instant::now() < *until => {
                    return Step::Fail(failure.clone());
                }
                State::Failing {
                    failure,
                    times: failed,
                    ..
                } => {
                    times = *failed;
                    before = Some(failure.clone());
                }
                State::Ready(client) if client.is_broken() => {}
                State::Ready(client) => {
                    let probe_after = Duration::from_secs(self.config.probe_after_seconds);
                    if client.idle() < probe_after {
                        return Step::Use(InUse::new(Arc::clone(client)));
                    }
                    asleep = Some(Arc::clone(client));
                }
            }
        }
        if asleep.is_none() {
            if let Some(dead) = slots.by_key.remove(&key) {
                self.bury(dead);
            }
            if let Err(failure) = self.make_room(&mut slots, target) {
                return Step::Fail(failure);
            }
        }
        slots.attempts += 1;
        let attempt = slots.attempts;
        let pool = Arc::clone(self);
        let wanted = Arc::clone(target);
        let work = pool.work(wanted, key, principal, attempt, asleep, times);
        let work = work.boxed().shared();
        let slot = Slot {
            server_id: target.server_id.clone(),
            generation: target.generation,
            attempt,
            since: Instant::now(),
            before: before.clone(),
            state: State::Working(work.clone()),
        };
        slots.by_key.insert(key, slot);
        drop(slots);
        // It goes on when whoever asked has left.
        self.tracker.spawn(work.clone().map(drop));
        Step::Wait(work, Instant::now(), before)
    }

    /// Makes a client, or makes sure of one that was idle for long.
    async fn work(
        self: Arc<Self>,
        target: Arc<Target>,
        key: Key,
        principal: Option<PlayerId>,
        attempt: u64,
        asleep: Option<Arc<Client>>,
        times: u32,
    ) -> Result<Arc<Client>, Failure> {
        if let Some(client) = asleep {
            if client.probe().await {
                return self.settle(&target, key, attempt, client);
            }
            self.close_later(client);
        }
        let connected = tokio::select! {
            connected = self.connect(&target, key.fingerprint, principal) => connected,
            () = self.ended.cancelled() => Err(busy(&target)),
        };
        match connected {
            Ok(client) => self.settle(&target, key, attempt, client),
            Err(failure) => {
                self.remember(key, attempt, &failure, times);
                Err(failure)
            }
        }
    }

    async fn connect(
        &self,
        target: &Target,
        fingerprint: [u8; 32],
        principal: Option<PlayerId>,
    ) -> Result<Arc<Client>, Failure> {
        let learned = self.lock().learned.get(&fingerprint).copied();
        let limit = self.limit(target, learned.is_none());
        let era = learned.map(|learned| learned.era).or(target.era);
        let mut event = report::connection(target);
        let connected = event.within(connect(&target.endpoint, &self.connecting, era));
        let connected = tokio::time::timeout(limit, connected).await;
        let connected = connected.unwrap_or_else(|_elapsed| Err(slow(target, limit)));
        report::connected(&mut event, connected.as_ref().map(Connection::facts));
        drop(event);
        let connection = connected?;
        let learned = Learned {
            stateful: connection.is_stateful(),
            era: connection.facts().era,
        };
        let owner = learned.stateful.then_some(principal).flatten();
        self.lock().learn(fingerprint, learned);
        Ok(Arc::new(Client::new(
            Arc::clone(&self.config),
            connection,
            owner,
            self.tracker.clone(),
        )))
    }

    /// How long connecting may take. A command that starts for the first time may have to install itself.
    fn limit(&self, target: &Target, first: bool) -> Duration {
        match &target.endpoint {
            Endpoint::Stdio(_) if first => Duration::from_secs(self.config.first_start_seconds),
            Endpoint::Stdio(_) | Endpoint::Http(_) | Endpoint::Sse(_) => self.config.connect(),
        }
    }

    /// Puts a client where those look for it that it may serve.
    fn settle(
        &self,
        target: &Target,
        key: Key,
        attempt: u64,
        client: Arc<Client>,
    ) -> Result<Arc<Client>, Failure> {
        let mut slots = self.lock();
        let ours = |slot: &Slot| slot.attempt == attempt;
        if slots.closed || !slots.by_key.get(&key).is_some_and(ours) {
            drop(slots);
            // The server was changed while this went on.
            self.close_later(client);
            return Err(busy(target));
        }
        let home = Key {
            principal: client.owner(),
            ..key
        };
        if home != key {
            slots.by_key.remove(&key);
            if let Some(Slot {
                state: State::Ready(there),
                ..
            }) = slots.by_key.get(&home)
                && !there.is_broken()
            {
                let there = Arc::clone(there);
                drop(slots);
                self.close_later(client);
                return Ok(there);
            }
        }
        let slot = Slot {
            server_id: target.server_id.clone(),
            generation: target.generation,
            attempt,
            since: Instant::now(),
            before: None,
            state: State::Ready(Arc::clone(&client)),
        };
        let before = slots.by_key.insert(home, slot);
        drop(slots);
        if let Some(before) = before
            && home != key
        {
            self.bury(before);
        }
        Ok(client)
    }

    fn remember(&self, key: Key, attempt: u64, failure: &Failure, times: u32) {
        let pause = FIRST_PAUSE
            .saturating_mul(1 << times.min(16))
            .min(LONGEST_PAUSE);
        // Between three and five quarters of it, so that replicas do not come back together.
        let quarter = self.jitter.hash_one((attempt, times)) % 512;
        let pause = pause.mul_f64(0.75 + f64::from(u32::try_from(quarter).unwrap_or(0)) / 1_024.0);
        let mut slots = self.lock();
        if let Some(slot) = slots.by_key.get_mut(&key)
            && slot.attempt == attempt
        {
            slot.state = State::Failing {
                failure: failure.clone(),
                until: Instant::now() + pause,
                times: times + 1,
            };
        }
    }

    /// Makes sure that one more client is within the bounds: one that is idle for the longest makes way.
    fn make_room(&self, slots: &mut Slots, target: &Target) -> Result<(), Failure> {
        let of_server = |slot: &Slot| slot.server_id == target.server_id;
        let any = |_: &Slot| true;
        while slots.count(of_server) >= self.config.max_clients_per_server {
            let idle = slots.take_idlest(of_server).ok_or_else(|| full(target))?;
            self.close_later(idle);
        }
        while slots.count(any) >= self.config.max_clients {
            let idle = slots.take_idlest(any).ok_or_else(|| full(target))?;
            self.close_later(idle);
        }
        Ok(())
    }

    /// Connects and lists with a client of its own, whatever there is. One that works is kept for this Player's turns.
    pub(super) async fn try_out(
        &self,
        target: &Arc<Target>,
        player: Option<PlayerId>,
    ) -> Result<Listed, Failure> {
        let limit = self.limit(target, true);
        // A test believes nothing: a server that changed its era since is met as it is.
        let connected = connect(&target.endpoint, &self.connecting, None);
        let connected = tokio::time::timeout(limit, connected).await;
        let connection = connected.unwrap_or_else(|_elapsed| Err(slow(target, limit)))?;
        let learned = Learned {
            stateful: connection.is_stateful(),
            era: connection.facts().era,
        };
        let config = Arc::clone(&self.config);
        let owner = learned.stateful.then_some(player).flatten();
        let client = Client::new(config, connection, owner, self.tracker.clone());
        let client = InUse::new(Arc::new(client));
        let listed = client.shared().listed(&target.slug, Haste::None).await;
        let kept = player.is_some()
            && listed.is_ok()
            && self.adopt(target, learned, Arc::clone(client.shared()));
        if !kept {
            self.close_later(Arc::clone(client.shared()));
        }
        listed
    }

    /// Keeps a client that was made outside of the pool, unless there is one already or no room.
    fn adopt(&self, target: &Target, learned: Learned, client: Arc<Client>) -> bool {
        let fingerprint = target.fingerprint();
        let key = Key {
            fingerprint,
            principal: client.owner(),
        };
        let mut slots = self.lock();
        let is_taken = slots
            .by_key
            .get(&key)
            .is_some_and(|slot| match &slot.state {
                State::Working(_) => true,
                State::Ready(there) => !there.is_broken(),
                State::Failing { .. } => false,
            });
        if slots.closed || is_taken || self.make_room(&mut slots, target).is_err() {
            return false;
        }
        slots.learn(fingerprint, learned);
        slots.attempts += 1;
        let slot = Slot {
            server_id: target.server_id.clone(),
            generation: target.generation,
            attempt: slots.attempts,
            since: Instant::now(),
            before: None,
            state: State::Ready(client),
        };
        if let Some(before) = slots.by_key.insert(key, slot) {
            self.bury(before);
        }
        true
    }

    /// Closes the clients of a server's older generations; of all of them when it is gone.
    pub(super) fn changed(&self, server_id: &str, generation: Option<u64>) {
        let why = match generation {
            Some(_) => Retired::Changed,
            None => Retired::Removed,
        };
        let old: Vec<Slot> = {
            let mut slots = self.lock();
            let is_old = |slot: &Slot| {
                slot.server_id == server_id
                    && generation.is_none_or(|generation| slot.generation < generation)
            };
            let keys: Vec<Key> = slots
                .by_key
                .iter()
                .filter(|(_, slot)| is_old(slot))
                .map(|(key, _)| *key)
                .collect();
            keys.iter()
                .filter_map(|key| slots.by_key.remove(key))
                .collect()
        };
        for slot in old {
            if let State::Ready(client) = slot.state {
                client.retire(why);
                self.close_later(client);
            }
        }
    }

    /// How many clients there are, and are being made.
    pub(super) fn count(&self) -> usize {
        self.lock().count(|_| true)
    }

    /// Closes everything, and makes nothing any more.
    pub(super) async fn close(&self) {
        let slots: Vec<Slot> = {
            let mut slots = self.lock();
            slots.closed = true;
            slots.by_key.drain().map(|(_, slot)| slot).collect()
        };
        let clients = slots.into_iter().filter_map(|slot| match slot.state {
            State::Ready(client) => Some(client),
            State::Working(_) | State::Failing { .. } => None,
        });
        let goodbyes = clients.map(|client| async move {
            client.retire(Retired::Changed);
            client.close().await;
        });
        drop(tokio::time::timeout(LAST_GOODBYES, join_all(goodbyes)).await);
    }

    /// Looks for clients that nobody needs, until the end.
    pub(super) fn attend(self: &Arc<Self>) {
        let pool = Arc::clone(self);
        let idle = Duration::from_secs(self.config.idle_seconds);
        let round = (idle / 4).clamp(Duration::from_millis(250), ROUND);
        self.tracker.spawn(async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(round) => pool.reap(idle),
                    () = pool.ended.cancelled() => break,
                }
            }
            pool.close().await;
        });
    }

    fn reap(&self, idle: Duration) {
        let gone: Vec<Slot> = {
            let mut slots = self.lock();
            let now = Instant::now();
            let is_over = |slot: &Slot| match &slot.state {
                State::Working(_) => false,
                State::Ready(client) => {
                    !client.is_in_use() && (client.is_broken() || client.idle() >= idle)
                }
                // Longer than any pause, so that a server which fails again is still known for it.
                State::Failing { until, .. } => now > *until + 2 * LONGEST_PAUSE,
            };
            let keys: Vec<Key> = slots
                .by_key
                .iter()
                .filter(|(_, slot)| is_over(slot))
                .map(|(key, _)| *key)
                .collect();
            keys.iter()
                .filter_map(|key| slots.by_key.remove(key))
                .collect()
        };
        for slot in gone {
            self.bury(slot);
        }
    }

    fn bury(&self, slot: Slot) {
        if let State::Ready(client) = slot.state {
            self.close_later(client);
        }
    }

    /// Closes a client once nobody uses it any more, or at once if it was retired.
    fn close_later(&self, client: Arc<Client>) {
        let patience = Duration::from_secs(self.config.call_total_seconds);
        let ended = self.ended.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = client.unused() => {}
                _ = client.retired() => {}
                () = tokio::time::sleep(patience) => {}
                () = ended.cancelled() => {}
            }
            client.close().await;
        });
    }
}
