//! Settings of one Provider.

use std::time::Duration;

use kernel::Secret;
use serde::Deserialize;
use url::Url;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// OpenAI Chat Completions, and what calls itself compatible.
    ChatCompletions,
    /// Anthropic Messages.
    Anthropic,
}

/// What ids of Tool calls an endpoint takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallIds {
    /// Letters, digits, `_` and `-`, at most 40.
    Plain,
    /// Nine letters or digits (Mistral).
    NineAlphanumeric,
}

/// A section `[providers.NAME]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// The wire format. `openai` and `anthropic` have theirs; any other name must say.
    pub wire: Option<Wire>,
    /// Where the API is. Chat Completions: up to and with `/v1`; Anthropic: without it. `openai` and `anthropic` default to the
    /// vendors' own.
    pub base_url: Option<String>,
    /// The key; empty for endpoints that want none (Ollama, vLLM, llama.cpp).
    pub key: Secret,
    /// Tokens that a model may write in one step. Anthropic requires a number: 8192 unless set.
    pub max_output_tokens: Option<u32>,
    /// Anthropic: tokens for extended thinking (at least 1024); off unless set.
    pub thinking_tokens: Option<u32>,
    /// What ids of Tool calls the endpoint takes; by its host unless set.
    pub call_ids: Option<CallIds>,
    /// How long a connection may take to open.
    pub connect_timeout_ms: u64,
    /// How long the first byte of an answer may take, from the request on. Models that think long send keep-alives.
    pub first_byte_timeout_ms: u64,
    /// How long a stream may be silent. Keep-alives count.
    pub idle_timeout_ms: u64,
    /// How often a request that failed before any event is sent again.
    pub retries: u32,
}

impl Default for ProviderConfig {
    fn default() -> Self {
        Self {
            wire: None,
            base_url: None,
            key: Secret::default(),
            max_output_tokens: None,
            thinking_tokens: None,
            call_ids: None,
            connect_timeout_ms: 10_000,
            first_byte_timeout_ms: 60_000,
            idle_timeout_ms: 120_000,
            retries: 2,
        }
    }
}

/// Settings that no Provider can be made of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("providers.{provider}: {problem}")]
pub struct InvalidProviderConfig {
    /// The Provider's name.
    pub provider: String,
    /// What is wrong, and what to write instead. Holds no key.
    pub problem: String,
}

/// Limits on time of one Provider.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
}

/// Settings that were judged.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    pub(crate) wire: Wire,
    pub(crate) base_url: Url,
    pub(crate) call_ids: CallIds,
    /// Whether it is one of OpenAI's own hosts, which take `max_completion_tokens` only.
    pub(crate) openai_host: bool,
    /// Whether the vendor's own API is addressed, which needs a key.
    pub(crate) needs_key: bool,
    pub(crate) timeouts: Timeouts,
}

const OPENAI: &str = "https://api.openai.com/v1";
const ANTHROPIC: &str = "https://api.anthropic.com";

impl ProviderConfig {
    /// Judges the settings of the Provider `name`.
    pub(crate) fn judge(&self, name: &str) -> Result<Judged, InvalidProviderConfig> {
        let wrong = |problem: &str| InvalidProviderConfig {
            provider: name.to_owned(),
            problem: problem.to_owned(),
        };
        let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 40 || !name.chars().all(named) {
            return Err(wrong(
                "a Provider's name is 1 to 40 of lower-case letters, digits and -",
            ));
        }
        let (wire, default_url) = match (name, self.wire) {
            ("openai", None | Some(Wire::ChatCompletions)) => (Wire::ChatCompletions, Some(OPENAI)),
            ("anthropic", None | Some(Wire::Anthropic)) => (Wire::Anthropic, Some(ANTHROPIC)),
            ("openai" | "anthropic", Some(_)) => {
                return Err(wrong(
                    "this name keeps its own wire format; use another name for the other",
                ));
            }
            (_, Some(wire)) => (wire, None),
            (_, None) => {
                return Err(wrong(
                    "wire is missing; write wire = \"chat-completions\" or wire = \"anthropic\"",
                ));
            }
        };
        let given = self.base_url.as_deref().filter(|url| !url.is_empty());
        let Some(text) = given.or(default_url) else {
            return Err(wrong(
                "base_url is missing; write where the API is, for example base_url = \"http://127.0.0.1:11434/v1\"",
            ));
        };
        let base_url = Url::parse(text.trim_end_matches('/')).map_err(|error| {
            wrong(&format!(
                "base_url is no URL ({error}); write one like https://api.example.com/v1"
            ))
        })?;
        if !matches!(base_url.scheme(), "http" | "https") || base_url.host_str().is_none() {
            return Err(wrong("base_url is neither http nor https"));
        }
        if !base_url.username().is_empty() || base_url.password().is_some() {
            return Err(wrong("base_url holds a password; put the key into key"));
        }
        if base_url.query().is_some() || base_url.fragment().is_some() {
            return Err(wrong("base_url has a query; write it without"));
        }
        if self.thinking_tokens.is_some_and(|tokens| tokens < 1_024) {
            return Err(wrong(
                "thinking_tokens is less than 1024, the least that Anthropic takes",
            ));
        }
        if self.max_output_tokens == Some(0) {
            return Err(wrong("max_output_tokens is 0; leave it out for no limit"));
        }
        if self.retries > 5 {
            return Err(wrong("retries is more than 5"));
        }
        let millis = |field: &str, millis: u64| match millis {
            1..=3_600_000 => Ok(Duration::from_millis(millis)),
            _ => Err(wrong(&format!(
                "{field} is {millis}; write 1 to 3600000 milliseconds"
            ))),
        };
        let host = base_url.host_str().unwrap_or_default();
        let under = |domain: &str| {
            host.strip_suffix(domain)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        Ok(Judged {
            wire,
            call_ids: self.call_ids.unwrap_or(if under("mistral.ai") {
                CallIds::NineAlphanumeric
            } else {
                CallIds::Plain
            }),
            openai_host: under("openai.com") || under("openai.azure.com"),
            needs_key: under("openai.com") || under("anthropic.com"),
            timeouts: Timeouts {
                connect: millis("connect_timeout_ms", self.connect_timeout_ms)?,
                first_byte: millis("first_byte_timeout_ms", self.first_byte_timeout_ms)?,
                idle: millis("idle_timeout_ms", self.idle_timeout_ms)?,
            },
            base_url,
        })
    }
}
