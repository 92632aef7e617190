//! The seam between a turn and the wire formats.

use std::fmt;

use async_trait::async_trait;
use futures::stream::BoxStream;
use tokio_util::sync::CancellationToken;

use crate::{ProviderError, StepEvent, StepRequest};

/// The events of one step. The last item is [`StepEvent::Done`] or an error; nothing follows either.
pub type StepStream = BoxStream<'static, Result<StepEvent, ProviderError>>;

/// An LLM API.
#[async_trait]
pub trait Provider: fmt::Debug + Send + Sync + 'static {
    /// Its name in the settings.
    fn name(&self) -> &str;

    /// Opens a step. What fails before the first event is retried here where that makes sense, and nowhere else; an error
    /// in the stream is the caller's to handle, who knows what has been shown and run. Both end with
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) when `cancel` is cancelled; dropping the stream closes the
    /// connection too.
    async fn stream(
        &self,
        request: &StepRequest,
        cancel: &CancellationToken,
    ) -> Result<StepStream, ProviderError>;
}
