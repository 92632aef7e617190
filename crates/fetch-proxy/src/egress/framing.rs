//! Where a client's messages begin and end, so that every head of a connection is judged before anything else reads it.
//!
//! hyper reads the same bytes afterwards and parses them for itself; this only finds the borders, and lets nothing past that two
//! programs could find elsewhere (RFC 9112 sections 6 and 7).

use bytes::BytesMut;

use super::{
    denial::Denial,
    head::{self, BodyLength},
};

/// Bytes of the line that gives a chunk's size, extensions included.
const CHUNK_LINE_BYTES: usize = 1_024;
/// Bytes of the trailers of a body.
const TRAILER_BYTES: usize = 8 * 1_024;

/// Follows what a client says.
#[derive(Debug)]
pub(super) struct Framing(State);

#[derive(Debug)]
enum State {
    /// A head, as far as it came.
    Head(BytesMut),
    /// A body, and how much of it is missing.
    Body(u64),
    /// A body in chunks.
    Chunks(Chunks),
    /// What comes after the head of a `CONNECT`.
    Tunnel,
}

/// Where in a body in chunks it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunks {
    /// In the line that gives a size: the size, its digits, and the bytes of the line.
    Size {
        size: u64,
        digits: usize,
        bytes: usize,
    },
    /// The size's line has its CR.
    SizeEnd(u64),
    /// In a chunk.
    Data(u64),
    /// A chunk has all its bytes; so many of CR LF came.
    DataEnd(u8),
    /// In the trailers: bytes of this line, and of all.
    Trailer { line: usize, bytes: usize },
    /// A trailer's line has its CR.
    TrailerEnd { line: usize, bytes: usize },
    /// After the last one.
    Done,
}

/// What a client is in the middle of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Between two messages.
    Between,
    /// In a head.
    Head,
    /// In a body.
    Body,
    /// In a tunnel.
    Tunnel,
}

impl Framing {
    /// Nothing was said yet.
    pub(super) fn new() -> Self {
        Self(State::Head(BytesMut::new()))
    }

    /// Where it is.
    pub(super) fn place(&self) -> Place {
        match &self.0 {
            State::Head(head) if head.is_empty() => Place::Between,
            State::Head(_) => Place::Head,
            State::Body(_) | State::Chunks(_) => Place::Body,
            State::Tunnel => Place::Tunnel,
        }
    }

    /// Takes what was said, and gives on what may be read. An error is what the client is told; what came before it is given on.
    pub(super) fn take(&mut self, raw: &mut BytesMut, ready: &mut BytesMut) -> Result<(), Denial> {
        while !raw.is_empty() {
            self.0 = match std::mem::replace(&mut self.0, State::Tunnel) {
                State::Tunnel => {
                    ready.unsplit(raw.split());
                    State::Tunnel
                }
                State::Head(head) => take_head(head, raw, ready)?,
                State::Body(missing) => {
                    let count = within(missing, raw.len());
                    ready.unsplit(raw.split_to(count));
                    match missing - length(count) {
                        0 => State::Head(BytesMut::new()),
                        missing => State::Body(missing),
                    }
                }
                State::Chunks(chunks) => {
                    let chunks = take_chunks(chunks, raw, ready)?;
                    if chunks == Chunks::Done {
                        State::Head(BytesMut::new())
                    } else {
                        State::Chunks(chunks)
                    }
                }
            };
        }
        Ok(())
    }
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// So many of these bytes belong to what is missing.
fn within(missing: u64, bytes: usize) -> usize {
    usize::try_from(missing).map_or(bytes, |missing| missing.min(bytes))
}

fn take_head(
    mut head: BytesMut,
    raw: &mut BytesMut,
    ready: &mut BytesMut,
) -> Result<State, Denial> {
    // The end may lie across the border of two pieces.
    let known = head.len().saturating_sub(3);
    let before = head.len();
    head.extend_from_slice(raw);
    let Some(end) = head::end_of(&head[known..]).map(|end| known + end) else {
        raw.clear();
        head::judge_so_far(&head)?;
        return Ok(State::Head(head));
    };
    let message = head::judge(&head[..end])?;
    ready.extend_from_slice(&head[..end]);
    drop(raw.split_to(end - before));
    Ok(match message {
        BodyLength::Known(0) => State::Head(BytesMut::new()),
        BodyLength::Known(length) => State::Body(length),
        BodyLength::Chunks => State::Chunks(Chunks::Size {
            size: 0,
            digits: 0,
            bytes: 0,
        }),
        BodyLength::Tunnel => State::Tunnel,
    })
}

fn take_chunks(mut at: Chunks, raw: &mut BytesMut, ready: &mut BytesMut) -> Result<Chunks, Denial> {
    while !raw.is_empty() && at != Chunks::Done {
        if let Chunks::Data(missing) = at {
            let count = within(missing, raw.len());
            ready.unsplit(raw.split_to(count));
            at = match missing - length(count) {
                0 => Chunks::DataEnd(0),
                missing => Chunks::Data(missing),
            };
            continue;
        }
        let byte = raw[0];
        at = next(at, byte).ok_or_else(|| {
            Denial::malformed("the body's chunks cannot be read; their lines end in CR LF")
        })?;
        ready.unsplit(raw.split_to(1));
    }
    Ok(at)
}

/// One byte of what is around chunks.
fn next(at: Chunks, byte: u8) -> Option<Chunks> {
    match at {
        Chunks::Size {
            size,
            digits,
            bytes,
        } => {
            let is_in_size = digits == bytes;
            match char::from(byte).to_digit(16) {
                Some(digit) if is_in_size => {
                    let size = size.checked_mul(16)?.checked_add(u64::from(digit))?;
                    Some(Chunks::Size {
                        size,
                        digits: digits + 1,
                        bytes: bytes + 1,
                    })
                }
                _ if digits == 0 || bytes >= CHUNK_LINE_BYTES => None,
                _ if byte == b'\r' => Some(Chunks::SizeEnd(size)),
                // Extensions begin with a semicolon, spaces before it (RFC 9112 section 7.1.1).
                _ if is_in_size && !matches!(byte, b';' | b' ' | b'\t') => None,
                _ if byte == b'\t' || (b' '..=b'~').contains(&byte) => Some(Chunks::Size {
                    size,
                    digits,
                    bytes: bytes + 1,
                }),
                _ => None,
            }
        }
        Chunks::SizeEnd(size) => match (byte, size) {
            (b'\n', 0) => Some(Chunks::Trailer { line: 0, bytes: 0 }),
            (b'\n', size) => Some(Chunks::Data(size)),
            _ => None,
        },
        Chunks::DataEnd(0) => (byte == b'\r').then_some(Chunks::DataEnd(1)),
        Chunks::DataEnd(_) => (byte == b'\n').then_some(Chunks::Size {
            size: 0,
            digits: 0,
            bytes: 0,
        }),
        Chunks::Trailer { line, bytes } => match byte {
            b'\r' => Some(Chunks::TrailerEnd { line, bytes }),
            b'\n' | 0 => None,
            _ if bytes >= TRAILER_BYTES => None,
            _ => Some(Chunks::Trailer {
                line: line + 1,
                bytes: bytes + 1,
            }),
        },
        Chunks::TrailerEnd { line, bytes } => match (byte, line) {
            (b'\n', 0) => Some(Chunks::Done),
            (b'\n', _) => Some(Chunks::Trailer { line: 0, bytes }),
            _ => None,
        },
        Chunks::Data(_) | Chunks::Done => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is given on of bytes that come in pieces of this size, whether it ends in a refusal, and where it is then.
    fn follow(said: &[u8], piece: usize) -> (Vec<u8>, Option<&'static str>, Place) {
        let mut framing = Framing::new();
        let mut ready = BytesMut::new();
        for piece in said.chunks(piece) {
            let mut raw = BytesMut::from(piece);
            if let Err(denial) = framing.take(&mut raw, &mut ready) {
                return (ready.to_vec(), Some(denial.rule), Place::Between);
            }
            assert!(raw.is_empty());
        }
        (ready.to_vec(), None, framing.place())
    }

    #[test]
    fn proper_messages_in_a_row_are_given_on_byte_for_byte_in_pieces_of_any_size() {
        let said = b"GET http://a.test/ HTTP/1.1\r\nHost: a\r\n\r\n\
            POST http://a.test/ HTTP/1.1\r\nContent-Length: 20\r\n\r\nGET / HTTP/1.1\n\n\r\n\r\n\
            POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
            5\r\nhello\r\nA;x=\"y\" \r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\n\
            GET http://b.test/ HTTP/1.1\r\n\r\n";
        for piece in [1, 2, 3, 5, 7, 64, 1_000] {
            let (ready, refused, place) = follow(said, piece);
            assert_eq!((refused, place), (None, Place::Between), "{piece}");
            assert!(ready == said, "{piece}");
        }
        let tunnel = b"CONNECT a.test:443 HTTP/1.1\r\n\r\n\0\n\nanything\r\n";
        for piece in [1, 31, 100] {
            let (ready, refused, place) = follow(tunnel, piece);
            assert_eq!((refused, place), (None, Place::Tunnel));
            assert!(ready == tunnel);
        }
    }

    #[test]
    fn a_later_head_is_judged_as_strictly_as_the_first_and_nothing_of_it_is_given_on() {
        let good = "POST http://a.test/ HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
        for bad in [
            "GET http://a.test/ HTTP/1.1\nHost: a\n\n",
            "GET http://a.test/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nX: y\r\n z\r\n\r\n",
            "CONNECT a.test:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
        ] {
            for piece in [1, 10, 1_000] {
                let (ready, refused, _place) = follow(format!("{good}{bad}").as_bytes(), piece);
                assert_eq!(refused, Some("malformed"), "{bad:?}");
                assert!(ready == good.as_bytes(), "{bad:?}");
            }
        }
    }

    #[test]
    fn chunks_that_two_programs_could_read_in_two_ways_are_malformed() {
        let head = "POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let long = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(2_000));
        for body in [
            "\r\n",
            "+1\r\na\r\n",
            "0x1\r\na\r\n",
            "1\na\r\n",
            "1\r\na\n0\r\n\r\n",
            "1\r\nab\r\n",
            "1\ra\r\n",
            " 1\r\na\r\n",
            "1;x\ny\r\na\r\n",
            "FFFFFFFFFFFFFFFFF\r\n",
            "0\r\nX: y\n\r\n",
            &long,
        ] {
            let (_ready, refused, _place) = follow(format!("{head}{body}").as_bytes(), 4);
            assert_eq!(refused, Some("malformed"), "{body:?}");
        }
    }

    #[test]
    fn a_head_that_never_ends_is_not_kept() {
        let endless = "x".repeat(200_000);
        let (ready, refused, _place) = follow(endless.as_bytes(), 1_000);
        assert_eq!((ready.len(), refused), (0, Some("head-too-long")));
    }
}
