//! Bodies off the wire, decoded and bounded.

use std::sync::Arc;

use outbound::Body;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use crate::coding::{Coding, Decoder, Stand};

/// Bytes that every fetch may hold; more takes one of the places for large bodies.
const SMALL_BYTES: usize = 128 * 1_024;
/// Bytes of all large bodies together.
const LARGE_BYTES: usize = 20 * 1_024 * 1_024;

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

/// A body's part of the memory for bodies.
#[derive(Debug, Default)]
pub(crate) struct Room {
    _large: Option<OwnedSemaphorePermit>,
}

/// The memory for bodies of one process.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    large: Arc<Semaphore>,
}

impl Memory {
    /// For bodies of at most so many bytes.
    pub(crate) fn new(body_bytes: usize) -> Self {
        let places = LARGE_BYTES / body_bytes.max(1);
        Self {
            large: Arc::new(Semaphore::new(places.max(1))),
        }
    }

    /// Reads a body until its end, a bound, or `deadline`; `wire` counts its bytes as they were sent.
    pub(crate) async fn read(
        &self,
        mut body: Body,
        coding: Coding,
        bounds: Bounds,
        deadline: Instant,
        wire: &mut u64,
    ) -> Arrived {
        let mut reading = Reading {
            decoder: Decoder::new(coding),
            bytes: Vec::new(),
            large: None,
        };
        let mut left = bounds.wire_bytes;
        let end = loop {
            let piece = match timeout_at(deadline, body.next_piece()).await {
                Err(_elapsed) => break End::Late,
                Ok(Err(_broken_off)) => break End::Short,
                Ok(Ok(None)) if reading.decoder.may_end() => break End::Complete,
                // An empty body is whole whatever its coding: error pages and HTTP/1.0 servers have them.
                Ok(Ok(None)) if *wire == 0 => break End::Complete,
                Ok(Ok(None)) => break End::Short,
                Ok(Ok(Some(piece))) => piece,
            };
            let taken = piece.len().min(left);
            left -= taken;
            *wire += u64::try_from(taken).unwrap_or(u64::MAX);
            let stand = reading
                .take(&piece[..taken], bounds.decoded_bytes, self, deadline)
                .await;
            match stand {
                None => break End::Late,
                Some(Stand::Full) => break End::Cut,
                Some(Stand::Corrupt) => break End::Corrupt,
                Some(Stand::Ended) => break End::Complete,
                Some(Stand::Hungry) if taken < piece.len() => break End::CutOnTheWire,
                Some(Stand::Hungry) => {}
            }
        };
        Arrived {
            bytes: reading.bytes,
            end,
            room: Room {
                _large: reading.large,
            },
        }
    }
}

struct Reading {
    decoder: Decoder,
    bytes: Vec<u8>,
    large: Option<OwnedSemaphorePermit>,
}

impl Reading {
    /// Decodes a piece. None if there was no room for it in time.
    async fn take(
        &mut self,
        mut piece: &[u8],
        limit: usize,
        memory: &Memory,
        deadline: Instant,
    ) -> Option<Stand> {
        loop {
            let now = if self.large.is_some() {
                limit
            } else {
                limit.min(SMALL_BYTES)
            };
            let stand = self.decoder.decode(&mut piece, &mut self.bytes, now);
            // Decoding takes a core for a while; others have fetches too.
            tokio::task::yield_now().await;
            if stand != Stand::Full || now == limit {
                return Some(stand);
            }
            let waiting = Arc::clone(&memory.large).acquire_owned();
            self.large = Some(timeout_at(deadline, waiting).await.ok()?.ok()?);
        }
    }
}
