//! Content codings (RFC 9110 section 8.4.1): which a body has, and its bytes without it.
//!
//! A few bytes can stand for gigabytes, so decoding goes in small steps and stops wherever its caller's bound is.

mod brotli;
mod gzip;

use http::{HeaderMap, header};

use self::{brotli::Brotli, gzip::Gzip};

/// What is asked for.
pub(crate) const ACCEPTED: &str = "gzip, br";
/// The most that one step gives.
const STEP_BYTES: usize = 16 * 1_024;
/// Names of codings that are known from the registry. Of a server's words only these get into a sentence.
const KNOWN: [&str; 10] = [
    "aes128gcm",
    "br",
    "compress",
    "dcb",
    "dcz",
    "deflate",
    "gzip",
    "identity",
    "x-gzip",
    "zstd",
];

/// How a body is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Brotli,
}

impl Coding {
    /// The coding of an answer, or why it cannot be read. Two codings on top of each other are what bombs have, and no page.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, String> {
        let mut names: Vec<String> = Vec::new();
        for value in headers.get_all(header::CONTENT_ENCODING) {
            let text = String::from_utf8_lossy(value.as_bytes());
            let here = text.split(',').map(|name| name.trim().to_ascii_lowercase());
            names.extend(here.filter(|name| !name.is_empty()));
        }
        let coding = match names.as_slice() {
            [] => Some(Self::Identity),
            [one] => match one.as_str() {
                "identity" => Some(Self::Identity),
                "gzip" | "x-gzip" => Some(Self::Gzip),
                "br" => Some(Self::Brotli),
                _ => None,
            },
            [_, _, ..] => None,
        };
        coding.ok_or_else(|| {
            let shown = if names.len() <= 4 && names.iter().all(|name| KNOWN.contains(&&**name)) {
                names.join(", ")
            } else {
                "in a way that is not known here".to_owned()
            };
            format!(
                "the host sent its answer compressed ({shown}), and only gzip or br, once, can be read"
            )
        })
    }
}

/// Where decoding stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    /// All that was put in came out.
    Hungry,
    /// There is more than there was room for.
    Full,
    /// The coded body is over; what follows it is no part of it.
    Ended,
    /// What was put in is not coded as it should be.
    Corrupt,
}

/// What one step of a decoder did.
struct Step {
    read: usize,
    wrote: usize,
    stand: Option<Stand>,
}

enum Kind {
    Identity,
    Gzip(Box<Gzip>),
    Brotli(Box<Brotli>),
}

/// Takes a coding off a body, piece by piece.
pub(crate) struct Decoder {
    kind: Kind,
    scratch: Vec<u8>,
    /// What of `scratch` is decoded and found no room yet.
    pending: std::ops::Range<usize>,
}

impl Decoder {
    pub(crate) fn new(coding: Coding) -> Self {
        let (kind, scratch) = match coding {
            Coding::Identity => (Kind::Identity, Vec::new()),
            Coding::Gzip => (Kind::Gzip(Box::default()), vec![0; STEP_BYTES]),
            Coding::Brotli => (Kind::Brotli(Box::default()), vec![0; STEP_BYTES]),
        };
        Self {
            kind,
            scratch,
            pending: 0..0,
        }
    }

    /// Decodes from `input`, which it moves on, to the end of `output`, until that has `limit` bytes.
    pub(crate) fn decode(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        limit: usize,
    ) -> Stand {
        loop {
            let room = limit.saturating_sub(output.len());
            if !self.pending.is_empty() {
                let taken = room.min(self.pending.len());
                let end = self.pending.start + taken;
                output.extend_from_slice(&self.scratch[self.pending.start..end]);
                self.pending.start = end;
                if !self.pending.is_empty() {
                    return Stand::Full;
                }
            }
            let step = match &mut self.kind {
                Kind::Identity => {
                    let taken = room.min(input.len());
                    output.extend_from_slice(&input[..taken]);
                    *input = &input[taken..];
                    return if input.is_empty() {
                        Stand::Hungry
                    } else {
                        Stand::Full
                    };
                }
                Kind::Gzip(gzip) => gzip.step(input, &mut self.scratch),
                Kind::Brotli(brotli) => brotli.step(input, &mut self.scratch),
            };
            *input = &input[step.read..];
            self.pending = 0..step.wrote;
            if let Some(stand) = step.stand {
                let taken = limit.saturating_sub(output.len()).min(step.wrote);
                output.extend_from_slice(&self.scratch[..taken]);
                self.pending.start = taken;
                return if self.pending.is_empty() {
                    stand
                } else {
                    Stand::Full
                };
            }
        }
    }

    /// Whether a body may end here.
    pub(crate) fn may_end(&self) -> bool {
        match &self.kind {
            Kind::Identity => true,
            Kind::Gzip(gzip) => gzip.may_end(),
            Kind::Brotli(brotli) => brotli.has_ended(),
        }
    }
}

#[cfg(test)]
mod tests;
