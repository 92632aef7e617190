//! URL texts made by a grammar and then damaged, and what must hold for the guard whatever they are.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    panic::{AssertUnwindSafe, catch_unwind},
};

use outbound::{CheckVerdict, Schemes, Target, URL_BYTES, check_offline};
use url::Url;

use super::{
    addresses::{self, Random},
    oracle::Oracle,
};

/// Where the redirects of the fuzzer come from.
const BASE: &str = "https://public.example/directory/page?query";

const NAMES: [&str; 25] = [
    "example.com",
    "sub.example.org",
    "localhost",
    "a.localhost",
    "localhost.localdomain",
    "metadata.google.internal",
    "metadata",
    "metadata.goog",
    "printer.local",
    "redis",
    "kubernetes.default.svc",
    "router.home.arpa",
    "abc.onion",
    "xn--mnchen-3ya.de",
    "münchen.de",
    "ﬁle.example",
    "faß.de",
    "xn--",
    "xn--a",
    "under_score.example.com",
    "a..b",
    ".",
    "example.1",
    "0x7f.example",
    "нато.example",
];

const PATHS: [&str; 12] = [
    "",
    "/",
    "/a/b?c=d#e",
    "?q",
    "#f",
    "/../..//x",
    "/@127.0.0.1/",
    "\\@127.0.0.1",
    "/%2e%2e/%00",
    "/ä?ö#ü",
    "/?u=http://127.0.0.1/",
    "//10.0.0.1/",
];

const SCHEMES: [&str; 12] = [
    "https",
    "https",
    "https",
    "https",
    "http",
    "HTTPS",
    "ftp",
    "file",
    "data",
    "javascript",
    "ws",
    "fe80",
];

/// What a mutation puts in: characters that parsers disagree about.
const ODD: [char; 40] = [
    '\0', '\t', '\n', '\r', ' ', '!', '"', '#', '%', '&', '\'', '*', '+', ',', '-', '.', '/', ':',
    ';', '<', '=', '>', '?', '@', '[', '\\', ']', '^', '_', '`', '{', '|', '}', '\u{7f}', '\u{a0}',
    '\u{ad}', '\u{200b}', '\u{202e}', '\u{3002}', '\u{ff0e}',
];

/// What came of a run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) executions: u64,
    pub(crate) allowed: u64,
    pub(crate) blocked: u64,
    pub(crate) malformed: u64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} executions: {} allowed, {} blocked, {} malformed",
            self.executions, self.allowed, self.blocked, self.malformed
        )
    }
}

/// Makes one text and tries it. An error says which text broke what.
pub(crate) fn execute(
    random: &mut Random,
    oracle: &Oracle,
    outcome: &mut Outcome,
) -> Result<(), String> {
    outcome.executions += 1;
    let text = text(random, oracle);
    let held = catch_unwind(AssertUnwindSafe(|| hold(&text, oracle)))
        .map_err(|_panic| format!("{text:?}: the guard panicked"))?;
    match held? {
        CheckVerdict::Allow => outcome.allowed += 1,
        CheckVerdict::Block => outcome.blocked += 1,
        CheckVerdict::Error => outcome.malformed += 1,
    }
    Ok(())
}

/// What must hold for a text.
fn hold(text: &str, oracle: &Oracle) -> Result<CheckVerdict, String> {
    let check = check_offline(text);
    if let Ok(address) = text.parse::<IpAddr>() {
        let is_allowed = check.verdict == CheckVerdict::Allow;
        return if is_allowed == oracle.is_public(address) {
            Ok(check.verdict)
        } else {
            Err(format!("{text:?}: the guard says {:?}", check.verdict))
        };
    }
    let parsed = Url::parse(text).ok().filter(|_| text.len() <= URL_BYTES);
    let Some(url) = parsed else {
        return if check.verdict == CheckVerdict::Error {
            Ok(check.verdict)
        } else {
            Err(format!("{text:?} is no URL, and {:?}", check.verdict))
        };
    };
    if check.verdict == CheckVerdict::Allow {
        is_honest(&url, oracle).map_err(|why| format!("{text:?} is allowed: {why}"))?;
    }
    // A text such as "fe80::1%eth0" is refused as an address; the URL that it could be read as is none of fetch_url's.
    if url.host().is_none() {
        return Ok(check.verdict);
    }
    let again = check_offline(url.as_str());
    if (again.verdict, again.rule, again.address) != (check.verdict, check.rule, check.address) {
        return Err(format!(
            "{text:?} is {check:?}, and written out again {again:?}"
        ));
    }
    as_a_redirect(text, &url)?;
    Ok(check.verdict)
}

/// What an allowed URL is, by its own words and by the oracle's.
fn is_honest(url: &Url, oracle: &Oracle) -> Result<(), String> {
    if url.scheme() != "https" {
        return Err(format!("its scheme is {}", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it has userinfo".to_owned());
    }
    if url.as_str().len() > URL_BYTES {
        return Err("it is too long".to_owned());
    }
    let address = match url.host() {
        Some(url::Host::Ipv4(v4)) => IpAddr::V4(v4),
        Some(url::Host::Ipv6(v6)) => IpAddr::V6(v6),
        Some(url::Host::Domain(name)) => return is_public_name(name),
        None => return Err("it has no host".to_owned()),
    };
    if oracle.is_public(address) {
        Ok(())
    } else {
        Err(format!("{address} is not public"))
    }
}

fn is_public_name(name: &str) -> Result<(), String> {
    let plain = name.strip_suffix('.').unwrap_or(name);
    let last = plain.rsplit('.').next().unwrap_or_default();
    let is_local = [
        "localhost",
        "local",
        "internal",
        "svc",
        "arpa",
        "onion",
        "localdomain",
    ]
    .contains(&last.to_ascii_lowercase().as_str());
    let has_odd_label = plain
        .split('.')
        .any(|label| label.is_empty() || label.len() > 63);
    if is_local || has_odd_label || plain.len() > 253 || !plain.contains('.') {
        Err(format!("{name} is no public name"))
    } else {
        Ok(())
    }
}

/// A `Location` that names a whole URL leads where the URL itself does, and any other is judged as what it is joined to.
fn as_a_redirect(text: &str, url: &Url) -> Result<(), String> {
    let base = Url::parse(BASE).expect("a URL");
    let joined = base
        .join(text)
        .map_err(|problem| format!("{text:?} is a URL and no Location: {problem}"))?;
    let plain: String = text
        .trim_matches(|character| character <= ' ')
        .chars()
        .filter(|character| !matches!(character, '\t' | '\n' | '\r'))
        .collect();
    let after_scheme = plain.split_once(':').map_or("", |(_, rest)| rest);
    let slashes = after_scheme
        .chars()
        .take_while(|character| matches!(character, '/' | '\\'))
        .count();
    if (url.scheme() != base.scheme() || slashes >= 2) && joined != *url {
        return Err(format!("{text:?} as a Location leads to {joined}"));
    }
    let by_target = Target::of(&joined, Schemes::Https).is_ok();
    let by_text = check_offline(joined.as_str());
    let is_refused_as_url = ["scheme", "userinfo", "port", "malformed", "url-too-long"]
        .into_iter()
        .chain(["empty-label", "name-too-long"])
        .any(|rule| by_text.rule == Some(rule));
    if joined.host().is_some() && by_target == is_refused_as_url {
        return Err(format!(
            "{text:?} as a Location is judged as {by_target}, and as a URL {by_text:?}"
        ));
    }
    Ok(())
}

/// A text: by the grammar, then damaged now and then.
fn text(random: &mut Random, oracle: &Oracle) -> String {
    if random.one_in(16) {
        let mut address = bare_address(random, oracle);
        if random.one_in(2) {
            mutate(random, &mut address);
        }
        return address;
    }
    let mut text = String::new();
    text.push_str(random.pick(&SCHEMES));
    text.push_str(random.pick(&[
        "://", "://", "://", "://", ":", ":/", ":///", ":\\\\", ":/\\", "//",
    ]));
    if random.one_in(8) {
        text.push_str(random.pick(&["@", ":@", "user@", "user:pw@", "127.0.0.1@", "a@b@", "%40@"]));
    }
    text.push_str(&host(random, oracle));
    if random.one_in(4) {
        text.push(':');
        match random.below(4) {
            0 => text.push_str(&random.below(65_540).to_string()),
            1 => text.push_str(random.pick(&[
                "443",
                "00443",
                "80",
                "22",
                "0",
                "+443",
                "-1",
                "４４３",
                "443a",
            ])),
            2 => {}
            _ => text.push_str(random.pick(&["8443", "10080", "6667", "65535", "65536"])),
        }
    }
    text.push_str(random.pick(&PATHS));
    if random.one_in(512) {
        let length = random.below(2 * URL_BYTES);
        text.extend(std::iter::repeat_n('a', length));
    }
    for _ in 0..[0, 0, 1, 1, 2, 4][random.below(6)] {
        mutate(random, &mut text);
    }
    text
}

fn bare_address(random: &mut Random, oracle: &Oracle) -> String {
    if random.one_in(2) {
        Ipv4Addr::from_bits(addresses::any_v4(random, oracle)).to_string()
    } else {
        Ipv6Addr::from_bits(addresses::any_v6(random, oracle)).to_string()
    }
}

fn host(random: &mut Random, oracle: &Oracle) -> String {
    let host = match random.below(8) {
        0 | 1 => spelled_v4(random, oracle),
        2 | 3 => format!("[{}]", spelled_v6(random, oracle)),
        4 => long_name(random),
        _ => random.pick(&NAMES).to_owned(),
    };
    let host = match random.below(12) {
        0 => percent_encoded(random, &host),
        1 => wide(random, &host),
        2 => host.to_uppercase(),
        _ => host,
    };
    match random.below(12) {
        0 => host + ".",
        1 => host + "..",
        _ => host,
    }
}

/// An IPv4 address in one of the spellings of `inet_aton`.
fn spelled_v4(random: &mut Random, oracle: &Oracle) -> String {
    let bits = addresses::any_v4(random, oracle);
    let parts = 1 + random.below(4);
    let octets = bits.to_be_bytes();
    let mut numbers: Vec<u64> = octets[..parts - 1].iter().copied().map(u64::from).collect();
    let rest = octets[parts - 1..]
        .iter()
        .fold(0, |rest, &octet| rest << 8 | u64::from(octet));
    numbers.push(rest);
    if random.one_in(16) {
        numbers.push(random.next_u64() & 0x1ff);
    }
    let spelled: Vec<String> = numbers
        .iter()
        .map(|number| match random.below(5) {
            0 => format!("0x{number:x}"),
            1 => format!("0{number:o}"),
            2 => format!("0X{number:08X}"),
            _ => number.to_string(),
        })
        .collect();
    spelled.join(".")
}

fn spelled_v6(random: &mut Random, oracle: &Oracle) -> String {
    let v6 = Ipv6Addr::from_bits(addresses::any_v6(random, oracle));
    let groups = v6.segments();
    let written = |write: fn(u16) -> String, groups: &[u16]| -> String {
        let groups: Vec<String> = groups.iter().copied().map(write).collect();
        groups.join(":")
    };
    match random.below(4) {
        0 => written(|group| format!("{group:04X}"), &groups),
        1 => {
            let [.., high, low] = groups;
            let dotted = Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
            format!(
                "{}:{dotted}",
                written(|group| format!("{group:x}"), &groups[..6])
            )
        }
        _ => v6.to_string(),
    }
}

fn long_name(random: &mut Random) -> String {
    let labels = 1 + random.below(5);
    let label = |random: &mut Random| "a".repeat(60 + random.below(6));
    let mut name: Vec<String> = (0..labels).map(|_| label(random)).collect();
    name.push("com".to_owned());
    name.join(".")
}

fn percent_encoded(random: &mut Random, host: &str) -> String {
    host.bytes()
        .map(|byte| {
            if random.one_in(2) {
                format!("%{byte:02x}")
            } else {
                char::from(byte).to_string()
            }
        })
        .collect()
}

/// With some characters in their full width, which IDNA maps back.
fn wide(random: &mut Random, host: &str) -> String {
    host.chars()
        .map(|character| {
            let wide = u32::from(character)
                .checked_sub(0x21)
                .filter(|_| character.is_ascii_graphic() && random.one_in(2))
                .and_then(|offset| char::from_u32(0xff01 + offset));
            wide.unwrap_or(character)
        })
        .collect()
}

/// Puts in, takes out, doubles or changes one character.
fn mutate(random: &mut Random, text: &mut String) {
    let mut characters: Vec<char> = text.chars().collect();
    let at = random.below(characters.len() + 1);
    let odd = match random.below(4) {
        0 => char::from_u32(random.next_u32() & 0x001f_ffff).unwrap_or('\u{fffd}'),
        1 => char::from(b'0' + u8::try_from(random.below(10)).unwrap_or(0)),
        _ => random.pick(&ODD),
    };
    match (random.below(4), characters.get(at).copied()) {
        (0, Some(_)) => {
            characters.remove(at);
        }
        (1, Some(same)) => characters.insert(at, same),
        (2, Some(_)) => characters[at] = odd,
        _ => characters.insert(at, odd),
    }
    *text = characters.into_iter().collect();
}
