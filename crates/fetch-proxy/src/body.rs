//! Bodies off the wire, decoded and bounded.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use outbound::Body;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use crate::coding::{Coding, Decoder, Stand};

/// Bytes that every fetch may hold; more takes a part of the memory for large bodies.
const SMALL_BYTES: usize = 128 * 1_024;
/// The memory for all large bodies, in units of [`UNIT_BYTES`].
const LARGE_UNITS: usize = 24;
const UNIT_BYTES: usize = 1_024 * 1_024;
/// How long a body that is there waits for the memory to decode it, if its own time is over.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// How a body ended for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// All of it is here.
    Complete,
    /// There is more, decoded, than is read.
    Cut,
    /// There is more, as sent, than is read.
    CutOnTheWire,
    /// The server stopped in the middle.
    Short,
    /// Its coding is broken from some point on.
    Corrupt,
    /// The rest did not come in time.
    Late,
}

/// Bounds on one body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) wire_bytes: usize,
    pub(crate) decoded_bytes: usize,
}

/// What came of a body.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: End,
    /// To be held as long as the bytes are.
    pub(crate) room: Room,
}

/// A body's part of the memory for large bodies.
#[derive(Debug, Default)]
pub(crate) struct Room {
    _large: Option<OwnedSemaphorePermit>,
}

/// The memory for large bodies of one process.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    large: Arc<Semaphore>,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self {
            large: Arc::new(Semaphore::new(LARGE_UNITS)),
        }
    }

    /// Reads a body until its end, a bound, or `deadline`; `wire` counts its bytes as they were sent.
    pub(crate) async fn read(
        &self,
        mut body: Body,
        coding: Coding,
        bounds: Bounds,
        deadline: Instant,
        wire: &AtomicU64,
    ) -> Arrived {
        let mut reading = Reading {
            memory: self,
            bounds,
            deadline,
            decoder: Decoder::new(coding),
            waiting: Vec::new(),
            bytes: Vec::new(),
            large: None,
        };
        let mut left = bounds.wire_bytes;
        let end = loop {
            let piece = match timeout_at(deadline, body.next_piece()).await {
                Err(_elapsed) => break End::Late,
                Ok(Err(_broken_off)) => break End::Short,
                Ok(Ok(None)) => break End::Complete,
                Ok(Ok(Some(piece))) => piece,
            };
            let taken = piece.len().min(left);
            left -= taken;
            wire.fetch_add(u64::try_from(taken).unwrap_or(u64::MAX), Ordering::Relaxed);
            let stopped = match coding {
                Coding::Identity | Coding::Gzip => reading.decode(&piece[..taken]).await,
                Coding::Brotli => reading.put_aside(&piece[..taken]).await,
            };
            if let Some(end) = stopped {
                break end;
            }
            if taken < piece.len() {
                break End::CutOnTheWire;
            }
        };
        drop(body);
        // An empty body is whole whatever its coding: error pages and HTTP/1.0 servers have them.
        let is_empty = left == bounds.wire_bytes;
        let end = match (coding, end) {
            (_, End::Complete) if is_empty => End::Complete,
            (Coding::Brotli, end) => reading.decode_aside(end).await,
            (Coding::Identity | Coding::Gzip, End::Complete) if !reading.decoder.may_end() => {
                End::Short
            }
            (Coding::Identity | Coding::Gzip, end) => end,
        };
        reading.arrived(end)
    }
}

struct Reading<'m> {
    memory: &'m Memory,
    bounds: Bounds,
    deadline: Instant,
    decoder: Decoder,
    /// Brotli that is not decoded yet. Its decoder takes its whole window for a few bytes, so that a slow host would have much
    /// memory for long: it is decoded when it is there.
    waiting: Vec<u8>,
    bytes: Vec<u8>,
    large: Option<OwnedSemaphorePermit>,
}

impl Reading<'_> {
    /// Decodes a piece. How the body ends here, if it does.
    async fn decode(&mut self, mut piece: &[u8]) -> Option<End> {
        let limit = self.bounds.decoded_bytes;
        loop {
            let now = if self.large.is_some() {
                limit
            } else {
                limit.min(SMALL_BYTES)
            };
            let stand = self.decoder.decode(&mut piece, &mut self.bytes, now);
            // Decoding takes a core for a while; others have fetches too.
            tokio::task::yield_now().await;
            match stand {
                Stand::Hungry => return None,
                Stand::Ended => return Some(End::Complete),
                Stand::Corrupt => return Some(End::Corrupt),
                Stand::Full if now == limit => return Some(End::Cut),
                Stand::Full => {}
            }
            if !self.take_room(limit).await {
                return Some(End::Late);
            }
        }
    }

    async fn put_aside(&mut self, piece: &[u8]) -> Option<End> {
        let bytes = self.waiting.len() + piece.len();
        if bytes > SMALL_BYTES && self.large.is_none() {
            let window = brotli_window(&self.waiting);
            let Bounds {
                wire_bytes,
                decoded_bytes,
            } = self.bounds;
            if !self.take_room(wire_bytes + window + decoded_bytes).await {
                return Some(End::Late);
            }
        }
        self.waiting.extend_from_slice(piece);
        None
    }

    /// Decodes what waits, now that the body has ended like this.
    async fn decode_aside(&mut self, end: End) -> End {
        let waiting = std::mem::take(&mut self.waiting);
        // It is there, and decoding it takes milliseconds: worth a moment of the time for reading it.
        self.deadline = self.deadline.max(Instant::now() + LAST_WAIT);
        let bytes = brotli_window(&waiting) + self.bounds.decoded_bytes;
        if self.large.is_none() && !self.take_room(bytes).await {
            return End::Late;
        }
        match (self.decode(&waiting).await, end) {
            // The stream goes on where the bytes end.
            (None, End::Complete) => End::Short,
            (None, end) => end,
            (Some(decoded), _) => decoded,
        }
    }

    /// Waits for a part of the memory for large bodies. Whether there was one in time.
    async fn take_room(&mut self, bytes: usize) -> bool {
        let waiting = Arc::clone(&self.memory.large).acquire_many_owned(units(bytes));
        let Ok(Ok(permit)) = timeout_at(self.deadline, waiting).await else {
            return false;
        };
        self.large = Some(permit);
        // All of it at once: growing would copy it, and what is not written to costs nothing.
        self.bytes
            .reserve_exact(self.bounds.decoded_bytes.saturating_sub(self.bytes.len()));
        true
    }

    /// Gives back what the bytes do not need.
    fn keep_room(&mut self) {
        self.bytes.shrink_to_fit();
        let needed = if self.bytes.len() > SMALL_BYTES {
            units(self.bytes.len())
        } else {
            0
        };
        if let Some(mut permit) = self.large.take() {
            let needed = usize::try_from(needed).unwrap_or(usize::MAX);
            self.large = permit.split(needed.min(permit.num_permits()));
        }
    }

    fn arrived(mut self, end: End) -> Arrived {
        // First the decoder, whose window it may have room for.
        self.decoder = Decoder::new(Coding::Identity);
        self.keep_room();
        Arrived {
            bytes: self.bytes,
            end,
            room: Room { _large: self.large },
        }
    }
}

/// How much of the memory so many bytes are; at most all of it.
fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES).min(LARGE_UNITS)).unwrap_or(u32::MAX)
}

/// The window that a stream's first byte asks for (RFC 7932 section 9.1): below 64 KiB counts as that.
fn brotli_window(stream: &[u8]) -> usize {
    let bits = match stream.first() {
        Some(first) if first & 1 == 1 && first >> 1 & 7 != 0 => 17 + (first >> 1 & 7),
        Some(_) | None => 17,
    };
    1 << bits
}
