//! DNS rebinding: names that are public when they are judged, and would be private if anybody asked again.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use proto::fetch::v1::{RefusalReason, fetch_response::Outcome};
use serde_json::{Value, json};
use testkit::{
    dns::{Answer, Family},
    netns::Internet,
    origin::Reply,
    provider::Step,
};

use super::setup::{Client, Tester, World, in_the_internet, refusal};
use crate::village::{Options, Shape, Village};

/// Fetches of one run.
const FETCHES: usize = 1_000;
/// Fetches at the same time.
const AT_ONCE: usize = 16;
/// Where names are when they are judged.
const PUBLIC: [&str; 2] = ["93.184.216.34", "2606:4700:4700::1111"];
/// Where they are when somebody asks again: elsewhere inside, on this machine, and in spellings of both.
const PRIVATE: [&str; 14] = [
    "10.0.0.5",
    "172.16.0.9",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "127.0.0.1",
    "198.51.100.1",
    "0.0.0.0",
    "fd00::5",
    "::1",
    "2001:db8:1::1",
    "::ffff:10.0.0.5",
    "::ffff:127.0.0.1",
    "64:ff9b::a00:5",
];

/// How a name changes from one look-up to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trick {
    /// Public, and private ever after.
    Turns,
    /// Private, and public ever after.
    TurnsBack,
    /// Public and private at once, public first.
    MixedPublicFirst,
    /// Public and private at once, private first.
    MixedPrivateFirst,
    /// Public; its page redirects to the same name, which is private by then.
    TurnsBetweenHops,
    /// Public; its page redirects to the same name, which is public and private by then.
    MixedBetweenHops,
    /// One name for all: public and private by turns.
    Alternates,
}

impl Trick {
    const ALL: [Self; 7] = [
        Self::Turns,
        Self::TurnsBack,
        Self::MixedPublicFirst,
        Self::MixedPrivateFirst,
        Self::TurnsBetweenHops,
        Self::MixedBetweenHops,
        Self::Alternates,
    ];

    /// The addresses of each look-up; the last stay.
    fn answers<'a>(self, public: &'a str, private: &'a str) -> Vec<Vec<&'a str>> {
        match self {
            Self::Turns | Self::TurnsBetweenHops => vec![vec![public], vec![private]],
            Self::TurnsBack => vec![vec![private], vec![public]],
            Self::MixedPublicFirst => vec![vec![public, private]],
            Self::MixedPrivateFirst => vec![vec![private, public]],
            Self::MixedBetweenHops => vec![vec![public], vec![public, private]],
            Self::Alternates => [public, private]
                .repeat(FETCHES)
                .into_iter()
                .map(|one| vec![one])
                .collect(),
        }
    }

    /// How many requests come to the public server, of so many fetches of one name.
    fn requests(self, fetches: usize) -> usize {
        match self {
            Self::Turns | Self::TurnsBetweenHops | Self::MixedBetweenHops => fetches,
            Self::TurnsBack | Self::MixedPublicFirst | Self::MixedPrivateFirst => 0,
            Self::Alternates => fetches.div_ceil(2),
        }
    }

    /// How often each family of the name is looked up in a fetch.
    fn look_ups(self) -> usize {
        match self {
            Self::TurnsBetweenHops | Self::MixedBetweenHops => 2,
            Self::Turns
            | Self::TurnsBack
            | Self::MixedPublicFirst
            | Self::MixedPrivateFirst
            | Self::Alternates => 1,
        }
    }
}

/// One fetch of a name that plays a trick.
struct Attempt {
    trick: Trick,
    name: String,
    private: &'static str,
}

impl Attempt {
    fn of(number: usize) -> Self {
        let trick = Trick::ALL[number % Trick::ALL.len()];
        let round = number / Trick::ALL.len();
        if trick == Trick::Alternates {
            return Self {
                trick,
                name: "by-turns.rebind.test".to_owned(),
                private: PRIVATE[0],
            };
        }
        Self {
            trick,
            name: format!("name-{number}.rebind.test"),
            private: PRIVATE[round % PRIVATE.len()],
        }
    }

    fn script(&self, world: &World, number: usize) {
        // Those who take turns are of one family, or the other's silence would stand between.
        let choice = if self.trick == Trick::Alternates {
            0
        } else {
            number % PUBLIC.len()
        };
        let public = PUBLIC[choice];
        let answers = self.trick.answers(public, self.private);
        for family in [Family::V4, Family::V6] {
            let sequence = answers.iter().map(|addresses| {
                let of_family: Vec<IpAddr> = addresses
                    .iter()
                    .map(|address| address.parse().unwrap())
                    .filter(|address: &IpAddr| address.is_ipv4() == (family == Family::V4))
                    .collect();
                if of_family.is_empty() {
                    Answer::NoData
                } else {
                    Answer::Addresses(of_family)
                }
            });
            world.dns.script(&self.name, family, sequence);
        }
    }

    /// The page, which every name has; or one that redirects to the same name.
    fn url(&self) -> String {
        let path = if self.trick.look_ups() > 1 {
            format!("again/{}", self.name)
        } else {
            String::new()
        };
        format!("https://{}/{path}", self.name)
    }

    /// Checks what came of it: a page from the public address, or a refusal that names the private one and a rule.
    fn check(&self, outcome: Outcome) {
        let is_page = matches!(outcome, Outcome::Page(_));
        match (self.trick, is_page) {
            (Trick::Turns | Trick::Alternates, true) => {
                assert_eq!(super::setup::page(&outcome).trim(), "a public page");
            }
            (Trick::Turns, false) => panic!("{}: {outcome:?}", self.name),
            (trick, _) => {
                let refused = refusal(outcome);
                let facts = (refused.reason(), refused.address.as_str());
                assert_eq!(
                    facts,
                    (RefusalReason::Blocked, self.private),
                    "{trick:?} {}: {refused:?}",
                    self.name
                );
                assert!(!refused.rule.is_empty(), "{refused:?}");
                let hop = u32::try_from(trick.look_ups()).unwrap() - 1;
                assert_eq!(refused.hop, hop, "{trick:?} {}: {refused:?}", self.name);
            }
        }
    }
}

#[test]
fn a_village_reaches_nothing_private_by_a_thousand_rebinding_names() {
    in_the_internet(|internet| async move {
        let world = world(internet).await;
        let attempts = attempts(&world);
        let tester = Tester::new();
        let settings = [world.settings(), tester.settings()].concat();
        let mut village = Village::start_with(Shape::Embedded, Options { settings }).await;
        let client = tester.client(&village.grpc_address("agentsville").await);
        fetch_all(&client, &attempts).await;
        turns_fare_no_better(&village, &world).await;
        nothing_private_was_reached(&world, &attempts);
        village.finish().await;
    });
}

#[test]
fn a_fetch_proxy_alone_reaches_nothing_private_by_a_thousand_rebinding_names() {
    in_the_internet(|internet| async move {
        let world = world(internet).await;
        let attempts = attempts(&world);
        let proxy = world.fetch_proxy().await;
        fetch_all(proxy.client(), &attempts).await;
        nothing_private_was_reached(&world, &attempts);
    });
}

async fn world(internet: Arc<Internet>) -> World {
    let world = World::start(internet, &["*.rebind.test".to_owned()]).await;
    world.web.serve("/", Reply::text("a public page"));
    world
}

/// Every fetch, once DNS and the web server know what to do with it.
fn attempts(world: &World) -> Vec<Attempt> {
    let attempts: Vec<Attempt> = (0..FETCHES).map(Attempt::of).collect();
    for (number, attempt) in attempts.iter().enumerate() {
        // Once for all who share a name.
        if attempt.trick != Trick::Alternates || number < Trick::ALL.len() {
            attempt.script(world, number);
        }
        let home = format!("https://{}/", attempt.name);
        let again = format!("/again/{}", attempt.name);
        world.web.serve(&again, Reply::redirect(302, &home));
    }
    attempts
}

fn nothing_private_was_reached(world: &World, attempts: &[Attempt]) {
    let (public, private) = counted(world);
    println!(
        "{FETCHES} fetches: {public} connections to the public addresses, {private} to private ones, {} to the Village's own",
        world.own.accepted()
    );
    assert!(public > 0);
    assert_eq!((private, world.own.accepted()), (0, 0));
    every_connection_was_judged(world, attempts);
    the_counters_count(world);
}

/// All fetches, many at the same time; those that share a name one after another, since questions that are on their way are not
/// asked twice.
async fn fetch_all(client: &Client, attempts: &[Attempt]) {
    let fetch = async |attempt: &Attempt| attempt.check(client.fetch(&attempt.url()).await);
    let is_shared = |attempt: &&Attempt| attempt.trick == Trick::Alternates;
    let one_by_one = async {
        for attempt in attempts.iter().filter(is_shared) {
            fetch(attempt).await;
        }
    };
    let own_names = attempts.iter().filter(|attempt| !is_shared(attempt));
    let at_once = stream::iter(own_names).for_each_concurrent(AT_ONCE, fetch);
    tokio::join!(one_by_one, at_once);
}

/// An NPC reads a name that is public, and cannot once it has turned.
async fn turns_fare_no_better(village: &Village, world: &World) {
    let attempt = Attempt {
        trick: Trick::Turns,
        name: "turn.rebind.test".to_owned(),
        private: "169.254.169.254",
    };
    attempt.script(world, 0);
    village.npc("reader", "openai/scripted");
    village.cli_json(&["grant", "add", "reader", "tool:fetch_url"]);
    for (conversation, state) in [("first", "output-available"), ("second", "output-error")] {
        let call = Step::new().call("fetch_url", &json!({"url": attempt.url()}));
        let answer = Step::new().text("Read.");
        village.chat_completions.script([call, answer]);
        village.chat("reader", conversation, "Read it.").await;
        let shown = village.conversation(conversation).await;
        let parts = shown["messages"][1]["parts"].as_array().unwrap().clone();
        let tool = parts
            .into_iter()
            .find(|part| part["type"] == "dynamic-tool");
        let tool = tool.unwrap_or(Value::Null);
        assert_eq!(tool["state"], state, "{tool}");
        assert_eq!(
            tool.to_string().contains("rule metadata"),
            state == "output-error",
            "{tool}"
        );
    }
}

/// Connections to the public addresses, and to all others of the world.
fn counted(world: &World) -> (usize, usize) {
    let to = world
        .web
        .destinations()
        .into_iter()
        .chain(world.web_8443.destinations());
    let (public, private): (Vec<SocketAddr>, Vec<SocketAddr>) =
        to.partition(|to| PUBLIC.contains(&&*to.ip().to_string()));
    (public.len(), private.len())
}

/// A connection without a look-up of its own would be one that nobody judged.
fn every_connection_was_judged(world: &World, attempts: &[Attempt]) {
    let mut look_ups: BTreeMap<(String, bool), usize> = BTreeMap::new();
    for (name, family) in world.dns.queries() {
        *look_ups.entry((name, family == Family::V4)).or_default() += 1;
    }
    let mut requests: BTreeMap<String, usize> = BTreeMap::new();
    for request in world.web.requests() {
        *requests.entry(request.host).or_default() += 1;
    }
    assert_eq!(
        world.web.accepted(),
        requests.values().sum::<usize>(),
        "a connection carries one request"
    );
    let mut fetches: BTreeMap<(&str, Trick), usize> = BTreeMap::new();
    for attempt in attempts {
        *fetches.entry((&attempt.name, attempt.trick)).or_default() += 1;
    }
    for ((name, trick), fetches) in fetches {
        for is_v4 in [true, false] {
            let asked = look_ups.get(&(name.to_owned(), is_v4)).copied();
            let should = Some(fetches * trick.look_ups());
            assert_eq!(asked, should, "{trick:?} {name}: look-ups, IPv4: {is_v4}");
        }
        let came = requests.get(name).copied().unwrap_or_default();
        assert_eq!(came, trick.requests(fetches), "{trick:?} {name}: requests");
    }
}

/// That none was counted says something only if one would have been.
fn the_counters_count(world: &World) {
    for address in PRIVATE {
        let to = SocketAddr::new(address.parse().unwrap(), 443);
        let before = counted(world).1 + world.own.accepted();
        let village = &world.internet.village;
        village
            .run(|| TcpStream::connect_timeout(&to, Duration::from_secs(10)))
            .unwrap_or_else(|problem| panic!("{to}: {problem}"));
        let is_counted = || counted(world).1 + world.own.accepted() > before;
        while !is_counted() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
