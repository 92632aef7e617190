//! Which transport a scripted server speaks, and what it does wrong in HTTP.

use std::time::Duration;

/// How a server of streamable HTTP answers requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// With one JSON message. What else it has to say goes to the GET stream, if there is one.
    Json,
    /// With a stream of events.
    Sse,
}

/// Which transport a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// Streamable HTTP, at `/mcp`.
    Http(Manner),
    /// The older HTTP with server-sent events: the stream at `/sse`, messages to `/message`.
    Sse,
}

/// What a server does wrong in HTTP.
#[derive(Debug, Clone, PartialEq)]
pub enum HttpFault {
    /// Answers every POST so.
    Answers {
        /// The status.
        status: u16,
        /// Its headers.
        headers: Vec<(&'static str, String)>,
        /// Its body.
        body: String,
    },
    /// Answers requests of this JSON-RPC method so.
    AnswersMethod {
        /// The method.
        method: &'static str,
        /// The status.
        status: u16,
        /// The body.
        body: String,
    },
    /// Answers every GET with this status and no body.
    AnswersGet(u16),
    /// Answers every request at its usual path with a redirect; elsewhere it is as ever.
    Redirects {
        /// The status.
        status: u16,
        /// Where to.
        location: String,
    },
    /// Answers every POST with status 400 and all that came with it: URL and headers.
    EchoesAll,
    /// Takes connections and requests, and never answers.
    NeverAnswers,
    /// After so many POSTs a session is unknown, and told so.
    SessionExpiresEvery {
        /// So many POSTs.
        posts: usize,
        /// The status of the answer.
        status: u16,
        /// Its body; a JSON-RPC error if it is empty.
        body: String,
    },
    /// Gives no session id.
    NoSession,
    /// The GET stream ends at once.
    GetIsEmpty,
    /// A stream that answers a POST ends before the answer, which a GET with `Last-Event-ID` brings.
    Resumes {
        /// The `retry` that the stream names.
        retry: Duration,
    },
    /// Takes every request with status 202 and answers on the GET stream.
    AnswersOnGet,
    /// The body of an answer has no end.
    EndlessBody,
    /// Answers a DELETE never.
    DeleteHangs,
    /// The `endpoint` event names this. For the older kind.
    Endpoint(String),
    /// There is no `endpoint` event. For the older kind.
    NoEndpoint,
    /// Comments come between events.
    Comments,
}
