//! Every vector of kind `redirect` and `dns`, against the fetch-proxy's binary. Those that are a sentence stand in `described`.

use std::{collections::BTreeSet, net::IpAddr};

use proto::fetch::v1::fetch_response::Outcome;
use testkit::{
    dns::{Answer, Entry},
    origin::Reply,
};
use url::{Host, Position, Url};

use super::setup::{Verdict, World, in_the_internet, verdict};

/// The corpus stands with the guard.
const CORPUS: &str = include_str!("../../../../outbound/tests/it/guard.tsv");
/// More of the same kinds.
const MORE: &str = include_str!("more.tsv");
/// Where public names of the vectors live.
const PUBLIC_V4: &str = "93.184.216.34";
const PUBLIC_V6: &str = "2606:4700:4700::1111";

/// A vector that has to be played.
pub(super) struct Vector {
    pub(super) input: String,
    pub(super) kind: &'static str,
    pub(super) expected: Verdict,
    pub(super) reason: &'static str,
    /// Whether it stands in the corpus, and not among our own.
    is_published: bool,
}

/// How a vector is played.
pub(super) enum Play {
    /// From a URL, with a status and a `Location`.
    Redirect(String, u16, String),
    /// A URL, and what DNS says of its name.
    Answers(String, String),
    /// A sentence.
    Described,
}

impl Vector {
    pub(super) fn play(&self) -> Play {
        let is_url = self.input.starts_with("https://");
        if let Some((from, rest)) = self.input.split_once(" -> ")
            && is_url
            && let Some((status, location)) = rest.split_once(' ')
            && let Ok(status) = status.parse()
        {
            return Play::Redirect(from.to_owned(), status, location.to_owned());
        }
        if let Some((url, answers)) = self.input.split_once(" | ")
            && is_url
        {
            return Play::Answers(url.to_owned(), answers.to_owned());
        }
        Play::Described
    }
}

/// Every vector of these two kinds.
pub(super) fn vectors() -> Vec<Vector> {
    [CORPUS, MORE]
        .into_iter()
        .flat_map(|file| file.lines().map(move |line| (file, line)))
        .filter(|(_, line)| !line.starts_with('#') && !line.starts_with("input\t"))
        .filter_map(|(file, line)| {
            let columns: Vec<&str> = line.split('\t').collect();
            let [input, kind, expected, reason] = columns[..] else {
                panic!("not four columns: {line}");
            };
            ["redirect", "dns"].contains(&kind).then(|| Vector {
                input: unescape(input),
                kind,
                expected: match expected {
                    "allow" => Verdict::Allow,
                    "block" => Verdict::Block,
                    "error" => Verdict::Error,
                    other => panic!("unknown verdict {other}"),
                },
                reason,
                is_published: file == CORPUS,
            })
        })
        .collect()
}

/// The escapes that vectors of these kinds have.
fn unescape(text: &str) -> String {
    let mut characters = text.chars();
    let mut out = String::new();
    while let Some(character) = characters.next() {
        out.push(match (character, character == '\\') {
            (plain, false) => plain,
            (_, true) => match characters.next() {
                Some('\\') => '\\',
                Some('t') => '\t',
                other => panic!("unknown escape {other:?} in {text}"),
            },
        });
    }
    out
}

/// Every name that a certificate of this world must have.
fn names_in(vectors: &[Vector]) -> Vec<String> {
    let mut names = BTreeSet::new();
    for vector in vectors {
        let urls = match vector.play() {
            Play::Redirect(from, _status, location) => {
                let next = Url::parse(&from)
                    .ok()
                    .and_then(|url| url.join(&location).ok());
                vec![Url::parse(&from).ok(), next]
            }
            Play::Answers(url, _answers) => vec![Url::parse(&url).ok()],
            Play::Described => Vec::new(),
        };
        let hosts = urls.into_iter().flatten().filter_map(|url| {
            let name = match url.host()? {
                Host::Domain(name) => name.trim_end_matches('.').to_owned(),
                Host::Ipv4(address) => address.to_string(),
                Host::Ipv6(address) => address.to_string(),
            };
            (!name.is_empty()).then_some(name)
        });
        names.extend(hosts);
    }
    names.into_iter().collect()
}

#[test]
fn every_redirect_vector_holds() {
    in_the_internet(|internet| async move {
        let vectors = vectors();
        let world = World::start(internet, &names_in(&vectors)).await;
        for name in ["pub.test", "other.test", "sub.pub.test"] {
            world.host(name, &[PUBLIC_V4, PUBLIC_V6]);
        }
        world.host("private.test", &["10.0.0.5"]);
        world.host("mixed.test", &[PUBLIC_V4, "10.0.0.5"]);
        let proxy = world.fetch_proxy().await;
        let mut faults = Vec::new();
        let (mut published, mut ours) = (0, 0);
        for vector in &vectors {
            let Play::Redirect(from, status, location) = vector.play() else {
                continue;
            };
            *(if vector.is_published {
                &mut published
            } else {
                &mut ours
            }) += 1;
            let from = Url::parse(&from).unwrap();
            let mut first = Reply::status(status)
                .header("content-type", "text/plain")
                .piece("the first page");
            if location != "(missing)" {
                let value = if location == "(empty)" { "" } else { &location };
                first = first.header("location", value);
            }
            world.web.serve(&path_of(&from), first);
            let is_followed = [301, 302, 303, 307, 308].contains(&status);
            let next = from.join(&location).ok().filter(|_| is_followed);
            if let Some(next) = &next {
                let server = match next.port() {
                    Some(8443) => &world.web_8443,
                    _ => &world.web,
                };
                server.serve(&path_of(next), Reply::text("the next page"));
            }
            let before = world.destinations().len();
            let outcome = proxy.fetch(from.as_str()).await;
            let connections = world.destinations().len() - before;
            let (text, expected_connections) = match (vector.expected, &next) {
                (Verdict::Allow, Some(_)) => (Some("the next page"), 2),
                (Verdict::Allow, None) => (Some("the first page"), 1),
                (Verdict::Block | Verdict::Error, _) => (None, 1),
            };
            let got = match &outcome {
                Outcome::Page(page) => Some(page.text.trim()),
                Outcome::Refusal(_) => None,
            };
            if verdict(&outcome) != vector.expected
                || got != text
                || connections != expected_connections
            {
                faults.push(format!(
                    "{:?}: {} connections, {outcome:?}; expected {:?}: {}",
                    vector.input, connections, vector.expected, vector.reason
                ));
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        assert_only_public(&world);
        assert_eq!(published, 42, "the corpus was cut");
        println!(
            "redirect vectors with a Location that hold: {published} of {published}, and {ours} of our own"
        );
    });
}

#[test]
fn every_answer_vector_holds() {
    in_the_internet(|internet| async move {
        let vectors = vectors();
        let world = World::start(internet, &names_in(&vectors)).await;
        world.web.serve("/", Reply::text("the page"));
        let proxy = world.fetch_proxy().await;
        let mut faults = Vec::new();
        let (mut published, mut ours) = (0, 0);
        for vector in &vectors {
            let Play::Answers(url, answers) = vector.play() else {
                continue;
            };
            *(if vector.is_published {
                &mut published
            } else {
                &mut ours
            }) += 1;
            let host = Url::parse(&url).unwrap().domain().unwrap().to_owned();
            let addresses = script(&world, &host, &answers);
            let before = world.destinations().len();
            let outcome = proxy.fetch(&url).await;
            let destinations = &world.destinations()[before..];
            let (text, expected_connections) = match vector.expected {
                Verdict::Allow => (Some("the page"), 1),
                Verdict::Block | Verdict::Error => (None, 0),
            };
            let got = match &outcome {
                Outcome::Page(page) => Some(page.text.trim()),
                Outcome::Refusal(_) => None,
            };
            let are_as_answered = destinations
                .iter()
                .all(|destination| addresses.contains(&destination.ip()));
            if verdict(&outcome) != vector.expected
                || got != text
                || destinations.len() != expected_connections
                || !are_as_answered
            {
                faults.push(format!(
                    "{:?}: connections to {destinations:?}, {outcome:?}; expected {:?}: {}",
                    vector.input, vector.expected, vector.reason
                ));
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        assert_eq!(published, 43, "the corpus was cut");
        println!(
            "dns vectors with answers that hold: {published} of {published}, and {ours} of our own"
        );
    });
}

/// What a server is asked for.
fn path_of(url: &Url) -> String {
    url[Position::BeforePath..Position::AfterQuery].to_owned()
}

/// No connection went anywhere but to the public addresses of the vectors.
fn assert_only_public(world: &World) {
    let strays: Vec<_> = world
        .destinations()
        .into_iter()
        .filter(|to| ![PUBLIC_V4, PUBLIC_V6].contains(&&*to.ip().to_string()))
        .collect();
    assert!(strays.is_empty(), "connections to {strays:?}");
    assert_eq!(world.own.accepted(), 0);
}

/// Has DNS say of a name what a vector says, and returns the addresses in it.
fn script(world: &World, name: &str, answers: &str) -> Vec<IpAddr> {
    let whole = match answers {
        "NXDOMAIN" => Some(Answer::NxDomain),
        "NODATA" => Some(Answer::NoData),
        // What a validating server says of a signature that does not hold (RFC 4035 section 5.5).
        "SERVFAIL" | "DNSSEC-BOGUS" => Some(Answer::ServFail),
        "REFUSED" => Some(Answer::Refused),
        "TIMEOUT" => Some(Answer::Silence),
        _ => None,
    };
    if let Some(whole) = whole {
        world.says(name, whole.clone(), whole);
        return Vec::new();
    }
    let mut aliases: Vec<&str> = Vec::new();
    let mut plain = [None, None];
    let mut addresses = [Vec::new(), Vec::new()];
    for answer in answers.split(' ') {
        let (record, value) = answer.split_once('=').unwrap();
        let family = match record {
            "CNAME" => {
                aliases.push(value);
                continue;
            }
            "A" => 0,
            "AAAA" => 1,
            other => panic!("unknown record {other}"),
        };
        match value {
            "SERVFAIL" => plain[family] = Some(Answer::ServFail),
            "NXDOMAIN" => plain[family] = Some(Answer::NxDomain),
            "NODATA" | "(none)" => plain[family] = Some(Answer::NoData),
            address => addresses[family].push(address.parse::<IpAddr>().unwrap()),
        }
    }
    let answer_of = |family: usize| {
        let records = addresses[family].clone();
        match &plain[family] {
            Some(plain) => plain.clone(),
            None if records.is_empty() => Answer::NoData,
            None => Answer::Addresses(records),
        }
    };
    if aliases.is_empty() {
        world.says(name, answer_of(0), answer_of(1));
        return canonical(&addresses.concat());
    }
    // The whole chain in one answer, as servers that resolve for others give it.
    let names = [&[name], &aliases[..]].concat();
    let end = names[aliases.len()];
    let chain: Vec<Entry> = names
        .windows(2)
        .map(|link| Entry::alias(link[0], link[1]))
        .collect();
    let whole = |family: usize| {
        let records = addresses[family]
            .iter()
            .map(|address| Entry::address(end, &address.to_string()));
        Answer::Records(chain.iter().cloned().chain(records).collect())
    };
    world.says(name, whole(0), whole(1));
    canonical(&addresses.concat())
}

/// The addresses as a socket shows them.
fn canonical(addresses: &[IpAddr]) -> Vec<IpAddr> {
    addresses.iter().map(IpAddr::to_canonical).collect()
}
