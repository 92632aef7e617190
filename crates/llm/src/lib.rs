//! Providers: one module per wire format.
//!
//! A [`Provider`] turns a [`StepRequest`] into a stream of [`StepEvent`]s. What differs between the endpoints that speak a
//! wire format (and between what they say and what they mean) ends here: who reads the stream sees calls with dense indices,
//! arguments that are a JSON object or are said not to be, and one last item that is either [`StepEvent::Done`] or an error.
//!
//! **Architecture invariant:** nothing here knows of turns, Grants or gRPC, and no call is ever judged complete when its step
//! was cut short.

mod anthropic;
mod assembler;
mod chat_completions;
mod config;
mod endpoint;
mod error;
mod event;
mod http_error;
mod http_provider;
mod loose;
mod model_name;
mod outbox;
mod provider;
mod providers;
mod request;
mod retry;
mod sse;
mod step;
mod wire_id;

pub use config::{CallIds, InvalidProviderConfig, ProviderConfig, Wire};
pub use endpoint::ClientError;
pub use error::{ErrorKind, ProviderError};
pub use event::{CallArguments, Finish, StepEvent, Usage};
pub use model_name::{InvalidModelName, ModelName};
pub use provider::{Provider, StepStream};
pub use providers::{Providers, ProvidersError, UnknownProvider};
pub use request::{AssistantBlock, Message, StepRequest, ToolResult, ToolSpec, ToolUse};
pub use retry::RetryPolicy;
