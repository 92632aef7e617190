//! Conversations, as a client starts from them.

use axum::{Json, extract::State};
use proto::turn::v1::{
    self as turn, DeleteConversationRequest, GetConversationRequest, ListConversationsRequest,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Gone, Page, PageParams, required, time};
use crate::{
    auth::Authenticated,
    body::{Named, Query},
    problem::{Failure, Problem},
    routes::App,
    ui::{UiMessage, ui_messages},
};

/// A Conversation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Conversation {
    /// Its id.
    id: String,
    /// Its id as the client chose it.
    client_id: String,
    /// The NPC.
    npc_id: String,
    /// `running` while a turn runs, else `idle`.
    status: &'static str,
    /// When it started (RFC 3339, UTC).
    created_at: String,
    /// When it was last added to (RFC 3339, UTC).
    updated_at: String,
}

impl From<turn::Conversation> for Conversation {
    fn from(conversation: turn::Conversation) -> Self {
        Self {
            status: status(&conversation),
            id: conversation.id,
            client_id: conversation.client_id,
            npc_id: conversation.npc_id,
            created_at: time(conversation.created_at_micros),
            updated_at: time(conversation.updated_at_micros),
        }
    }
}

fn status(conversation: &turn::Conversation) -> &'static str {
    if conversation.active_turn_id.is_empty() {
        "idle"
    } else {
        "running"
    }
}

/// A Conversation with its Messages.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Transcript {
    /// The Conversation.
    #[serde(flatten)]
    conversation: Conversation,
    /// The Messages of the current branch, oldest first: what `useChat` takes as `messages`.
    messages: Vec<UiMessage>,
}

/// Lists the caller's Conversations, newest first.
#[utoipa::path(get, operation_id = "listConversations", path = "/v1/conversations", tag = "Conversations", params(PageParams), responses(
    (status = 200, body = Page<Conversation>),
    Failure,
))]
pub(crate) async fn list(
    State(app): State<App>,
    who: Authenticated,
    query: Query,
) -> Result<Json<Page<Conversation>>, Problem> {
    let page = query.page()?;
    let request = ListConversationsRequest {
        page_size: page.size,
        page_token: page.token,
    };
    let mut conversations = app.turns.conversations(&who.caller);
    let answer = conversations
        .list_conversations(request)
        .await?
        .into_inner();
    Ok(Json(Page::of(
        answer.conversations,
        answer.next_page_token,
        Conversation::from,
    )))
}

/// Reads a Conversation with the Messages of its current branch.
#[utoipa::path(get, operation_id = "getConversation", path = "/v1/conversations/{conversation}", tag = "Conversations",
    params(("conversation" = String, Path, description = "Its id, or the id that the client chose")), responses(
    (status = 200, body = Transcript),
    Failure,
))]
pub(crate) async fn show(
    State(app): State<App>,
    who: Authenticated,
    Named(conversation): Named,
) -> Result<Json<Transcript>, Problem> {
    let mut conversations = app.turns.conversations(&who.caller);
    let answer = conversations
        .get_conversation(GetConversationRequest { conversation })
        .await?
        .into_inner();
    let conversation = required(answer.conversation, "conversation")?;
    Ok(Json(Transcript {
        messages: ui_messages(&conversation.id, answer.messages),
        conversation: conversation.into(),
    }))
}

/// Deletes a Conversation, its Messages and its turns. A running turn is stopped first.
#[utoipa::path(delete, operation_id = "deleteConversation", path = "/v1/conversations/{conversation}", tag = "Conversations",
    params(("conversation" = String, Path, description = "Its id, or the id that the client chose")), responses(
    (status = 200, body = Gone),
    Failure,
))]
pub(crate) async fn remove(
    State(app): State<App>,
    who: Authenticated,
    Named(conversation): Named,
) -> Result<Json<Gone>, Problem> {
    let mut conversations = app.turns.conversations(&who.caller);
    let answer = conversations
        .delete_conversation(DeleteConversationRequest { conversation })
        .await?
        .into_inner();
    Ok(Json(Gone {
        id: answer.conversation_id,
    }))
}
