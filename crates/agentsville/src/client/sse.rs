//! Server-sent events, as far as the UI message stream uses them: `data` lines, comments, blank lines.

/// The largest event. A Part is at most 1 MiB, and JSON may escape every character of it.
pub(super) const EVENT_BYTES: usize = 8 * 1_024 * 1_024;

/// The stream sends events past the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the Village sent an event of more than {EVENT_BYTES} bytes")]
pub(super) struct EventTooLarge;

/// Cuts bytes into events. The result does not depend on how the bytes are split.
#[derive(Debug, Default)]
pub(super) struct Framer {
    line: Vec<u8>,
    data: Option<String>,
    after_cr: bool,
}

impl Framer {
    /// Takes more bytes and adds the data of each whole event to `events`.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        events: &mut Vec<String>,
    ) -> Result<(), EventTooLarge> {
        for &byte in bytes {
            let ends_cr_lf = self.after_cr && byte == b'\n';
            self.after_cr = byte == b'\r';
            if ends_cr_lf {
                continue;
            }
            if byte == b'\n' || byte == b'\r' {
                self.end_line(events);
                continue;
            }
            self.line.push(byte);
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > EVENT_BYTES {
                return Err(EventTooLarge);
            }
        }
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<String>) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            events.extend(self.data.take());
            return;
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.strip_prefix('\u{FEFF}').unwrap_or(&line);
        let Some(value) = line.strip_prefix("data:") else {
            return;
        };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match &mut self.data {
            None => self.data = Some(value.to_owned()),
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<String> {
        let mut framer = Framer::default();
        let mut events = Vec::new();
        for piece in pieces {
            framer.push(piece, &mut events).unwrap();
        }
        events
    }

    #[test]
    fn events_do_not_depend_on_how_the_bytes_are_split() {
        let stream = "\u{FEFF}data: a\n\n: keep-alive\n\ndata:{\"é\":1}\r\n\r\ndata: x\rdata: y\r\r\ndata: unfinished";
        let whole = events(&[stream.as_bytes()]);
        assert_eq!(whole, ["a", "{\"é\":1}", "x\ny"]);
        for size in 1..9 {
            let pieces: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
            assert_eq!(events(&pieces), whole, "{size}");
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut framer = Framer::default();
        let line = format!("data: {}\n", "x".repeat(1_000_000));
        let outcome = (0..20).try_for_each(|_| framer.push(line.as_bytes(), &mut Vec::new()));
        assert_eq!(outcome, Err(EventTooLarge));
    }
}
