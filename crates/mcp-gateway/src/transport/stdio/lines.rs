//! Lines of a bounded length, out of bytes.

use bytes::{Buf as _, BytesMut};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Bytes that are asked for at once.
const PIECE: usize = 64 * 1_024;
/// Bytes of the beginning and of the end of a line that is too long that are kept, to find out what it answers.
const EDGE: usize = 512;
/// Lengths of a line that may be skipped; what is longer has no end.
const SKIPPED: usize = 8;

/// A line, or what is left of it.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    /// It is as long as it may be at most. Without its end.
    Whole(BytesMut),
    /// It was longer, and is gone.
    TooLong(Answers),
    /// It is longer than anything that could be skipped.
    Endless,
}

/// What a message answers, as far as that can be told from its beginning and its end.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answers {
    /// The request of this id.
    To(Value),
    /// No request: a notification, or no message at all.
    Nothing,
    /// That cannot be told.
    Unknown,
}

/// The lines of a stream.
#[derive(Debug)]
pub(super) struct Lines<R> {
    from: R,
    limit: usize,
    buffer: BytesMut,
    /// Bytes of the buffer in which there is no line's end.
    searched: usize,
    skipping: Option<Skipping>,
}

/// A line that is too long, as it passes by.
#[derive(Debug)]
struct Skipping {
    head: Vec<u8>,
    tail: Vec<u8>,
    length: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(from: R, limit: usize) -> Self {
        Self {
            from,
            limit,
            buffer: BytesMut::new(),
            searched: 0,
            skipping: None,
        }
    }

    /// The next line; None at the end. Whoever stops waiting loses nothing.
    pub(super) async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(line) = self.take() {
                return Some(line);
            }
            self.buffer.reserve(PIECE);
            // A pipe that cannot be read is at its end.
            let read = self.from.read_buf(&mut self.buffer).await.unwrap_or(0);
            if read == 0 {
                return self.last();
            }
        }
    }

    /// A line that is in the buffer.
    fn take(&mut self) -> Option<Line> {
        let end = self.buffer[self.searched..]
            .iter()
            .position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = self.buffer.len();
            return self.skip();
        };
        let line = self.buffer.split_to(end);
        self.buffer.advance(1);
        self.searched = 0;
        if let Some(mut skipping) = self.skipping.take() {
            skipping.pass(&line);
            return Some(skipping.ended());
        }
        if line.len() > self.limit {
            return Some(Skipping::begin(&line).ended());
        }
        Some(Line::Whole(line))
    }

    /// Lets a line pass by that is too long already.
    fn skip(&mut self) -> Option<Line> {
        if self.skipping.is_none() && self.buffer.len() > self.limit {
            self.skipping = Some(Skipping::begin(&[]));
        }
        let skipping = self.skipping.as_mut()?;
        skipping.pass(&self.buffer);
        self.buffer.clear();
        self.searched = 0;
        (skipping.length > self.limit.saturating_mul(SKIPPED)).then_some(Line::Endless)
    }

    /// What stands after the last line's end.
    fn last(&mut self) -> Option<Line> {
        self.searched = 0;
        match self.skipping.take() {
            Some(skipping) => Some(skipping.ended()),
            None if self.buffer.is_empty() => None,
            None => Some(Line::Whole(self.buffer.split())),
        }
    }
}

impl Skipping {
    fn begin(bytes: &[u8]) -> Self {
        let mut skipping = Self {
            head: Vec::new(),
            tail: Vec::new(),
            length: 0,
        };
        skipping.pass(bytes);
        skipping
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        let missing = EDGE.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..missing]);
        self.tail
            .extend_from_slice(&bytes[bytes.len().saturating_sub(EDGE)..]);
        self.tail.drain(..self.tail.len().saturating_sub(EDGE));
    }

    fn ended(&self) -> Line {
        Line::TooLong(answered(&self.head, &self.tail))
    }
}

/// What a message answers, by its beginning or its end: servers write `jsonrpc` and `id` first, or last.
pub(super) fn answered(head: &[u8], tail: &[u8]) -> Answers {
    let first = first_members(&String::from_utf8_lossy(head));
    if first != Answers::Unknown {
        return first;
    }
    let last = last_member(&String::from_utf8_lossy(tail));
    last.map_or(Answers::Unknown, Answers::To)
}

/// Reads the members of an object as long as their values are plain.
fn first_members(text: &str) -> Answers {
    let Some(mut rest) = text.trim_start().strip_prefix('{') else {
        return Answers::Nothing;
    };
    loop {
        let Some((name, after)) = plain(rest) else {
            return Answers::Unknown;
        };
        let Some(after) = after.trim_start().strip_prefix(':') else {
            return Answers::Unknown;
        };
        if name == "method" {
            return Answers::Nothing;
        }
        let Some((value, after)) = plain(after) else {
            return Answers::Unknown;
        };
        if name == "id" && is_id(&value) {
            return Answers::To(value);
        }
        let Some(after) = after.trim_start().strip_prefix(',') else {
            return Answers::Unknown;
        };
        rest = after;
    }
}

/// A text or a number at the beginning, and what follows it.
fn plain(text: &str) -> Option<(Value, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let starts_plain = text
        .trim_start()
        .starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit());
    if !starts_plain {
        return None;
    }
    let value = values.next()?.ok()?;
    let rest = text.get(values.byte_offset()..)?;
    // A number that goes on where the text was cut is another number.
    (!rest.is_empty()).then_some((value, rest))
}

/// The last member of an object, if it is its id; `jsonrpc` may come after it. Inside of a text its quotation marks would be escaped.
fn last_member(text: &str) -> Option<Value> {
    let text: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let members = text.strip_suffix('}')?;
    let members = members
        .strip_suffix(",\"jsonrpc\":\"2.0\"")
        .unwrap_or(members);
    let (_, id) = members.rsplit_once(",\"id\":")?;
    let id: Value = serde_json::from_str(id).ok()?;
    is_id(&id).then_some(id)
}

fn is_id(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.is_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    async fn lines(pieces: &[&[u8]], limit: usize) -> Vec<Line> {
        let mut builder = tokio_test_reader(pieces);
        let mut lines = Lines::new(&mut builder, limit);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await {
            let is_endless = line == Line::Endless;
            found.push(line);
            if is_endless {
                break;
            }
        }
        found
    }

    /// Gives one piece at a time.
    fn tokio_test_reader(pieces: &[&[u8]]) -> impl AsyncRead + Unpin + use<> {
        let pieces: Vec<std::io::Result<bytes::Bytes>> = pieces
            .iter()
            .filter(|piece| !piece.is_empty())
            .map(|piece| Ok(bytes::Bytes::copy_from_slice(piece)))
            .collect();
        tokio_util::io::StreamReader::new(futures::stream::iter(pieces))
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().into())
    }

    #[tokio::test]
    async fn lines_come_whole_and_the_last_needs_no_end() {
        let found = lines(&[b"a\n\nb", b"c\nd"], 10).await;
        assert_eq!(found, [whole("a"), whole(""), whole("bc"), whole("d")]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_costs_itself_and_says_what_it_answered() {
        let big = "x".repeat(100);
        for (text, answers) in [
            (
                format!(r#"{{"jsonrpc":"2.0","id":7,"result":"{big}"}}"#),
                Answers::To(json!(7)),
            ),
            (
                format!(r#"{{"result":"{big}","jsonrpc":"2.0","id":7}}"#),
                Answers::To(json!(7)),
            ),
            (
                format!(r#"{{"result":"{big}", "id": 7, "jsonrpc": "2.0"}}  "#),
                Answers::To(json!(7)),
            ),
            (
                format!(r#"{{ "id" : "a" , "result":"{big}"}}"#),
                Answers::To(json!("a")),
            ),
            (
                format!(r#"{{"result":{{"{big}":{{"id":9}}}}}}"#),
                Answers::Unknown,
            ),
            (
                format!(r#"{{"jsonrpc":"2.0","method":"m","params":"{big}","id":7}}"#),
                Answers::Nothing,
            ),
            (format!(r#"{{"result":"{big},\"id\":9}}"#), Answers::Unknown),
            (big.clone(), Answers::Nothing),
        ] {
            let bytes = format!("{text}\nnext\n");
            let expected = [Line::TooLong(answers), whole("next")];
            assert_eq!(lines(&[bytes.as_bytes()], 64).await, expected, "{text}");
            let (a, b) = bytes.as_bytes().split_at(70);
            assert_eq!(lines(&[a, b], 64).await, expected, "{text} in two");
        }
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_not_waited_for() {
        let piece: &[u8] = &[b'x'; 100];
        let found = lines(&[piece; 20], 100).await;
        assert_eq!(found, [Line::Endless]);
    }

    #[test]
    fn a_number_that_is_cut_is_no_id() {
        assert_eq!(answered(br#"{"id":12"#, b""), Answers::Unknown);
        assert_eq!(answered(br#"{"id":12,"#, b""), Answers::To(json!(12)));
    }

    proptest! {
        #[test]
        fn where_the_pieces_are_cut_makes_no_difference(
            text in "([a-z]{0,12}\n){0,9}[a-z]{0,12}",
            cut in 0_usize..120,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let bytes = text.as_bytes();
            let (a, b) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(
                runtime.block_on(lines(&[a, b], 8)),
                runtime.block_on(lines(&[bytes], 8))
            );
        }

        #[test]
        fn no_bytes_are_too_odd_to_look_for_an_id(head in any::<Vec<u8>>(), tail in any::<Vec<u8>>()) {
            answered(&head, &tail);
        }
    }
}
