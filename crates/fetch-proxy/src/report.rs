//! The wide event of a fetch.

use std::sync::atomic::Ordering;

use kernel::Caller;
use runtime::{EventKind, Outcome, WideEvent, attributes};

use crate::{
    Error,
    body::End,
    fetch::{Ask, Fetched, Origin, Progress},
    refusal::Refusal,
};

/// The media type after a look at the body.
const MEDIA_TYPE: &str = "agentsville.fetch.media_type";
/// How the characters were written.
const CHARSET: &str = "agentsville.fetch.charset";
/// What the text is of the body.
const FORM: &str = "agentsville.fetch.form";
/// Bytes of bodies, as they were sent.
const WIRE_BYTES: &str = "agentsville.fetch.wire_bytes";
/// Whether the text was kept from before.
const CACHE_HIT: &str = "agentsville.fetch.cache_hit";
/// `ignore` or `obey`.
const ROBOTS: &str = "agentsville.fetch.robots";
/// Time spent waiting for a place, in milliseconds.
const QUEUE_MS: &str = "agentsville.fetch.queue_ms";
/// The most memory that the reader's child had, in bytes.
const READER_MEMORY: &str = "agentsville.fetch.reader_memory_bytes";
/// Time of a core that the reader's child took, in microseconds.
const READER_CORE: &str = "agentsville.fetch.reader_core_us";

/// A fetch as it is recorded: who, where to (the host alone; the URL only while content is on), how far, and how it ended.
pub(crate) fn begin(caller: &Caller, ask: &Ask) -> WideEvent {
    let mut event = WideEvent::begin(EventKind::Fetch);
    event
        .set(attributes::CALLER, caller.label())
        .set(attributes::INPUT_BYTES, ask.url.len())
        .content(attributes::URL_FULL, || ask.url.clone());
    if let Caller::Npc { npc, player } = caller {
        event
            .set_display(attributes::NPC_ID, npc)
            .set_display(attributes::PLAYER_ID, player);
    }
    event
}

/// How far it came.
pub(crate) fn progress(event: &mut WideEvent, progress: &Progress) {
    let queued = u64::try_from(progress.queued.as_millis()).unwrap_or(u64::MAX);
    event
        .set(QUEUE_MS, queued)
        .set(WIRE_BYTES, progress.wire_bytes.load(Ordering::Relaxed))
        .set(ROBOTS, progress.robots.as_str());
    if let Some((host, port)) = &progress.server {
        event
            .set(attributes::SERVER_ADDRESS, host.clone())
            .set(attributes::SERVER_PORT, *port);
    }
    event.set(attributes::HOPS, progress.redirects);
}

/// How it ended.
pub(crate) fn end(event: &mut WideEvent, outcome: &Result<Result<Fetched, Refusal>, Error>) {
    match outcome {
        Ok(Ok(fetched)) => page(event, fetched),
        Ok(Err(refusal)) => {
            event
                .outcome(refusal.reason.outcome())
                .set(attributes::REASON, refusal.reason.as_str())
                .set(
                    attributes::VERDICT,
                    refusal.rule.map_or("allow", outbound::Rule::as_str),
                );
        }
        Err(error) => {
            event.outcome(Outcome::Error(error.code()));
        }
    }
}

fn page(event: &mut WideEvent, fetched: &Fetched) {
    let snapshot = &fetched.snapshot;
    let reading = &snapshot.reading;
    let is_cut = fetched.page.next.is_some()
        || snapshot.end != End::Complete
        || snapshot.is_excerpt
        || reading.truncated.is_some();
    event
        .outcome(Outcome::Ok)
        .set(attributes::VERDICT, "allow")
        .set(attributes::HTTP_STATUS, snapshot.status.as_u16())
        .set(attributes::HTTP_BODY_BYTES, snapshot.body_bytes)
        .set(attributes::OUTPUT_BYTES, fetched.page.text.len())
        .set(attributes::TRUNCATED, is_cut)
        .set(MEDIA_TYPE, reading.media_type.clone())
        .set(FORM, reading.form.as_str())
        .set(CACHE_HIT, fetched.origin == Origin::Snapshot)
        .set_some(CHARSET, reading.charset.clone());
    if let (Some(cost), Origin::Host | Origin::HostAgain) = (reading.cost, fetched.origin) {
        event
            .set(READER_MEMORY, cost.memory_bytes)
            .set(READER_CORE, cost.core_micros);
    }
}
