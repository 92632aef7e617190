//! The requests of streamable HTTP, and what their answers mean.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientRequest, ErrorCode, JsonRpcMessage, RequestId,
        ServerJsonRpcMessage,
    },
    transport::streamable_http_client::{
        StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
        StreamableHttpResponseLimits,
    },
};
use serde_json::value::RawValue;
use sse_stream::{Error as SseError, Sse};
use tokio::time::Instant;

use super::{CONTROL_TIME, Shared, rest::ToItsEnd};
use crate::{
    Failure,
    transport::{
        door::{Answer, Ask, EVENTS, JSON, is_success, looks_like_html},
        events::events,
    },
};

const ACCEPT_BOTH: &str = "application/json, text/event-stream";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// The longest session id and event id that are sent back.
const ID_BYTES: usize = 4 * 1_024;

type Outcome<T> = Result<T, StreamableHttpError<Failure>>;
type SseEvents = BoxStream<'static, Result<Sse, SseError>>;

/// `rmcp`'s way to a server.
#[derive(Debug, Clone)]
pub(super) struct HttpClient(pub(super) Arc<Shared>);

/// What a POST is about.
struct Post<'m> {
    /// The id, if it is a request.
    id: Option<&'m RequestId>,
    /// Whether it begins the conversation.
    begins: bool,
    /// Whether it is of a session.
    has_session: bool,
}

impl HttpClient {
    async fn post(
        &self,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Outcome<StreamableHttpPostResponse> {
        let post = Post {
            id: request_id(&message),
            begins: begins(&message),
            has_session: session.is_some(),
        };
        let body = serde_json::to_vec(&message)?;
        let time = match (post.id, post.begins) {
            (Some(_), false) => self.0.time_to_answer,
            (Some(_), true) | (None, _) => self.0.time_to_connect,
        };
        let deadline = Instant::now() + time;
        let mut ask = Ask::new(Method::POST, ACCEPT_BOTH, Bytes::from(body), deadline);
        ask.headers.extend(headers);
        add_session(&mut ask.headers, session.as_deref());
        let answer = self.0.door.ask(ask).await;
        let answer = answer.map_err(|failure| self.broken(failure))?;
        let status = answer.response.status();
        if !is_success(status) {
            return self.refused(answer, &post).await;
        }
        let Some(id) = post.id else {
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        let new_session = self.new_session(&answer, &post)?;
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let media_type = answer.media_type();
        if media_type == EVENTS {
            let stream = self.messages(answer, Ending::OfAnswer);
            return Ok(StreamableHttpPostResponse::Sse(stream, new_session));
        }
        if answer.is_html() {
            return Err(self.broken(Failure::html(status)));
        }
        let body = answer.response.into_body();
        let read = self.0.door.whole(body, self.0.answer_bytes, deadline).await;
        let bytes = read.map_err(|failure| {
            // The connection is as good as before.
            if failure == Failure::too_long(self.0.answer_bytes) {
                StreamableHttpError::Client(failure)
            } else {
                self.broken(failure)
            }
        })?;
        self.read(&bytes, &media_type, status, id, &post, new_session)
    }

    /// An answer in one body.
    fn read(
        &self,
        bytes: &[u8],
        media_type: &str,
        status: StatusCode,
        id: &RequestId,
        post: &Post<'_>,
        session: Option<String>,
    ) -> Outcome<StreamableHttpPostResponse> {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_start_matches('\u{FEFF}').trim();
        if text.starts_with('[')
            && let Ok(batch) = serde_json::from_str::<Vec<&RawValue>>(text)
        {
            let events: Vec<_> = batch
                .iter()
                .filter_map(|message| self.0.inbound.hear(message.get()))
                .map(|message| Ok(Sse::default().data(message)))
                .collect();
            let events = futures::stream::iter(events).boxed();
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        let heard = self.0.inbound.hear(text).unwrap_or(Cow::Borrowed(text));
        let message = match serde_json::from_str::<ServerJsonRpcMessage>(&heard) {
            Ok(JsonRpcMessage::Error(error)) => {
                if post.has_session && says_session_lost(&error.error.message) {
                    return Err(StreamableHttpError::SessionExpired);
                }
                ServerJsonRpcMessage::error(error.error, Some(id.clone()))
            }
            Ok(message) => message,
            Err(_source) if looks_like_html(bytes) => {
                return Err(self.broken(Failure::html(status)));
            }
            Err(_source) if media_type == JSON => {
                let failure = Failure::protocol(
                    "What answers does not speak MCP: its JSON is no message of JSON-RPC.",
                );
                return Err(self.broken(failure));
            }
            Err(_source) => {
                let shown = self.0.door.redactor().quote(media_type);
                return Err(self.broken(Failure::content_type(&shown)));
            }
        };
        Ok(StreamableHttpPostResponse::Json(message, session))
    }

    /// A status that is no success: an error of JSON-RPC, the end of a session, or a refusal.
    async fn refused(
        &self,
        answer: Answer,
        post: &Post<'_>,
    ) -> Outcome<StreamableHttpPostResponse> {
        let status = answer.response.status();
        let (failure, body) = self.0.door.refusal(answer).await;
        let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(JsonRpcMessage::Error(error)) => Some(error.error),
            Ok(_) | Err(_) => None,
        };
        let is_unknown_method = error
            .as_ref()
            .is_some_and(|error| error.code == ErrorCode::METHOD_NOT_FOUND);
        if post.has_session && !is_unknown_method {
            let is_lost = status == StatusCode::NOT_FOUND
                || (status.is_client_error() && says_session_lost(&String::from_utf8_lossy(&body)));
            if is_lost {
                return Err(StreamableHttpError::SessionExpired);
            }
        }
        let is_about_access = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        match (error, post.id) {
            (Some(error), Some(id)) if !is_about_access => {
                let message = ServerJsonRpcMessage::error(error, Some(id.clone()));
                Ok(StreamableHttpPostResponse::Json(message, None))
            }
            _ => Err(self.broken(failure)),
        }
    }

    /// The session that an answer to `initialize` begins.
    fn new_session(&self, answer: &Answer, post: &Post<'_>) -> Outcome<Option<String>> {
        if !post.begins {
            return Ok(None);
        }
        let Some(value) = answer.response.headers().get(SESSION) else {
            return Ok(None);
        };
        match value.to_str() {
            Ok(id) if !id.is_empty() && id.len() <= ID_BYTES => {
                self.0.has_session.store(true, Ordering::Release);
                Ok(Some(id.to_owned()))
            }
            Ok(_) | Err(_) => Err(self.broken(Failure::protocol(
                "The server gives its session a name that cannot be sent back.",
            ))),
        }
    }

    /// The messages of a stream, as `rmcp` shall read them.
    fn messages(&self, answer: Answer, ending: Ending) -> SseEvents {
        let shared = Arc::clone(&self.0);
        let tracker = shared.tracker.clone();
        let body = answer.response.into_body();
        let messages = events(body, shared.answer_bytes)
            .map(move |event| {
                let mut event = event.map_err(|failure| {
                    if ending == Ending::OfAnswer {
                        shared.trouble.note(failure.clone());
                    }
                    SseError::Body(Box::new(failure))
                })?;
                let data = event.data.take().unwrap_or_default();
                let text = data.trim();
                if text.starts_with(['{', '[']) {
                    if serde_json::from_str::<&RawValue>(text).is_err() {
                        let failure = Failure::protocol("The server's answer is broken JSON.");
                        shared.trouble.note(failure.clone());
                        return Err(SseError::Body(Box::new(failure)));
                    }
                    event.data = shared.inbound.hear(text).map(Cow::into_owned);
                }
                event.id = event.id.filter(|id| id.len() <= ID_BYTES);
                Ok(event)
            })
            .boxed();
        match ending {
            Ending::OfAnswer => Box::pin(ToItsEnd::new(messages, tracker)),
            Ending::OfStream => messages,
        }
    }

    async fn get(
        &self,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Outcome<SseEvents> {
        let gets = &self.0.gets;
        let is_for_anything = last_event.as_ref().is_none_or(String::is_empty);
        if is_for_anything && !gets.is_worth_it() {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        gets.turn().await;
        let deadline = Instant::now() + self.0.time_to_connect;
        let mut ask = Ask::new(Method::GET, EVENTS, Bytes::new(), deadline);
        ask.headers.extend(headers);
        add_session(&mut ask.headers, session.as_deref());
        if let Some(id) = last_event.and_then(|id| HeaderValue::from_str(&id).ok()) {
            ask.headers.insert(LAST_EVENT, id);
        }
        let answer = self.0.door.ask(ask).await;
        let answer = answer.map_err(StreamableHttpError::Client)?;
        let status = answer.response.status();
        if status.is_server_error() {
            let (failure, _body) = self.0.door.refusal(answer).await;
            return Err(StreamableHttpError::Client(failure));
        }
        if !is_success(status) || answer.media_type() != EVENTS {
            // Whatever it is, asking again will not make it a stream.
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if is_for_anything {
            Ok(gets.watch(self.messages(answer, Ending::OfStream)))
        } else {
            Ok(self.messages(answer, Ending::OfAnswer))
        }
    }

    /// A failure after which the connection is not used any more.
    fn broken(&self, failure: Failure) -> StreamableHttpError<Failure> {
        self.0.trouble.note(failure.clone());
        StreamableHttpError::Client(failure)
    }
}

/// Whose end a stream's end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Of the answer to a request.
    OfAnswer,
    /// Of a stream that answers nothing in particular.
    OfStream,
}

impl StreamableHttpClient for HttpClient {
    type Error = Failure;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Outcome<StreamableHttpPostResponse> {
        self.post(message, session_id, custom_headers).await
    }

    // The bounds are the settings', whichever of these `rmcp` calls.
    async fn post_message_with_max_sse_event_size(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        _max_sse_event_size: usize,
    ) -> Outcome<StreamableHttpPostResponse> {
        self.post(message, session_id, custom_headers).await
    }

    async fn post_message_with_response_limits(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        _limits: StreamableHttpResponseLimits,
    ) -> Outcome<StreamableHttpPostResponse> {
        self.post(message, session_id, custom_headers).await
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Outcome<()> {
        let deadline = Instant::now() + CONTROL_TIME;
        let mut ask = Ask::new(Method::DELETE, ACCEPT_BOTH, Bytes::new(), deadline);
        ask.headers.extend(custom_headers);
        add_session(&mut ask.headers, Some(&session_id));
        // A server that keeps no sessions, or has forgotten this one, has nothing to end.
        self.0
            .door
            .ask(ask)
            .await
            .map(drop)
            .map_err(StreamableHttpError::Client)
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Outcome<SseEvents> {
        self.get(session_id, last_event_id, custom_headers).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        _uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        _max_sse_event_size: usize,
    ) -> Outcome<SseEvents> {
        self.get(session_id, last_event_id, custom_headers).await
    }
}

fn add_session(headers: &mut HeaderMap, session: Option<&str>) {
    if let Some(mut id) = session.and_then(|id| HeaderValue::from_str(id).ok()) {
        id.set_sensitive(true);
        headers.insert(SESSION, id);
    }
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(&request.id),
        JsonRpcMessage::Response(_)
        | JsonRpcMessage::Notification(_)
        | JsonRpcMessage::Error(_) => None,
    }
}

fn begins(message: &ClientJsonRpcMessage) -> bool {
    matches!(
        message,
        JsonRpcMessage::Request(request) if matches!(
            request.request,
            ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_)
        )
    )
}

/// Whether a server says, in whatever words, that it knows a session no more. Some do with status 400, or 200 and an error.
pub(super) fn says_session_lost(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    said.contains("session")
        && [
            "not found",
            "no valid session",
            "invalid session",
            "unknown session",
            "session expired",
            "session has expired",
            "session is expired",
            "no session",
            "does not exist",
            "session terminated",
        ]
        .iter()
        .any(|words| said.contains(words))
}
