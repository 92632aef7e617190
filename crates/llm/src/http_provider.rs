//! A Provider behind HTTP, on either wire.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    ErrorKind, Provider, ProviderError, RetryPolicy, StepRequest, StepStream, anthropic,
    chat_completions::{self, AskForUsage, OutputLimit},
    config::{CallIds, InvalidProviderConfig, Judged, ProviderConfig, Wire},
    endpoint::{Endpoint, Opened, Refused, cancelled},
    outbox::Fault,
    step::{self, Decode},
    wire_id::key_header,
};

/// One configured Provider.
#[derive(Debug)]
pub(crate) struct HttpProvider {
    name: Arc<str>,
    endpoint: Arc<Endpoint>,
    wire: Wire,
    call_ids: CallIds,
    limit: OutputLimit,
    needs_key: bool,
    max_output_tokens: Option<u32>,
    thinking_tokens: Option<u32>,
    retries: RetryPolicy,
    /// Set once the endpoint refused to be asked for usage.
    never_ask_for_usage: AtomicBool,
}

/// What a request leaves out because the endpoint refused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Concessions {
    usage: AskForUsage,
    thinking: anthropic::SendThinking,
}

impl HttpProvider {
    pub(crate) fn new(
        name: &str,
        config: &ProviderConfig,
        judged: &Judged,
        client: reqwest::Client,
    ) -> Result<Self, InvalidProviderConfig> {
        let wrong = |problem: String| InvalidProviderConfig {
            provider: name.to_owned(),
            problem,
        };
        let (path, key_name, prefix) = match judged.wire {
            Wire::ChatCompletions => ("chat/completions", header::AUTHORIZATION, "Bearer "),
            Wire::Anthropic => ("v1/messages", HeaderName::from_static("x-api-key"), ""),
        };
        let mut base = judged.base_url.as_str().trim_end_matches('/');
        if judged.wire == Wire::Anthropic {
            // The other wire's habit, which would give /v1/v1.
            base = base.strip_suffix("/v1").unwrap_or(base);
        }
        let url = format!("{base}/{path}").parse().map_err(|error| {
            wrong(format!(
                "base_url cannot be continued with /{path}: {error}"
            ))
        })?;
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("text/event-stream"),
        );
        if judged.wire == Wire::Anthropic {
            headers.insert(
                "anthropic-version",
                HeaderValue::from_static(anthropic::VERSION),
            );
        }
        if !config.key.is_empty() {
            let value = key_header(prefix, &config.key).map_err(|_unsendable| {
                wrong(
                    "key has characters that no key has (a line end, perhaps); copy it again"
                        .to_owned(),
                )
            })?;
            headers.insert(key_name, value);
        }
        Ok(Self {
            name: Arc::from(name),
            endpoint: Arc::new(Endpoint {
                client,
                url,
                headers,
                key: config.key.clone(),
                timeouts: judged.timeouts,
            }),
            wire: judged.wire,
            call_ids: judged.call_ids,
            limit: if judged.openai_host {
                OutputLimit::MaxCompletionTokens
            } else {
                OutputLimit::MaxTokens
            },
            needs_key: judged.needs_key,
            max_output_tokens: config.max_output_tokens,
            thinking_tokens: config.thinking_tokens,
            retries: RetryPolicy {
                max_retries: config.retries,
                ..RetryPolicy::default()
            },
            never_ask_for_usage: AtomicBool::new(false),
        })
    }

    fn body(&self, request: &StepRequest, concessions: Concessions) -> Result<Bytes, Fault> {
        let written = match self.wire {
            Wire::ChatCompletions => chat_completions::body(
                request,
                chat_completions::Dialect {
                    provider: &self.name,
                    call_ids: self.call_ids,
                    limit: self.limit,
                    usage: concessions.usage,
                    default_max_output_tokens: self.max_output_tokens,
                },
            ),
            Wire::Anthropic => anthropic::body(
                request,
                anthropic::Dialect {
                    provider: &self.name,
                    call_ids: self.call_ids,
                    default_max_output_tokens: self.max_output_tokens,
                    thinking_tokens: self.thinking_tokens,
                    thinking: concessions.thinking,
                },
            ),
        };
        written.map(Bytes::from).map_err(|error| {
            Fault::new(
                ErrorKind::BadRequest,
                format!("cannot be asked: the request cannot be written ({error})"),
            )
        })
    }

    fn decoder(&self) -> Box<dyn Decode> {
        let (name, key) = (Arc::clone(&self.name), self.endpoint.key.clone());
        match self.wire {
            Wire::ChatCompletions => Box::new(chat_completions::Decoder::new(name, key)),
            Wire::Anthropic => Box::new(anthropic::Decoder::new(name, key)),
        }
    }

    /// What to leave out of the next request, if that is what the endpoint refused. Each only once.
    fn concede(&self, refused: &Refused, before: Concessions) -> Option<Concessions> {
        if !matches!(refused.fault.status, Some(400 | 422)) {
            return None;
        }
        let message = refused.words.message.to_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| message.contains(word));
        let mut after = before;
        match self.wire {
            Wire::ChatCompletions if names(&["stream_options", "include_usage"]) => {
                after.usage = AskForUsage::No;
                self.never_ask_for_usage.store(true, Ordering::Relaxed);
            }
            Wire::Anthropic if names(&["thinking", "signature"]) => {
                after.thinking = anthropic::SendThinking::No;
            }
            Wire::ChatCompletions | Wire::Anthropic => {}
        }
        (after != before).then_some(after)
    }

    async fn open(
        &self,
        request: &StepRequest,
        cancel: &CancellationToken,
    ) -> Result<Opened, Fault> {
        let mut concessions = Concessions {
            usage: if self.never_ask_for_usage.load(Ordering::Relaxed) {
                AskForUsage::No
            } else {
                AskForUsage::Yes
            },
            thinking: anthropic::SendThinking::Yes,
        };
        let mut body = self.body(request, concessions)?;
        let mut retries = 0;
        loop {
            let refused = match self
                .endpoint
                .open(body.clone(), &request.model, cancel)
                .await
            {
                Ok(opened) => return Ok(opened),
                Err(refused) => refused,
            };
            if let Some(conceded) = self.concede(&refused, concessions) {
                concessions = conceded;
                body = self.body(request, concessions)?;
                continue;
            }
            // A minute of silence is not made better by two more.
            if refused.fault.kind == ErrorKind::Timeout {
                return Err(refused.fault);
            }
            let error = refused.fault.clone().of(&self.name);
            let Some(wait) = self.retries.wait(&error, retries, roll()) else {
                return Err(refused.fault);
            };
            retries += 1;
            tracing::info!(
                provider = &*self.name,
                error = error.kind.as_str(),
                wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                retries,
                "a Provider refused a request; it is sent again"
            );
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(cancelled()),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

#[async_trait]
impl Provider for HttpProvider {
    fn name(&self) -> &str {
        &self.name
    }

    async fn stream(
        &self,
        request: &StepRequest,
        cancel: &CancellationToken,
    ) -> Result<StepStream, ProviderError> {
        if self.needs_key && self.endpoint.key.is_empty() {
            let variable = match &*self.name {
                "openai" => "OPENAI_API_KEY, or ",
                "anthropic" => "ANTHROPIC_API_KEY, or ",
                _ => "",
            };
            let fault = Fault::new(
                ErrorKind::Auth,
                format!(
                    "has no key; set {variable}key under [providers.{}] in the settings",
                    self.name
                ),
            );
            return Err(fault.of(&self.name));
        }
        let opened = self
            .open(request, cancel)
            .await
            .map_err(|fault| fault.of(&self.name))?;
        Ok(step::read(
            opened,
            self.decoder(),
            Arc::clone(&self.endpoint),
            Arc::clone(&self.name),
            cancel.clone(),
        ))
    }
}

/// A random number between 0 and 1.
fn roll() -> f64 {
    let (high, _) = Uuid::new_v4().as_u64_pair();
    f64::from(u32::try_from(high >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}
