//! One request to a server, which is cancelled there when nobody waits for it any more.

use std::time::Duration;

use rmcp::{
    RoleClient,
    model::{ClientRequest, ErrorData, ProgressToken, RequestId, ServerResult},
    service::{PeerRequestOptions, RequestHandle, ServiceError},
};

use super::client::Client;
use crate::{Failure, FailureCode, names::shown};

/// How long a server may take to be told of a cancellation.
const CANCEL_TIME: Duration = Duration::from_secs(2);

/// A request that was handed to the transport.
pub(super) struct Request<'c> {
    client: &'c Client,
    handle: Option<RequestHandle<RoleClient>>,
}

impl<'c> Request<'c> {
    /// Hands a request to the transport.
    pub(super) async fn send(
        client: &'c Client,
        request: ClientRequest,
    ) -> Result<Self, ServiceError> {
        let peer = client.connection().peer();
        let handle = peer
            .send_request_with_option(request, PeerRequestOptions::no_options())
            .await?;
        Ok(Self {
            client,
            handle: Some(handle),
        })
    }

    /// The request's id.
    pub(super) fn id(&self) -> Option<RequestId> {
        self.handle.as_ref().map(|handle| handle.id.clone())
    }

    /// What its progress is told under.
    pub(super) fn progress_token(&self) -> Option<ProgressToken> {
        self.handle
            .as_ref()
            .map(|handle| handle.progress_token.clone())
    }

    /// Waits for the answer. May be dropped and called again.
    pub(super) async fn answer(&mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.handle else {
            return Err(ServiceError::TransportClosed);
        };
        let answer = (&mut handle.rx)
            .await
            .unwrap_or(Err(ServiceError::TransportClosed));
        if answer.is_err() {
            self.client.connection().answers().forget(&handle.id);
        }
        // Answered requests are not cancelled.
        self.handle = None;
        answer
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.client.connection().answers().forget(&handle.id);
            let cancel = handle.cancel(Some("nobody waits for it any more".to_owned()));
            self.client.spawn(async move {
                // A server that does not take it has ended, or will answer to nobody.
                drop(tokio::time::timeout(CANCEL_TIME, cancel).await);
            });
        }
    }
}

/// What went wrong with a request.
#[derive(Debug)]
pub(super) enum Wrong {
    /// The server answered with an error of its own.
    Refused(ErrorData),
    /// It did not come to an answer.
    Failed(Failure),
}

/// Sorts an error of `rmcp`, with what the transport noted of it. Whatever is no answer breaks the client.
pub(super) fn sort(client: &Client, error: ServiceError) -> Wrong {
    match error {
        ServiceError::McpError(mut error) => {
            error.message = client.connection().quote(&error.message).into();
            return Wrong::Refused(error);
        }
        ServiceError::TransportSend(ref source) => {
            client.mark_broken();
            if let Some(failure) = noted(source) {
                return Wrong::Failed(failure);
            }
        }
        ServiceError::TransportClosed
        | ServiceError::UnexpectedResponse
        | ServiceError::SubscriptionLagged { .. }
        | ServiceError::Cancelled { .. }
        | ServiceError::Timeout { .. }
        | ServiceError::InputRequiredRoundsExceeded { .. }
        | _ => client.mark_broken(),
    }
    let last = client.connection().trouble().last();
    Wrong::Failed(last.unwrap_or_else(|| {
        Failure::new(
            FailureCode::ProtocolError,
            "The connection ended before the answer came.",
            "Try again; if it stays so, look into the server's own log.",
        )
        .after_sending()
    }))
}

/// The failure of ours at the bottom of an error, if there is one.
fn noted(error: &(dyn std::error::Error + 'static)) -> Option<Failure> {
    let mut source = Some(error);
    while let Some(error) = source {
        if let Some(failure) = error.downcast_ref::<Failure>() {
            return Some(failure.clone());
        }
        source = error.source();
    }
    None
}

/// A server's own error, as it may stand in a sentence.
pub(super) fn words(client: &Client, error: &ErrorData) -> String {
    let said = client.connection().quote(&error.message);
    if said.is_empty() {
        return format!("error {}", error.code.0);
    }
    format!("\"{said}\" ({})", error.code.0)
}

/// The server did not answer in time.
pub(super) fn silent(what: &str, after: Duration) -> Failure {
    Failure::new(
        FailureCode::TimedOut,
        format_args!(
            "The server did not answer {} within {} seconds.",
            shown(what),
            after.as_secs()
        ),
        "Try again, or raise the limit in the section mcp of the settings.",
    )
    .after_sending()
}
