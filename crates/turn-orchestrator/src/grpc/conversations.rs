//! `ConversationService`.

use std::sync::Arc;

use proto::turn::v1::{
    DeleteConversationRequest, DeleteConversationResponse, DeleteMessageRequest,
    DeleteMessageResponse, GetConversationRequest, GetConversationResponse, GetMediaRequest,
    GetMediaResponse, GetMessageRequest, GetMessageResponse, ListConversationsRequest,
    ListConversationsResponse, ListMessagesRequest, ListMessagesResponse,
    conversation_service_server::ConversationService,
};
use tonic::{Request, Response, Status};

use super::{id, next_token, page, render};
use crate::service::Service;

pub(super) struct Conversations(pub(super) Arc<Service>);

#[tonic::async_trait]
impl ConversationService for Conversations {
    async fn get_conversation(
        &self,
        request: Request<GetConversationRequest>,
    ) -> Result<Response<GetConversationResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let (conversation, messages) = self
            .0
            .read_conversation(&caller, &request.into_inner().conversation)
            .await?;
        Ok(Response::new(GetConversationResponse {
            conversation: Some(render::conversation(conversation)),
            messages: messages.into_iter().map(render::message).collect(),
        }))
    }

    async fn list_conversations(
        &self,
        request: Request<ListConversationsRequest>,
    ) -> Result<Response<ListConversationsResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let (rows, from) = page(request.page_size, &request.page_token)?;
        let (conversations, next) = self.0.list_conversations(&caller, rows, from).await?;
        Ok(Response::new(ListConversationsResponse {
            conversations: conversations
                .into_iter()
                .map(render::conversation)
                .collect(),
            next_page_token: next_token(next),
        }))
    }

    async fn delete_conversation(
        &self,
        request: Request<DeleteConversationRequest>,
    ) -> Result<Response<DeleteConversationResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let deleted = self
            .0
            .delete_conversation(&caller, &request.into_inner().conversation)
            .await?;
        Ok(Response::new(DeleteConversationResponse {
            conversation_id: deleted.id.to_string(),
        }))
    }

    async fn get_message(
        &self,
        request: Request<GetMessageRequest>,
    ) -> Result<Response<GetMessageResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let message = id("message_id", &request.into_inner().message_id)?;
        let message = self.0.read_message(&caller, message).await?;
        Ok(Response::new(GetMessageResponse {
            message: Some(render::message(message)),
        }))
    }

    async fn list_messages(
        &self,
        request: Request<ListMessagesRequest>,
    ) -> Result<Response<ListMessagesResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let (rows, from) = page(request.page_size, &request.page_token)?;
        let (messages, next) = self
            .0
            .list_messages(&caller, &request.conversation, rows, from)
            .await?;
        Ok(Response::new(ListMessagesResponse {
            messages: messages.into_iter().map(render::message).collect(),
            next_page_token: next_token(next),
        }))
    }

    async fn delete_message(
        &self,
        request: Request<DeleteMessageRequest>,
    ) -> Result<Response<DeleteMessageResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let message = id("message_id", &request.into_inner().message_id)?;
        let deleted = self.0.delete_message(&caller, message).await?;
        Ok(Response::new(DeleteMessageResponse {
            deleted: u32::try_from(deleted).unwrap_or(u32::MAX),
        }))
    }

    async fn get_media(
        &self,
        request: Request<GetMediaRequest>,
    ) -> Result<Response<GetMediaResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let media = id("media_id", &request.into_inner().media_id)?;
        let (media, data) = self.0.read_media(&caller, media).await?;
        Ok(Response::new(GetMediaResponse {
            media: render::media(&[media]).pop(),
            data: data.into(),
        }))
    }
}
