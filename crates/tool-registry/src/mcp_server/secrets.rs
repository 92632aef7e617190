//! Named secrets as they come in: headers, and the environment of a command.

use std::collections::BTreeMap;

use kernel::Secret;
use vault::VALUE_BYTES;

use super::NamedSecret;
use crate::{Error, error::shown};

/// Headers of one server.
const MAX_HEADERS: usize = 32;
/// Environment variables of one server.
const MAX_VARIABLES: usize = 64;
/// Bytes of a name.
const NAME_BYTES: usize = 128;
/// Bytes of one value.
const SECRET_BYTES: usize = 8 * 1_024;

/// Headers that the protocol or the connection sets, and that would break or forge it.
const RESERVED: [&str; 22] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "origin",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-host",
];
/// What headers of the protocol begin with that carry a call's arguments.
const RESERVED_PREFIX: &str = "mcp-param-";
/// What variables begin with that make the loader run other code than the command's.
const LOADER_PREFIX: &str = "LD_";

/// Reads headers. No error shows a value.
pub(super) fn headers(given: Vec<NamedSecret>) -> Result<BTreeMap<String, Secret>, Error> {
    let mut seen = Vec::new();
    read("headers", MAX_HEADERS, given, |name, value| {
        if !name.bytes().all(is_token) {
            return Err(
                "is no name of a header; names have letters, digits and - _ . and the like"
                    .to_owned(),
            );
        }
        let lower = name.to_ascii_lowercase();
        if RESERVED.contains(&lower.as_str()) || lower.starts_with(RESERVED_PREFIX) {
            return Err("is set by the protocol itself; leave it out".to_owned());
        }
        if seen.contains(&lower) {
            return Err("is given twice; give it once".to_owned());
        }
        seen.push(lower);
        if value.contains(['\r', '\n', '\0']) {
            return Err("has a line break in its value; write the value in one line".to_owned());
        }
        if !value
            .bytes()
            .all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
        {
            return Err("has characters in its value that no header can have".to_owned());
        }
        Ok(())
    })
}

/// Reads an environment. No error shows a value.
pub(super) fn environment(given: Vec<NamedSecret>) -> Result<BTreeMap<String, Secret>, Error> {
    let mut seen = Vec::new();
    read("environment", MAX_VARIABLES, given, |name, value| {
        let mut letters = name.bytes();
        let begins_well = letters
            .next()
            .is_some_and(|b| b == b'_' || b.is_ascii_alphabetic());
        if !begins_well || !letters.all(|b| b == b'_' || b.is_ascii_alphanumeric()) {
            return Err(
                "is no name of a variable; names have letters, digits and _, and begin with no digit"
                    .to_owned(),
            );
        }
        if name.starts_with(LOADER_PREFIX) {
            return Err(
                "would have the loader run other code than the command's; put a wrapper script in the command's place if it is needed"
                    .to_owned(),
            );
        }
        if seen.iter().any(|known| known == name) {
            return Err("is given twice; give it once".to_owned());
        }
        seen.push(name.to_owned());
        if value.contains('\0') {
            return Err("has a NUL in its value, which no variable can have".to_owned());
        }
        Ok(())
    })
}

fn read(
    field: &'static str,
    most: usize,
    given: Vec<NamedSecret>,
    mut check: impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<BTreeMap<String, Secret>, Error> {
    if given.len() > most {
        let count = given.len();
        return Err(Error::invalid(
            field,
            format_args!("{count} are too many; at most {most} are allowed"),
        ));
    }
    let mut secrets = BTreeMap::new();
    for NamedSecret { name, value } in given {
        let refuse = |what: &str| Error::invalid(field, format_args!("{:?} {what}", shown(&name)));
        let bytes = value.expose().len();
        if name.is_empty() || name.len() > NAME_BYTES {
            return Err(refuse(&format!(
                "is no name; a name has 1 to {NAME_BYTES} bytes"
            )));
        }
        check(&name, value.expose()).map_err(|what| refuse(&what))?;
        if bytes > SECRET_BYTES {
            return Err(refuse(&format!(
                "has a value of {bytes} bytes; at most {SECRET_BYTES} are allowed"
            )));
        }
        if field == "headers" && value.expose().trim().is_empty() {
            return Err(refuse("has no value; give it one, or leave it out"));
        }
        if is_placeholder(value.expose()) {
            return Err(refuse(
                "has a placeholder for its value; give the real one, or leave all of them out to keep what is set",
            ));
        }
        secrets.insert(name, value);
    }
    let exposed: BTreeMap<&str, &str> = secrets
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()))
        .collect();
    let together = serde_json::to_string(&exposed).map_or(usize::MAX, |json| json.len());
    if together > VALUE_BYTES {
        return Err(Error::invalid(
            field,
            format_args!("together they have {together} bytes; at most {VALUE_BYTES} are allowed"),
        ));
    }
    Ok(secrets)
}

/// RFC 9110 section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What a form shows in the place of a value, and would save over it.
fn is_placeholder(value: &str) -> bool {
    value.chars().count() >= 3 && value.chars().all(|c| matches!(c, '*' | '•' | '●'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: &str) -> Vec<NamedSecret> {
        vec![NamedSecret {
            name: name.to_owned(),
            value: Secret::new(value),
        }]
    }

    #[test]
    fn headers_that_a_server_may_need_are_taken() {
        for (name, value) in [
            ("Authorization", "Bearer s3cret"),
            ("X-Api-Key", "a\tb"),
            ("cookie", "session=s3cret"),
            ("User-Agent", "x"),
        ] {
            let read = headers(one(name, value)).expect(name);
            assert_eq!(read[name].expose(), value);
        }
    }

    #[test]
    fn a_header_that_would_forge_the_request_is_refused_without_its_value() {
        for (name, value, said) in [
            ("Authorization", "s3cret\r\nX-Evil: 1", "in one line"),
            ("Authorization", "s3cret\n", "in one line"),
            ("Authorization", "s3cret\0", "in one line"),
            ("Authorization", "s3cret\u{7f}", "no header can have"),
            ("Authorization", "s3crét", "no header can have"),
            ("X\r\nY", "s3cret", "is no name of a header"),
            ("X: Y", "s3cret", "is no name of a header"),
            ("Х-Api-Key", "s3cret", "is no name of a header"),
            ("", "s3cret", "is no name"),
            ("Host", "s3cret", "set by the protocol"),
            ("content-LENGTH", "s3cret", "set by the protocol"),
            ("Mcp-Session-Id", "s3cret", "set by the protocol"),
            ("MCP-Param-Query", "s3cret", "set by the protocol"),
            ("Last-Event-ID", "s3cret", "set by the protocol"),
            ("Origin", "s3cret", "set by the protocol"),
            ("X-Key", "  ", "has no value"),
            ("X-Key", "******", "placeholder"),
            ("X-Key", "••••••••", "no header can have"),
        ] {
            let error = headers(one(name, value)).expect_err(name);
            assert_eq!(error.field(), Some("headers"));
            let sentence = error.to_string();
            assert!(sentence.contains(said), "{name}: {sentence}");
            assert!(!sentence.contains("s3cr"), "{sentence}");
        }
        let twice = [one("X-Key", "a"), one("x-key", "b")].concat();
        assert!(
            headers(twice)
                .expect_err("twice")
                .to_string()
                .contains("given twice")
        );
    }

    #[test]
    fn headers_are_bounded_one_by_one_and_together() {
        let many = (0..33).flat_map(|n| one(&format!("X-{n}"), "v")).collect();
        assert!(headers(many).is_err());
        assert!(headers(one("X-Key", &"v".repeat(8_193))).is_err());
        assert!(headers(one(&"x".repeat(129), "v")).is_err());
        // Quotes double when they are written as JSON.
        let quotes: Vec<_> = (0..5)
            .flat_map(|n| one(&format!("X-{n}"), &"\"".repeat(8_192)))
            .collect();
        let error = headers(quotes).expect_err("too long together");
        assert!(error.to_string().contains("together"), "{error}");
    }

    #[test]
    fn a_variable_that_would_run_other_code_is_refused_without_its_value() {
        for (name, said) in [
            ("LD_PRELOAD", "the loader"),
            ("LD_LIBRARY_PATH", "the loader"),
            ("LD_AUDIT", "the loader"),
            ("1A", "is no name of a variable"),
            ("A-B", "is no name of a variable"),
            ("A=B", "is no name of a variable"),
            ("А", "is no name of a variable"),
        ] {
            let error = environment(one(name, "s3cret")).expect_err(name);
            assert_eq!(error.field(), Some("environment"));
            let sentence = error.to_string();
            assert!(sentence.contains(said), "{name}: {sentence}");
            assert!(!sentence.contains("s3cret"), "{sentence}");
        }
        assert!(environment(one("A", "a\0b")).is_err());
        assert!(environment([one("A", "1"), one("A", "2")].concat()).is_err());
        let kept =
            environment([one("PATH", "/opt/bin"), one("EMPTY", "")].concat()).expect("variables");
        assert_eq!(kept.len(), 2);
    }
}
