//! Every vector of the corpus that needs no network of its own.

use outbound::{CheckVerdict, Rule, Schemes, Target, check_offline};
use testkit::{
    dns::{Answer, Entry, Family, ScriptedDns},
    origin::Authority,
};
use url::Url;

use crate::support::connector;

struct Vector {
    input: String,
    expected: CheckVerdict,
    reason: &'static str,
}

/// The corpus, and more of the same.
const PUBLISHED: &str = include_str!("guard.tsv");
const MORE: &str = include_str!("more.tsv");

/// The vectors of one kind.
fn vectors(corpus: &'static str, kind: &str) -> Vec<Vector> {
    corpus
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("input\t"))
        .map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            let [input, kind, expected, reason] = columns[..] else {
                panic!("not four columns: {line}");
            };
            (input, kind, expected, reason)
        })
        .filter(|&(_, of, _, _)| of == kind)
        .map(|(input, _, expected, reason)| Vector {
            input: unescape(input),
            expected: match expected {
                "allow" => CheckVerdict::Allow,
                "block" => CheckVerdict::Block,
                "error" => CheckVerdict::Error,
                other => panic!("unknown verdict {other}"),
            },
            reason,
        })
        .collect()
}

fn unescape(text: &str) -> String {
    let mut characters = text.chars();
    let mut out = String::new();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        let escaped = match characters.next().expect("something after a backslash") {
            '\\' => '\\',
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'x' => code_point(&characters.by_ref().take(2).collect::<String>()),
            'u' => code_point(
                &characters
                    .by_ref()
                    .skip(1)
                    .take_while(|&digit| digit != '}')
                    .collect::<String>(),
            ),
            other => panic!("unknown escape {other}"),
        };
        out.push(escaped);
    }
    out
}

fn code_point(digits: &str) -> char {
    u32::from_str_radix(digits, 16)
        .ok()
        .and_then(char::from_u32)
        .expect("a code point")
}

/// Judges them all; what it returns says how many there were.
fn assert_all_hold(corpus: &'static str, kind: &str, count: usize) -> String {
    let vectors = vectors(corpus, kind);
    assert_eq!(vectors.len(), count, "the corpus was cut");
    let wrong: Vec<String> = vectors
        .iter()
        .filter_map(|vector| {
            let check = check_offline(&vector.input);
            (check.verdict != vector.expected).then(|| {
                format!(
                    "{:?}: {:?} by {:?}, expected {:?}: {}",
                    vector.input, check.verdict, check.rule, vector.expected, vector.reason
                )
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    counted(kind, &vectors)
}

fn counted(kind: &str, vectors: &[Vector]) -> String {
    let expected = |verdict| {
        vectors
            .iter()
            .filter(|vector| vector.expected == verdict)
            .count()
    };
    format!(
        "{kind}: {} vectors hold ({} allow, {} block, {} error)",
        vectors.len(),
        expected(CheckVerdict::Allow),
        expected(CheckVerdict::Block),
        expected(CheckVerdict::Error)
    )
}

#[test]
fn every_address_vector_holds() {
    println!("{}", assert_all_hold(PUBLISHED, "ip", 273));
    println!("{}", assert_all_hold(MORE, "ip", 1_021));
}

#[test]
fn every_url_vector_holds() {
    println!("{}", assert_all_hold(PUBLISHED, "url", 240));
    println!("{}", assert_all_hold(MORE, "url", 1_283));
}

/// The `Location`s of the corpus, judged as a redirect's next hop is: joined to where it came from, then as any URL.
#[test]
fn every_single_redirect_vector_holds_for_its_next_hop() {
    let mut judged = 0;
    for vector in vectors(PUBLISHED, "redirect") {
        let Some((from, rest)) = vector.input.split_once(" -> ") else {
            continue;
        };
        let Some(from) = Url::parse(from).ok().filter(|url| url.scheme() == "https") else {
            continue;
        };
        let (status, location) = rest.split_once(' ').expect("a status and a location");
        let is_resolved_by_dns = ["private.test", "mixed.test"]
            .iter()
            .any(|name| location.contains(name));
        let is_followed = ["301", "302", "303", "307", "308"].contains(&status);
        if !is_followed || is_resolved_by_dns || location.starts_with('(') {
            continue;
        }
        judged += 1;
        let verdict = match from.join(location) {
            Err(_) => CheckVerdict::Error,
            Ok(next) => check_offline(next.as_str()).verdict,
        };
        assert_eq!(
            verdict, vector.expected,
            "{} {}",
            vector.input, vector.reason
        );
    }
    println!("redirect: {judged} vectors hold that need no server");
    assert!(judged >= 30, "{judged}");
}

/// The answers of the corpus, served by a real DNS server. What is allowed is not connected to.
#[tokio::test]
async fn every_answer_vector_holds() {
    let authority = Authority::new();
    let mut judged = 0;
    for vector in vectors(PUBLISHED, "dns") {
        let Some((url, answers)) = vector.input.split_once(" | ") else {
            continue;
        };
        judged += 1;
        let dns = ScriptedDns::start().await;
        let target = Target::parse(url, Schemes::Https).expect("a target").1;
        script(&dns, target.name().expect("a name"), answers);
        let outcome = connector(&dns, &authority, Vec::new())
            .approve(&target, outbound::Consumer::Fetch)
            .await;
        assert_eq!(
            outcome.is_ok(),
            vector.expected == CheckVerdict::Allow,
            "{} {}: {outcome:?}",
            vector.input,
            vector.reason
        );
    }
    println!("dns: {judged} vectors hold that are answers alone");
    assert!(judged > 38, "{judged}");
}

/// Answers as the corpus writes them: a word for both families, or records of each, under an alias where there is one.
fn script(dns: &ScriptedDns, name: &str, answers: &str) {
    let mut owner = name.to_owned();
    let mut aliases = Vec::new();
    let mut addresses = [(Family::V4, Vec::new()), (Family::V6, Vec::new())];
    for answer in answers.split(' ') {
        let Some((key, value)) = answer.split_once('=') else {
            let word = word(answer).expect("a word for an answer");
            dns.script(name, Family::V4, [word.clone()]);
            dns.script(name, Family::V6, [word]);
            return;
        };
        let place = match key {
            "CNAME" => {
                aliases.push(Entry::alias(&owner, value));
                value.clone_into(&mut owner);
                continue;
            }
            "A" => 0,
            "AAAA" => 1,
            other => panic!("unknown record {other}"),
        };
        let (family, found) = &mut addresses[place];
        match word(value) {
            Some(word) => dns.script(name, *family, [word]),
            None => found.push(Entry::address(&owner, value)),
        }
    }
    let has_addresses = addresses.iter().any(|(_, found)| !found.is_empty());
    for (family, found) in addresses {
        if !found.is_empty() {
            let records = [aliases.clone(), found].concat();
            dns.script(name, family, [Answer::Records(records)]);
        }
        if !has_addresses {
            // Aliases that lead nowhere: each name has its own.
            for alias in &aliases {
                dns.script(&alias.name, family, [Answer::Records(vec![alias.clone()])]);
            }
        }
    }
}

fn word(word: &str) -> Option<Answer> {
    Some(match word {
        "NXDOMAIN" => Answer::NxDomain,
        "NODATA" | "(none)" => Answer::NoData,
        "SERVFAIL" | "DNSSEC-BOGUS" => Answer::ServFail,
        "REFUSED" => Answer::Refused,
        "TIMEOUT" => Answer::Silence,
        _ => return None,
    })
}

#[test]
fn a_check_says_which_rule_refused_which_address() {
    let check = check_offline("https://[64:ff9b::7f00:1]:8443/x");
    assert_eq!(
        serde_json::to_string(&check).expect("JSON"),
        r#"{"input":"https://[64:ff9b::7f00:1]:8443/x","verdict":"block","rule":"loopback","address":"64:ff9b::7f00:1"}"#
    );
    assert_eq!(
        check.sentence,
        "[64:ff9b::7f00:1] is refused by rule loopback: 64:ff9b::7f00:1 embeds 127.0.0.1, which lies in 127.0.0.0/8 (loopback, RFC 1122)"
    );
    let check = check_offline("http://example.com/");
    assert_eq!(
        (check.verdict, check.rule),
        (CheckVerdict::Block, Some(Rule::Scheme.as_str()))
    );
    let long = format!("https://example.com/?{}", "a".repeat(2_048));
    assert_eq!(check_offline(&long).rule, Some("url-too-long"));
}
