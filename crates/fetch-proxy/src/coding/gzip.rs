//! gzip (RFC 1952), one member after another.

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::{Stand, Step};

/// Bytes of a header's name, comment and extra field together: nobody needs them.
const HEADER_BYTES: usize = 64 * 1_024;

/// Where in a member.
#[derive(Debug, Clone, Copy)]
enum At {
    /// In its first ten bytes.
    Fixed,
    ExtraLength,
    Extra(usize),
    Name,
    Comment,
    HeaderCrc,
    Data,
    /// In its last eight bytes.
    Trailer,
}

pub(super) struct Gzip {
    at: At,
    flags: u8,
    /// Bytes of the field that is being read.
    field: [u8; 10],
    filled: usize,
    header_bytes: usize,
    inflate: Decompress,
    crc: Crc,
    /// Whether a whole member came before.
    has_member: bool,
}

impl Default for Gzip {
    fn default() -> Self {
        Self {
            at: At::Fixed,
            flags: 0,
            field: [0; 10],
            filled: 0,
            header_bytes: 0,
            inflate: Decompress::new(false),
            crc: Crc::new(),
            has_member: false,
        }
    }
}

impl Gzip {
    /// Whether the input may end here: between members.
    pub(super) fn may_end(&self) -> bool {
        self.has_member && matches!(self.at, At::Fixed) && self.filled == 0
    }

    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        let mut read = 0;
        loop {
            if matches!(self.at, At::Data) {
                return self.inflate(&input[read..], output, read);
            }
            let Some(&byte) = input.get(read) else {
                return at(read, Some(Stand::Hungry));
            };
            read += 1;
            if let Some(stand) = self.frame(byte) {
                return at(read, Some(stand));
            }
        }
    }

    fn inflate(&mut self, input: &[u8], output: &mut [u8], before: usize) -> Step {
        let (in_before, out_before) = (self.inflate.total_in(), self.inflate.total_out());
        let status = self
            .inflate
            .decompress(input, output, FlushDecompress::None);
        let since = |total: u64, start: u64| usize::try_from(total - start).unwrap_or(usize::MAX);
        let read = since(self.inflate.total_in(), in_before);
        let wrote = since(self.inflate.total_out(), out_before);
        self.crc.update(&output[..wrote]);
        let stand = match status {
            Err(_corrupt) => Some(Stand::Corrupt),
            Ok(Status::StreamEnd) => {
                self.enter(At::Trailer);
                None
            }
            Ok(Status::Ok | Status::BufError) if wrote == 0 && read == input.len() => {
                Some(Stand::Hungry)
            }
            Ok(Status::Ok | Status::BufError) if wrote == 0 && read == 0 => Some(Stand::Corrupt),
            Ok(Status::Ok | Status::BufError) => None,
        };
        Step {
            read: before + read,
            wrote,
            stand,
        }
    }

    /// Takes one byte of what is around the data.
    fn frame(&mut self, byte: u8) -> Option<Stand> {
        self.header_bytes += 1;
        if self.header_bytes > HEADER_BYTES {
            return Some(Stand::Corrupt);
        }
        match self.at {
            At::Fixed => {
                self.fill(byte);
                let is_magic = [0x1f, 0x8b, 8]
                    .iter()
                    .zip(&self.field[..self.filled])
                    .all(|(expected, byte)| expected == byte);
                if !is_magic {
                    // Zeros and other rests after a member are no part of it, as for every browser.
                    return Some(if self.has_member {
                        Stand::Ended
                    } else {
                        Stand::Corrupt
                    });
                }
                if self.filled == 10 {
                    self.flags = self.field[3];
                    if self.flags & 0xe0 != 0 {
                        return Some(Stand::Corrupt);
                    }
                    self.after_fixed(0x04);
                }
            }
            At::ExtraLength => {
                self.fill(byte);
                if self.filled == 2 {
                    let length = u16::from_le_bytes([self.field[0], self.field[1]]);
                    match usize::from(length) {
                        0 => self.after_fixed(0x08),
                        length => self.enter(At::Extra(length)),
                    }
                }
            }
            At::Extra(1) => self.after_fixed(0x08),
            At::Extra(left) => self.at = At::Extra(left - 1),
            At::Name if byte == 0 => self.after_fixed(0x10),
            At::Comment if byte == 0 => self.after_fixed(0x02),
            At::Name | At::Comment => {}
            At::HeaderCrc => {
                self.fill(byte);
                if self.filled == 2 {
                    self.enter(At::Data);
                }
            }
            At::Data => {}
            At::Trailer => {
                self.fill(byte);
                if self.filled == 8 {
                    return self.end_member();
                }
            }
        }
        None
    }

    fn end_member(&mut self) -> Option<Stand> {
        let number = |from: usize| {
            self.field[from..from + 4]
                .iter()
                .rev()
                .fold(0_u32, |number, &byte| number << 8 | u32::from(byte))
        };
        if number(0) != self.crc.sum() || number(4) != self.crc.amount() {
            return Some(Stand::Corrupt);
        }
        self.inflate.reset(false);
        self.crc.reset();
        self.has_member = true;
        self.header_bytes = 0;
        self.enter(At::Fixed);
        None
    }

    /// The first of the optional fields from this flag on that the header has.
    fn after_fixed(&mut self, from: u8) {
        let fields = [
            (0x04, At::ExtraLength),
            (0x08, At::Name),
            (0x10, At::Comment),
            (0x02, At::HeaderCrc),
        ];
        let next = fields
            .into_iter()
            .skip_while(|&(flag, _)| flag != from)
            .find(|&(flag, _)| self.flags & flag != 0);
        self.enter(next.map_or(At::Data, |(_, at)| at));
    }

    fn enter(&mut self, at: At) {
        self.at = at;
        self.filled = 0;
    }

    fn fill(&mut self, byte: u8) {
        self.field[self.filled] = byte;
        self.filled += 1;
    }
}

fn at(read: usize, stand: Option<Stand>) -> Step {
    Step {
        read,
        wrote: 0,
        stand,
    }
}
