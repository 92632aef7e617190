//! Takes out of a server's own words what it was given in confidence: servers repeat headers and URLs in their errors.

use std::borrow::Cow;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use kernel::{Secret, floor_char_boundary, strip_control};
use url::Url;

/// Shorter texts are no secrets, and taking them out would leave nothing to read.
const SHORTEST: usize = 4;
/// Bytes of a server's words that are quoted.
const QUOTED: usize = 300;
/// Bytes of a server's words that are looked at.
const LOOKED_AT: usize = 8 * 1_024;
/// What stands in a secret's place.
const MASK: &str = "•••";

/// The secrets that were sent to a server, longest first.
#[derive(Debug, Default)]
pub(crate) struct Redactor(Vec<Secret>);

impl Redactor {
    /// One that knows the values of headers and of a URL's query.
    pub(crate) fn new<'s>(
        headers: impl IntoIterator<Item = &'s Secret>,
        url: Option<&Url>,
    ) -> Self {
        let mut known: Vec<String> = Vec::new();
        for header in headers {
            let value = header.expose().trim();
            known.push(value.to_owned());
            // `Bearer …`, `Basic …`: what follows the scheme is the secret.
            let Some((scheme, rest)) = value.split_once(' ') else {
                continue;
            };
            known.push(rest.trim().to_owned());
            if scheme.eq_ignore_ascii_case("basic")
                && let Ok(pair) = BASE64_STANDARD.decode(rest.trim())
                && let Ok(pair) = String::from_utf8(pair)
            {
                known.extend(pair.split(':').map(str::to_owned));
                known.push(pair);
            }
        }
        if let Some(query) = url.and_then(Url::query) {
            known.push(query.to_owned());
            for pair in query.split('&') {
                known.extend(pair.split_once('=').map(|(_, value)| value.to_owned()));
            }
        }
        if let Some(url) = url {
            known.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
        }
        Self::of(known)
    }

    /// One that knows these.
    pub(crate) fn of(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = secrets
            .into_iter()
            .filter(|secret| secret.len() >= SHORTEST)
            .collect();
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        Self(secrets.into_iter().map(Secret::new).collect())
    }

    /// The text without the secrets.
    pub(crate) fn clean<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut clean = Cow::Borrowed(text);
        for secret in &self.0 {
            if clean.contains(secret.expose()) {
                clean = Cow::Owned(clean.replace(secret.expose(), MASK));
            }
        }
        clean
    }

    /// What a server said, as it may stand in a sentence: one short line without secrets and control characters. Empty if nothing is
    /// left.
    pub(crate) fn quote(&self, said: &str) -> String {
        let looked_at = &said[..floor_char_boundary(said, LOOKED_AT)];
        let clean = self.clean(looked_at);
        let visible = strip_control(&clean);
        // Control characters may have stood inside of a secret.
        let clean = self.clean(&visible);
        let line = clean.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.len() <= QUOTED {
            return line;
        }
        format!("{}…", &line[..floor_char_boundary(&line, QUOTED)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor() -> Redactor {
        let url = Url::parse("https://example.com/mcp?key=q-secret%20one&x=1").expect("a URL");
        let headers = [
            Secret::new("Bearer t0ken-of-mine"),
            Secret::new("Basic dXNlcm5hbWU6aHVudGVyMg=="),
        ];
        Redactor::new(&headers, Some(&url))
    }

    #[test]
    fn what_a_server_repeats_of_our_secrets_is_masked() {
        for said in [
            "authorization: Bearer t0ken-of-mine",
            "bad token t0ken-of-mine",
            "GET /mcp?key=q-secret%20one&x=1",
            "key was q-secret one",
            "key was q-secret%20one",
            "dXNlcm5hbWU6aHVudGVyMg==",
            "hello username with hunter2",
            "t0ken-\u{1b}of-mine",
        ] {
            let quoted = redactor().quote(said);
            for secret in ["t0ken", "q-secret", "dXNlcm5h", "hunter2", "username"] {
                assert!(!quoted.contains(secret), "{said:?} gave {quoted:?}");
            }
        }
    }

    #[test]
    fn what_is_too_short_to_be_a_secret_stays_readable() {
        assert_eq!(redactor().quote("1 error in line 1"), "1 error in line 1");
    }

    #[test]
    fn a_quote_is_one_short_line() {
        let quoted = Redactor::default().quote(&format!("a\n\t b {}", "ä".repeat(1_000)));
        assert!(quoted.starts_with("a b ää") && quoted.ends_with('…'));
        assert!(quoted.len() <= QUOTED + '…'.len_utf8());
    }

    #[test]
    fn no_secret_is_shown_for_debugging() {
        assert!(!format!("{:?}", redactor()).contains("t0ken"));
    }
}
