//! Turns for web clients: start one, follow it, come back to it.
//!
//! A stream is a reader of the turn's events and nothing else: when its client goes away the reader is dropped and the turn goes on.

mod follow;
mod request;
mod streams;

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderName, HeaderValue, StatusCode, header};
use proto::turn::v1::{
    GetConversationRequest, RegenerateMessage, Role, SnapshotFirst, StartTurnRequest,
    SubmitMessage, WatchTurnRequest, start_turn_request, watch_turn_request,
};

use crate::{
    auth::Authenticated,
    body::{Named, Tolerant},
    problem::{Failure, Problem},
    routes::App,
};

use follow::Follower;
pub(crate) use request::ChatBody;
use request::{ChatRequest, Question};
pub(crate) use streams::StreamCount;

/// Says that a stream is the UI message stream, version 1 (`ui-message-stream-headers.ts` of `ai`).
const UI_MESSAGE_STREAM: HeaderName = HeaderName::from_static("x-vercel-ai-ui-message-stream");

/// Asks an NPC. Takes what `DefaultChatTransport` of the npm package `ai` sends, and `npc`; answers with a UI message stream.
///
/// Only the last user Message is read: history is the Village's. Its id names the request, so that a retry starts nothing. With
/// `messageId` it replaces the stored Message of that id, and starts a branch. `regenerate-message` answers again.
#[utoipa::path(post, operation_id = "chat", path = "/v1/chat", tag = "Chat", request_body = ChatBody, responses(
    (status = 200, description = "UI message stream, version 1", body = String, content_type = "text/event-stream"),
    Failure,
))]
pub(crate) async fn start(
    State(app): State<App>,
    who: Authenticated,
    Tolerant(body): Tolerant,
) -> Result<Response, Problem> {
    let place = app.streams.take(&who)?;
    let ChatRequest {
        conversation,
        npc,
        question,
    } = request::read(&body)?;
    let (request_id, trigger) = match question {
        Question::Submit { id, text } => {
            let submit = SubmitMessage {
                client_id: id.clone(),
                text,
                edits: false,
            };
            (id, start_turn_request::Trigger::Submit(submit))
        }
        Question::Edit { id, text } => {
            let request_id = request::edit_id(&id, &text);
            let submit = SubmitMessage {
                client_id: id,
                text,
                edits: true,
            };
            (request_id, start_turn_request::Trigger::Submit(submit))
        }
        Question::Regenerate { id, answer } => {
            let message_id = match answer {
                Some(answer) => answer,
                None => last_answer(&app, &who, &conversation).await?,
            };
            let request_id = request::regenerate_id(&id, &message_id);
            let regenerate = RegenerateMessage { message_id };
            (
                request_id,
                start_turn_request::Trigger::Regenerate(regenerate),
            )
        }
    };
    let started = app
        .turns
        .turns(&who.caller)
        .start_turn(StartTurnRequest {
            conversation_client_id: conversation,
            npc,
            request_id,
            trigger: Some(trigger),
        })
        .await?
        .into_inner();
    let follower = Follower::begin(&app, who.caller, started.turn_id, place).await?;
    Ok(stream(follower))
}

/// Comes back to the running turn of a Conversation: what was said so far, and then the rest. Nothing when none runs.
#[utoipa::path(get, operation_id = "resumeChat", path = "/v1/chat/{id}/stream", tag = "Chat",
    params(("id" = String, Path, description = "The Conversation's id as the client chose it, or its id")), responses(
    (status = 200, description = "UI message stream, version 1", body = String, content_type = "text/event-stream"),
    (status = 204, description = "No turn runs"),
    Failure,
))]
pub(crate) async fn resume(
    State(app): State<App>,
    who: Authenticated,
    Named(conversation): Named,
) -> Result<Response, Problem> {
    let place = app.streams.take(&who)?;
    let request = WatchTurnRequest {
        target: Some(watch_turn_request::Target::Conversation(conversation)),
        from: Some(watch_turn_request::From::Snapshot(SnapshotFirst {})),
    };
    match Follower::resume(&app, who.caller, request, place).await {
        Ok(Some(follower)) => Ok(stream(follower)),
        Ok(None) => Ok(StatusCode::NO_CONTENT.into_response()),
        // The same answer for a Conversation that is idle, unknown, or another Player's.
        Err(problem) if problem.status == StatusCode::NOT_FOUND => {
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        Err(problem) => Err(problem),
    }
}

/// The answer that a client means by "the last one". It has a part in the request's id: the same click twice is one turn, and a
/// click on the new answer is another.
async fn last_answer(
    app: &App,
    who: &Authenticated,
    conversation: &str,
) -> Result<String, Problem> {
    let answer = app
        .turns
        .conversations(&who.caller)
        .get_conversation(GetConversationRequest {
            conversation: conversation.to_owned(),
        })
        .await?
        .into_inner();
    answer
        .messages
        .into_iter()
        .rev()
        .find(|message| message.role() == Role::Assistant)
        .map(|message| message.id)
        .ok_or_else(|| {
            Problem::new(
                kernel::ErrorCode::FailedPrecondition,
                "there is no answer yet to give again; send a Message first",
            )
        })
}

fn stream(follower: Follower) -> Response {
    let mut response = Body::from_stream(follower.into_stream()).into_response();
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONNECTION, "keep-alive"),
        (UI_MESSAGE_STREAM, "v1"),
        // nginx would hold the stream back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
