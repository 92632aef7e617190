//! The one place that names tonic and generated types: parse in, call, render out.

mod conversations;
pub(crate) mod event;
mod render;
mod turns;

use std::sync::Arc;

use kernel::{
    ServiceName,
    limits::{PAGE_ROWS, RPC_MESSAGE_BYTES},
};
use proto::turn::v1::{
    conversation_service_server::ConversationServiceServer, turn_service_server::TurnServiceServer,
};
use runtime::{GrpcServer, status};
use tonic::Status;

use crate::{Error, service::Service, store::Page};

/// Everything of this service.
pub(crate) fn server(service: Arc<Service>) -> GrpcServer {
    let turns = TurnServiceServer::new(turns::Turns(Arc::clone(&service)))
        .max_decoding_message_size(RPC_MESSAGE_BYTES)
        .max_encoding_message_size(RPC_MESSAGE_BYTES);
    let conversations = ConversationServiceServer::new(conversations::Conversations(service))
        .max_decoding_message_size(RPC_MESSAGE_BYTES)
        .max_encoding_message_size(RPC_MESSAGE_BYTES);
    GrpcServer::new(ServiceName::TurnOrchestrator)
        .add(turns)
        .add(conversations)
        .describe(proto::FILE_DESCRIPTOR_SET)
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        status::from_error(&error, error.code(), error.field())
    }
}

/// An id in a request.
fn id<I>(field: &'static str, text: &str) -> Result<I, Error>
where
    I: std::str::FromStr<Err = kernel::InvalidId>,
{
    text.parse()
        .map_err(|error: kernel::InvalidId| Error::Invalid {
            field,
            sentence: error.to_string(),
        })
}

/// Which page of a list is asked for.
fn page(size: u32, token: &str) -> Result<(u32, Option<Page>), Error> {
    if size > PAGE_ROWS {
        return Err(Error::Invalid {
            field: "page_size",
            sentence: format!("page_size is {size}; at most {PAGE_ROWS} rows fit a page"),
        });
    }
    let from = if token.is_empty() {
        None
    } else {
        Some(
            Page::parse(token).ok_or_else(|| Error::Invalid {
                field: "page_token",
                sentence: "page_token is none that this list gave; leave it out for the first page"
                    .to_owned(),
            })?,
        )
    };
    Ok((if size == 0 { PAGE_ROWS } else { size }, from))
}

/// What a client needs to go on with a list.
fn next_token(next: Option<Page>) -> String {
    next.map(Page::token).unwrap_or_default()
}
