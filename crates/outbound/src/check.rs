//! What the guard says of a line of text, for `guard check`.

use std::{net::IpAddr, str::FromStr as _};

use serde::Serialize;

use crate::{
    Config, Connector, Consumer, Error, Guard, Policy, Refusal, Rule, Schemes, Security, Target,
    URL_BYTES, Verdict,
};

/// What the guard says, in the form that `guard check --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The line as it was given.
    pub input: String,
    /// The answer.
    pub verdict: CheckVerdict,
    /// The rule that refused it, or what is wrong with it.
    pub rule: Option<&'static str>,
    /// The address that was judged; for a name that is allowed, the first.
    pub address: Option<IpAddr>,
    /// The sentence for people.
    #[serde(skip)]
    pub sentence: String,
}

/// Allowed, refused, or not something to judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckVerdict {
    /// `fetch_url` would go there.
    Allow,
    /// It would not.
    Block,
    /// It is malformed, or longer than is read.
    Error,
}

/// What a line is.
enum Subject {
    Address(IpAddr),
    Url(Target),
}

/// Judges a line without a look-up, and without this machine's own addresses. What the standard library parses as an address is
/// one; all else is a URL, and neither is trimmed. Exemptions do not count: they belong to a Village.
pub fn check_offline(line: &str) -> Check {
    let guard = Guard::offline(&Config::default());
    match subject(line) {
        Err(refusal) => refused(line, &refusal),
        Ok(Subject::Address(address)) => check_address(line, address),
        Ok(Subject::Url(target)) => match guard.judge_without_look_up(&target, Consumer::Fetch) {
            Ok(()) => allowed(line, target.address()),
            Err(refusal) => refused(line, &refusal),
        },
    }
}

/// Judges a line as `fetch_url` would right now: names are looked up, and the connector's exemptions and own addresses count.
pub async fn check(connector: &Connector, line: &str) -> Check {
    let target = match subject(line) {
        Err(refusal) => return refused(line, &refusal),
        Ok(Subject::Url(target)) => target,
        Ok(Subject::Address(address)) => {
            let host = match address {
                IpAddr::V4(v4) => url::Host::Ipv4(v4),
                IpAddr::V6(v6) => url::Host::Ipv6(v6),
            };
            match Target::new(host, 443, Security::Tls) {
                Ok(target) => target,
                Err(refusal) => return refused(line, &refusal),
            }
        }
    };
    match connector.approve(&target, Consumer::Fetch).await {
        Ok(approved) => allowed(line, approved.addresses.first().copied()),
        Err(Error::Refused(refusal)) => refused(line, &refusal),
        Err(other) => Check {
            input: line.to_owned(),
            verdict: CheckVerdict::Block,
            rule: Some("unresolvable"),
            address: None,
            sentence: other.to_string(),
        },
    }
}

fn subject(line: &str) -> Result<Subject, Refusal> {
    if let Ok(address) = IpAddr::from_str(line) {
        return Ok(Subject::Address(address));
    }
    let names_a_host = || url::Url::parse(line).is_ok_and(|url| url.host().is_some());
    if line.len() <= URL_BYTES && looks_like_an_address(line) && !names_a_host() {
        return Err(Refusal::malformed(
            "it looks like an IPv6 address and is not one; zone ids are not taken",
        ));
    }
    Target::parse(line, Schemes::Https).map(|(_url, target)| Subject::Url(target))
}

/// Whether a text that is no address was meant as one: groups of digits and colons where a URL has its scheme. `fe80::1%eth0`,
/// `fd00::/8` and `g::1` would pass for URLs with the schemes `fe80`, `fd00` and `g`, because the parser of URLs takes spaces, tabs
/// and line ends out and any letters for a scheme.
fn looks_like_an_address(line: &str) -> bool {
    let plain = line.replace(['\t', '\n', '\r'], "");
    let start = plain.trim_start_matches(|character| character <= ' ');
    // What comes after these is a path, a query, a fragment or a zone.
    let head = start.split(['/', '?', '#', '%']).next().unwrap_or_default();
    let groups: Vec<&str> = start.split(':').take(7).collect();
    let is_hexadecimal =
        |group: &str| group.len() <= 5 && group.bytes().all(|byte| byte.is_ascii_hexdigit());
    let could_be_meant =
        |group: &str| group.len() <= 4 && group.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match groups[..] {
        [first, "", _, ..] if could_be_meant(first) => true,
        [first, second, _, ..] if is_hexadecimal(first) => {
            is_hexadecimal(second) || head.contains("::")
        }
        // Six groups and another, with a letter that is no digit among them.
        [.., _] if groups.len() == 7 => groups[..6].iter().copied().all(could_be_meant),
        _ => false,
    }
}

fn check_address(line: &str, address: IpAddr) -> Check {
    match Policy::default().judge(address) {
        Verdict::Public => allowed(line, Some(address)),
        Verdict::Blocked(blocked) => Check {
            input: line.to_owned(),
            verdict: CheckVerdict::Block,
            rule: Some(blocked.rule.as_str()),
            address: Some(address),
            sentence: blocked.to_string(),
        },
    }
}

fn allowed(line: &str, address: Option<IpAddr>) -> Check {
    Check {
        input: line.to_owned(),
        verdict: CheckVerdict::Allow,
        rule: None,
        address,
        sentence: match address {
            Some(address) => format!("allowed: {address} is public or exempt"),
            None => "allowed, as far as can be said without a look-up".to_owned(),
        },
    }
}

fn refused(line: &str, refusal: &Refusal) -> Check {
    let verdict = if matches!(refusal.rule, Rule::Malformed | Rule::UrlTooLong) {
        CheckVerdict::Error
    } else {
        CheckVerdict::Block
    };
    Check {
        input: line.to_owned(),
        verdict,
        rule: Some(refusal.rule.as_str()),
        address: refusal.address,
        sentence: refusal.to_string(),
    }
}
