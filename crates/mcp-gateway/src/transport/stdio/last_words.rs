//! The last of what a process wrote to its stderr, kept for messages.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use kernel::{floor_char_boundary, strip_control};
use tokio::{io::AsyncReadExt as _, net::unix::pipe};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{SealedMap, failure::Redactor};

/// Bytes that are kept: what is told, and enough before it that a secret across its beginning is seen whole.
const KEPT: usize = 32 * 1_024;
/// Bytes that are told.
const TOLD: usize = 1_000;
/// Lines that are told.
const LINES: usize = 12;
/// Bytes that are read at once.
const PIECE: usize = 8 * 1_024;

/// What a process wrote last. Cheap to clone; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct LastWords {
    kept: Arc<Mutex<Kept>>,
    ended: CancellationToken,
}

#[derive(Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// Whether there was more before.
    is_cut: bool,
}

/// Shows nothing of what was written, which may hold anything.
impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept")
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl LastWords {
    /// Reads until the end, so that no process ever waits to be rid of its errors.
    pub(super) fn listen(&self, mut errors: pipe::Receiver) -> impl Future<Output = ()> + use<> {
        let heard = self.clone();
        async move {
            let _ended = heard.ended.clone().drop_guard();
            let mut piece = vec![0; PIECE];
            while let Ok(read @ 1..) = errors.read(&mut piece).await {
                heard.keep(&piece[..read]);
                // A flood of errors must not keep others from their turn.
                tokio::task::consume_budget().await;
            }
        }
    }

    /// Returns when there will be no more.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// The last lines on one, without control characters and without what the process was given in confidence.
    pub(super) fn quote(&self, environment: &SealedMap) -> String {
        let (redactor, longest) = redactor(environment);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (text, is_cut) = (kept.text(), kept.is_cut);
        drop(kept);
        let clean = redactor.clean(&text);
        // What is left of a secret that was cut is not seen for what it is.
        let begin = if is_cut { longest } else { 0 };
        let clean = &clean[floor_char_boundary(&clean, begin.min(clean.len()))..];
        last_lines(&redactor, clean)
    }

    fn keep(&self, piece: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes.extend(piece);
        let excess = kept.bytes.len().saturating_sub(KEPT);
        if excess > 0 {
            kept.bytes.drain(..excess);
            kept.is_cut = true;
        }
    }
}

impl Kept {
    fn text(&self) -> String {
        let (front, back) = self.bytes.as_slices();
        String::from_utf8_lossy(&[front, back].concat()).into_owned()
    }
}

fn last_lines(redactor: &Redactor, text: &str) -> String {
    let visible = strip_control(text);
    // Control characters may have stood inside of a secret.
    let clean = redactor.clean(&visible);
    let mut lines: Vec<String> = Vec::new();
    let mut left = TOLD;
    for line in clean.lines().rev() {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.is_empty() {
            continue;
        }
        if lines.len() == LINES || line.len() > left {
            if lines.is_empty() {
                lines.push(format!("{}…", &line[..floor_char_boundary(&line, left)]));
            } else {
                lines.push("…".to_owned());
            }
            break;
        }
        left -= line.len();
        lines.push(line);
    }
    lines.reverse();
    lines.join(" | ")
}

/// What knows the values of an environment, and the length of the longest of them. Values that cannot be opened were never given.
pub(super) fn redactor(environment: &SealedMap) -> (Redactor, usize) {
    let mut known: Vec<String> = Vec::new();
    for (_, value) in environment.open().unwrap_or_default() {
        let value = value.expose();
        known.push(value.to_owned());
        known.push(value.trim().to_owned());
        // A key of several lines is written a line at a time, or as JSON.
        known.extend(value.lines().map(|line| line.trim().to_owned()));
        if let Ok(json) = serde_json::to_string(value) {
            known.push(json.trim_matches('"').to_owned());
        }
        // `postgres://user:password@host`: libraries complain about the password alone.
        if let Ok(url) = Url::parse(value) {
            known.extend(url.password().map(str::to_owned));
        }
    }
    let longest = known.iter().map(String::len).max().unwrap_or_default();
    (Redactor::of(known), longest)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kernel::Secret;
    use vault::Vault;

    use super::*;

    fn environment(values: &[(&str, &str)]) -> SealedMap {
        let root = Secret::new("a root secret of a test, long enough for it");
        let vault = Arc::new(Vault::new(&root).unwrap());
        let values: BTreeMap<String, String> = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        SealedMap::seal(&vault, "environment", &values).unwrap()
    }

    fn quote(pieces: &[&str], values: &[(&str, &str)]) -> String {
        let words = LastWords::default();
        for piece in pieces {
            words.keep(piece.as_bytes());
        }
        words.quote(&environment(values))
    }

    #[test]
    fn the_last_lines_are_told_on_one() {
        assert_eq!(quote(&[], &[]), "");
        assert_eq!(
            quote(&["Error: no\n\n   at x\r\n", "\u{1b}[31mbye\u{7}"], &[]),
            "Error: no | at x | [31mbye"
        );
        let long = quote(&["first\n", &"x".repeat(700), "\n", &"y".repeat(700)], &[]);
        assert_eq!(long, format!("… | {}", "y".repeat(700)));
        let longer = quote(&[&"z".repeat(KEPT * 2)], &[]);
        assert_eq!(longer, format!("{}…", "z".repeat(TOLD)));
        assert_eq!(
            quote(&[&"line\n".repeat(100)], &[]).matches("line").count(),
            LINES
        );
    }

    #[test]
    fn a_secret_that_a_process_repeats_is_masked_however_it_is_written() {
        let key = "-----BEGIN KEY-----\nAAAABBBBCCCC\nDDDDEEEEFFFF\n-----END KEY-----";
        let values = [
            ("KEY", "s3cret-of-mine"),
            ("PEM", key),
            ("DATABASE", "postgres://village:hunter22@db/x"),
            ("QUOTED", "with \"quotes\" in it"),
        ];
        for said in [
            "bad key s3cret-of-mine",
            "bad key s3cr\u{1b}et-of-mine",
            "line DDDDEEEEFFFF is wrong",
            "{\"pem\":\"-----BEGIN KEY-----\\nAAAABBBBCCCC\\nDDDDEEEEFFFF\\n-----END KEY-----\"}",
            "password hunter22 is wrong",
            "{\"value\":\"with \\\"quotes\\\" in it\"}",
        ] {
            let quoted = quote(&[said], &values);
            for secret in ["s3cret", "DDDD", "hunter22", "in it"] {
                assert!(!quoted.contains(secret), "{said:?} gave {quoted:?}");
            }
        }
    }

    #[test]
    fn a_secret_that_was_cut_where_the_kept_words_begin_is_not_told() {
        let secret = "0123456789".repeat(20);
        for shift in 0..secret.len() {
            let rest = "z ".repeat((KEPT - shift) / 2);
            let quoted = quote(&[&secret, &rest], &[("KEY", &secret)]);
            assert!(!quoted.contains("789"), "{shift}");
        }
        let quoted = quote(&[&secret, &"z".repeat(KEPT - 20)], &[("KEY", &secret)]);
        assert!(!quoted.contains("789"), "{quoted}");
    }

    #[test]
    fn what_is_written_is_not_shown_for_debugging() {
        let words = LastWords::default();
        words.keep(b"s3cret");
        assert!(!format!("{words:?}").contains("s3cret"));
    }
}
