//! Text that is passed on as it is, in the right characters.

use encoding_rs::{CoderResult, Encoding};

use crate::visible::Cleaner;

/// Bytes that are decoded before other work of this thread gets its turn.
const PIECE_BYTES: usize = 64 * 1_024;

/// A decoded text, and whether there was more of it.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) text: String,
    pub(crate) is_cut: bool,
}

/// The body as text of at most that many bytes. What cannot be decoded becomes U+FFFD, but for a character that was cut at the end
/// of a body that is not complete.
pub(crate) async fn decode(
    bytes: &[u8],
    encoding: &'static Encoding,
    is_complete: bool,
    limit: usize,
) -> Decoded {
    let mut text = String::new();
    let mut cleaner = Cleaner::default();
    let mut pieces = Pieces::new(encoding, is_complete);
    let mut rest = bytes.chunks(PIECE_BYTES).peekable();
    while let Some(piece) = rest.next() {
        let end = if rest.peek().is_none() {
            End::Here
        } else {
            End::Later
        };
        pieces.decode(piece, end, |decoded| cleaner.push(decoded, &mut text));
        if text.len() > limit {
            text.truncate(kernel::floor_char_boundary(&text, limit));
            return Decoded { text, is_cut: true };
        }
        tokio::task::yield_now().await;
    }
    Decoded {
        text,
        is_cut: false,
    }
}

/// Whether a piece is the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Here,
    Later,
}

/// A decoder of a body that comes in pieces.
pub(crate) struct Pieces {
    decoder: encoding_rs::Decoder,
    is_complete: bool,
    buffer: String,
}

impl Pieces {
    pub(crate) fn new(encoding: &'static Encoding, is_complete: bool) -> Self {
        Self {
            decoder: encoding.new_decoder_with_bom_removal(),
            is_complete,
            buffer: String::with_capacity(16 * 1_024),
        }
    }

    /// Hands on what a piece is in characters, some at a time.
    pub(crate) fn decode(&mut self, bytes: &[u8], end: End, mut take: impl FnMut(&str)) {
        let is_last = end == End::Here && self.is_complete;
        let mut rest = bytes;
        loop {
            self.buffer.clear();
            let (result, read, _) = self
                .decoder
                .decode_to_string(rest, &mut self.buffer, is_last);
            take(&self.buffer);
            rest = &rest[read..];
            match result {
                CoderResult::InputEmpty => return,
                CoderResult::OutputFull => {}
            }
        }
    }
}
