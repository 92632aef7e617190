//! The wide event of a fetch.

use kernel::Caller;
use outbound::End;
use runtime::{EventKind, Outcome, WideEvent, attributes};

use crate::{
    fetch::{Ask, Fetched, Progress},
    refusal::Refusal,
};

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
    if let Some((host, port)) = &progress.server {
        event
            .set(attributes::SERVER_ADDRESS, host.clone())
            .set(attributes::SERVER_PORT, *port);
    }
    event.set(attributes::HOPS, progress.redirects);
}

/// How it ended.
pub(crate) fn end(event: &mut WideEvent, outcome: &Result<Fetched, Refusal>) {
    match outcome {
        Ok(fetched) => {
            event
                .outcome(Outcome::Ok)
                .set(attributes::VERDICT, "allow")
                .set(attributes::HTTP_STATUS, fetched.status.as_u16())
                .set(attributes::HTTP_BODY_BYTES, fetched.body_bytes)
                .set(attributes::OUTPUT_BYTES, fetched.page.text.len())
                .set(
                    attributes::TRUNCATED,
                    fetched.page.next.is_some() || fetched.end != End::Complete,
                );
        }
        Err(refusal) => {
            event
                .outcome(refusal.reason.outcome())
                .set(attributes::REASON, refusal.reason.as_str())
                .set(
                    attributes::VERDICT,
                    refusal.rule.map_or("allow", outbound::Rule::as_str),
                );
        }
    }
}
