//! The wide event of a tunnel, or of a request that is passed on. It is written when this is dropped, on whichever path.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use http::Method;
use kernel::ErrorCode;
use outbound::Target;
use runtime::{EventKind, Outcome, WideEvent, attributes};

use super::{
    denial::Denial,
    destination::Form,
    identity::Whose,
    pulse::{Cut, Pulse},
};

/// How the request named its destination: `connect` or `absolute`.
const FORM: &str = "agentsville.form";
/// The method of a request that is passed on.
const METHOD: &str = "http.request.method";
/// Methods that are recorded as they are (RFC 9110 section 9.1, RFC 5789); clients can make up others (OpenTelemetry: `_OTHER`).
const METHODS: [Method; 9] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::CONNECT,
    Method::OPTIONS,
    Method::TRACE,
    Method::PATCH,
];
/// The verdict on what was let pass.
const ALLOW: &str = "allow";

/// Bytes each way.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// From the client.
    pub(super) up: AtomicU64,
    /// To the client.
    pub(super) down: AtomicU64,
    /// Whether the client would have sent more than may go through.
    pub(super) is_too_much: AtomicBool,
}

/// How something that was let pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// All of it went through, and both sides closed.
    Complete,
    /// One side broke off.
    Broken,
    /// One side closed, and the other said nothing any more.
    HalfClosed,
    /// It was cut for its silence or age.
    Cut(Cut),
    /// It carried as many bytes as may go one way.
    TooManyBytes,
    /// The name in the client's hello is not the tunnel's.
    SniMismatch,
    /// What the client began with is no hello.
    NotTls,
}

impl End {
    /// The word in records.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Broken => "broken",
            Self::HalfClosed => "half-closed",
            Self::Cut(cut) => cut.as_str(),
            Self::TooManyBytes => "too-many-bytes",
            Self::SniMismatch => "sni-mismatch",
            Self::NotTls => "not-tls",
        }
    }

    const fn outcome(self) -> Outcome {
        match self {
            Self::Complete => Outcome::Ok,
            Self::Broken => Outcome::Error(ErrorCode::Unavailable),
            Self::TooManyBytes => Outcome::Error(ErrorCode::ResourceExhausted),
            Self::HalfClosed | Self::Cut(_) => Outcome::Interrupted,
            Self::SniMismatch | Self::NotTls => Outcome::Denied,
        }
    }
}

/// What is recorded. Without a word on its end: that it was interrupted.
#[derive(Debug)]
pub(super) struct Record {
    event: WideEvent,
    traffic: Arc<Traffic>,
    pulse: Arc<Pulse>,
    has_end: bool,
}

impl Record {
    /// Begins now.
    pub(super) fn begin(form: Form, method: Option<&Method>, pulse: Arc<Pulse>) -> Self {
        pulse.begin();
        let mut event = WideEvent::begin(EventKind::EgressTunnel);
        event.set(FORM, form.as_str());
        if let Some(method) = method {
            let known = METHODS.iter().any(|known| known == method);
            let shown = if known { method.as_str() } else { "_OTHER" };
            event.set(METHOD, shown.to_owned());
        }
        Self {
            event,
            traffic: Arc::default(),
            pulse,
            has_end: false,
        }
    }

    /// The bytes that are counted for it.
    pub(super) fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// Whose it is.
    pub(super) fn whose(&mut self, whose: Whose) {
        self.event
            .set_display(attributes::NPC_ID, whose.npc)
            .set_display(attributes::PLAYER_ID, whose.player);
    }

    /// Where it goes.
    pub(super) fn target(&mut self, target: &Target) {
        self.event
            .set_display(attributes::SERVER_ADDRESS, target.host())
            .set(attributes::SERVER_PORT, target.port());
    }

    /// It was let pass.
    pub(super) fn allowed(&mut self) {
        self.event.set(attributes::VERDICT, ALLOW);
    }

    /// What the server answered.
    pub(super) fn status(&mut self, status: http::StatusCode) {
        self.event.set(attributes::HTTP_STATUS, status.as_u16());
    }

    /// It was not served.
    pub(super) fn denied(&mut self, denial: &Denial) {
        self.has_end = true;
        self.pulse.finish();
        self.status(denial.status);
        self.event
            .set(attributes::VERDICT, denial.rule)
            .set(attributes::REASON, "denied")
            .outcome(denial.outcome());
    }

    /// It ended so.
    pub(super) fn ended(&mut self, end: End) {
        self.has_end = true;
        // What ends otherwise must not look whole: its connection is reset.
        if end == End::Complete {
            self.pulse.finish();
        }
        if end.outcome() == Outcome::Denied {
            self.event.set(attributes::VERDICT, end.as_str());
        }
        self.event
            .set(attributes::REASON, end.as_str())
            .outcome(end.outcome());
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.has_end {
            let reason = self.pulse.cut().map_or("interrupted", Cut::as_str);
            self.event.set(attributes::REASON, reason);
        }
        self.event
            .set(
                attributes::INPUT_BYTES,
                self.traffic.up.load(Ordering::Relaxed),
            )
            .set(
                attributes::OUTPUT_BYTES,
                self.traffic.down.load(Ordering::Relaxed),
            );
    }
}
