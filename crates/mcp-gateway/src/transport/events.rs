//! Reads streams of server-sent events, within bounds.
//!
//! The parser is the HTML Standard's (section 9.2.6, "Interpreting an event stream"), which ignores what it does not know; others
//! fail on it, and one odd line must not cost a call.

use std::collections::VecDeque;

use futures::Stream;
use outbound::Body;
use sse_stream::Sse;

use crate::Failure;

/// Events of one stream that are read; a call that tells its progress a hundred times a second for five minutes has half as many.
const MAX_EVENTS: usize = 65_536;

/// Puts events together from bytes.
#[derive(Debug)]
pub(super) struct Parser {
    /// The most bytes of one event.
    limit: usize,
    line: Vec<u8>,
    event: Sse,
    /// Bytes of the event so far.
    size: usize,
    after_cr: bool,
    is_first_line: bool,
    ready: VecDeque<Sse>,
}

impl Parser {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            event: Sse::default(),
            size: 0,
            after_cr: false,
            is_first_line: true,
            ready: VecDeque::new(),
        }
    }

    /// Reads on. False when an event is too long.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> bool {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            if !self.grow(&bytes[..end]) {
                return false;
            }
            let is_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if is_cr {
                match bytes.first() {
                    Some(b'\n') => bytes = &bytes[1..],
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            self.end_line();
        }
        self.grow(bytes)
    }

    /// The next event that is complete.
    pub(super) fn next(&mut self) -> Option<Sse> {
        self.ready.pop_front()
    }

    fn grow(&mut self, bytes: &[u8]) -> bool {
        let is_comment = self.line.first().or(bytes.first()) == Some(&b':');
        if is_comment {
            // Its first byte says that it is one, and nobody reads the rest.
            if self.line.is_empty() {
                self.line.push(b':');
            }
            return true;
        }
        self.line.extend_from_slice(bytes);
        self.size + self.line.len() <= self.limit
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_first_line) && line.starts_with(b"\xEF\xBB\xBF") {
            line.drain(..3);
        }
        if line.is_empty() {
            self.end_event();
            return;
        }
        self.size += line.len();
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event.event = Some(value.to_owned()),
            "data" => match &mut self.event.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                data => *data = Some(value.to_owned()),
            },
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.event.retry = value.parse().ok();
            }
            _ => {}
        }
    }

    fn end_event(&mut self) {
        self.size = 0;
        let event = std::mem::take(&mut self.event);
        if event != Sse::default() {
            self.ready.push_back(event);
        }
    }
}

/// The events of a body. What goes wrong is its last item.
pub(super) fn events(
    body: Body,
    limit: usize,
) -> impl Stream<Item = Result<Sse, Failure>> + Send + 'static {
    let state = Some((body, Parser::new(limit), 0_usize));
    futures::stream::unfold(state, move |state| async move {
        let (mut body, mut parser, count) = state?;
        loop {
            if let Some(event) = parser.next() {
                if count == MAX_EVENTS {
                    let failure = Failure::protocol(format_args!(
                        "The server sent more than {MAX_EVENTS} messages on one stream."
                    ));
                    return Some((Err(failure), None));
                }
                return Some((Ok(event), Some((body, parser, count + 1))));
            }
            match body.next_piece().await {
                Ok(Some(piece)) => {
                    if !parser.read(&piece) {
                        return Some((Err(Failure::too_long(limit)), None));
                    }
                }
                Ok(None) => return None,
                Err(_error) => return Some((Err(Failure::broke_off()), None)),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(pieces: &[&[u8]]) -> Vec<Sse> {
        let mut parser = Parser::new(1_024);
        for piece in pieces {
            assert!(parser.read(piece), "within the limit");
        }
        std::iter::from_fn(|| parser.next()).collect()
    }

    #[test]
    fn comments_and_unknown_fields_cost_nothing() {
        let events = parse(&[
            b"\xEF\xBB\xBF: hello\n\nweird\nfoo: bar\nretry: soon\nevent: message\ndata:  a\ndata\ndata: b\nid: 7\nretry: 20\n\n",
        ]);
        let expected = Sse::default()
            .event("message")
            .data(" a\n\nb")
            .id("7")
            .retry(20);
        assert_eq!(events, [expected]);
    }

    #[test]
    fn an_event_that_is_not_ended_is_none() {
        assert_eq!(parse(&[b"data: a\n"]), []);
    }

    #[test]
    fn what_is_longer_than_the_limit_is_refused_and_comments_are_not() {
        let mut parser = Parser::new(8);
        assert!(parser.read(b":a comment of any length\ndata: a\n"));
        assert!(!parser.read(b"data: b\n"));
        assert!(!Parser::new(8).read(b"data: 789"));
        assert!(Parser::new(8).read(b"data: 78\n\ndata: 78\n\n"));
    }

    proptest! {
        #[test]
        fn where_the_pieces_are_cut_makes_no_difference(
            text in "(data: [a-z]{0,9}(\n|\r\n|\r)|(\n|\r\n|\r)|id: 1\n|: c\n){0,20}",
            cut in 0_usize..200,
        ) {
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            prop_assert_eq!(parse(&[&bytes[..cut], &bytes[cut..]]), parse(&[bytes]));
        }
    }
}
