//! Server-sent events (WHATWG HTML, §9.2.6): bytes in, the data of events out.
//!
//! Only data matters to us: both wires repeat an event's name inside it. Two departures from the standard, both needed by
//! endpoints in the wild: data that begins with a colon is a keep-alive that somebody wrapped twice (`data: : keepalive`,
//! opencode#50871), and the last event counts even if the blank line behind it never came.
//!
//! **Invariant:** how the bytes were cut into chunks never shows in what comes out. Text is decoded per event, so a character
//! that was split across chunks survives, and a broken byte costs one character, not the stream.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::{Buf as _, BytesMut};

/// Bytes of one event or one line: what a step may assemble in all.
pub(crate) const FRAME_BYTES: usize = 8 * 1_024 * 1_024;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// An event or a line is longer than [`FRAME_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameTooLong;

/// Takes bytes apart into events.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    /// What has not been read as a line yet.
    buffer: BytesMut,
    /// How much of `buffer` holds no line end.
    scanned: usize,
    /// The data of the event that is being read.
    data: Vec<u8>,
    lines: Lines,
    /// Whether the last line ended in CR: an LF that follows belongs to it.
    after_cr: bool,
    /// Whether the place where a byte order mark may stand has passed.
    started: bool,
}

/// What `data` holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Lines {
    /// Nothing: the event has no data line yet.
    #[default]
    None,
    /// Data lines of the event; it is empty for an empty one too.
    Some,
    /// A finished event that was handed out, and is only kept because a borrow of it was.
    HandedOut,
}

impl Framer {
    /// Takes the next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The data of the next complete event.
    pub(crate) fn next(&mut self) -> Result<Option<Cow<'_, str>>, FrameTooLong> {
        let found = self.advance()?;
        Ok(found.then(|| String::from_utf8_lossy(&self.data)))
    }

    /// The data of the event that the end of the stream completes. Call it once `next` has nothing more.
    pub(crate) fn end(&mut self) -> Result<Option<Cow<'_, str>>, FrameTooLong> {
        self.forget_handed_out();
        let rest = std::mem::take(&mut self.buffer);
        self.scanned = 0;
        let rest = match rest.first() {
            Some(b'\n') if self.after_cr => &rest[1..],
            _ => &rest[..],
        };
        self.line(rest)?;
        let found = self.dispatch();
        Ok(found.then(|| String::from_utf8_lossy(&self.data)))
    }

    fn advance(&mut self) -> Result<bool, FrameTooLong> {
        self.forget_handed_out();
        if !self.started {
            let seen = self.buffer.len().min(BOM.len());
            if self.buffer[..seen] == BOM[..seen] {
                if seen < BOM.len() {
                    return Ok(false);
                }
                self.buffer.advance(BOM.len());
            }
            self.started = true;
        }
        loop {
            if self.after_cr
                && let Some(&first) = self.buffer.first()
            {
                self.after_cr = false;
                if first == b'\n' {
                    self.buffer.advance(1);
                }
            }
            let Some(offset) = memchr::memchr2(b'\r', b'\n', &self.buffer[self.scanned..]) else {
                self.scanned = self.buffer.len();
                return if self.scanned > FRAME_BYTES {
                    Err(FrameTooLong)
                } else {
                    Ok(false)
                };
            };
            let end = self.scanned + offset;
            self.scanned = 0;
            self.after_cr = self.buffer[end] == b'\r';
            if end == 0 {
                self.buffer.advance(1);
                if self.dispatch() {
                    return Ok(true);
                }
                continue;
            }
            // Taken out for the call, so that the line can be read in place.
            let buffer = std::mem::take(&mut self.buffer);
            let read = self.line(&buffer[..end]);
            self.buffer = buffer;
            self.buffer.advance(end + 1);
            read?;
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), FrameTooLong> {
        let value = match line.strip_prefix(b"data") {
            Some([]) => &[][..],
            Some([b':', b' ', value @ ..] | [b':', value @ ..]) => value,
            // A comment, another field, or a field whose name only begins like ours.
            Some(_) | None => return Ok(()),
        };
        if value.first() == Some(&b':') {
            return Ok(());
        }
        if self.data.len() + value.len() >= FRAME_BYTES {
            return Err(FrameTooLong);
        }
        if self.lines == Lines::Some {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        self.lines = Lines::Some;
        Ok(())
    }

    /// Whether an event is complete now. One without data is none.
    fn dispatch(&mut self) -> bool {
        let found = !self.data.is_empty();
        self.lines = if found { Lines::HandedOut } else { Lines::None };
        found
    }

    fn forget_handed_out(&mut self) {
        if self.lines == Lines::HandedOut {
            self.data.clear();
            self.lines = Lines::None;
        }
    }
}
