//! Reads the events of a streamed message.

use std::{borrow::Cow, sync::Arc};

use kernel::{JsonText, Secret};
use serde::{Deserialize, Serialize};

use super::ThinkingMeta;
use crate::{
    Finish, Usage,
    assembler::{Assembler, CALLS, Ending, Fragment, SecondObject},
    http_error::{Words, stream_error},
    loose::Loose,
    outbox::{Fault, Outbox},
    step::{Decode, Flow},
};

#[derive(Deserialize)]
struct Event<'j> {
    #[serde(borrow, rename = "type")]
    kind: Option<Loose<'j>>,
    #[serde(borrow)]
    index: Option<Loose<'j>>,
    #[serde(borrow)]
    message: Option<StartedMessage<'j>>,
    #[serde(borrow)]
    content_block: Option<Block<'j>>,
    #[serde(borrow)]
    delta: Option<Delta<'j>>,
    #[serde(borrow)]
    usage: Option<Loose<'j>>,
    #[serde(borrow)]
    error: Option<Loose<'j>>,
}

#[derive(Deserialize)]
struct StartedMessage<'j> {
    #[serde(borrow)]
    model: Option<Loose<'j>>,
    #[serde(borrow)]
    usage: Option<Loose<'j>>,
}

#[derive(Deserialize)]
struct Block<'j> {
    #[serde(borrow, rename = "type")]
    kind: Option<Loose<'j>>,
    #[serde(borrow)]
    text: Option<Loose<'j>>,
    #[serde(borrow)]
    thinking: Option<Loose<'j>>,
    #[serde(borrow)]
    signature: Option<Loose<'j>>,
    #[serde(borrow)]
    data: Option<Loose<'j>>,
    #[serde(borrow)]
    id: Option<Loose<'j>>,
    #[serde(borrow)]
    name: Option<Loose<'j>>,
    #[serde(borrow)]
    input: Option<Loose<'j>>,
}

#[derive(Deserialize)]
struct Delta<'j> {
    #[serde(borrow)]
    text: Option<Loose<'j>>,
    #[serde(borrow)]
    partial_json: Option<Loose<'j>>,
    #[serde(borrow)]
    thinking: Option<Loose<'j>>,
    #[serde(borrow)]
    signature: Option<Loose<'j>>,
    #[serde(borrow)]
    stop_reason: Option<Loose<'j>>,
}

#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the wire's names")]
struct WireUsage<'j> {
    #[serde(borrow)]
    input_tokens: Option<Loose<'j>>,
    #[serde(borrow)]
    output_tokens: Option<Loose<'j>>,
    #[serde(borrow)]
    cache_read_input_tokens: Option<Loose<'j>>,
    #[serde(borrow)]
    cache_creation_input_tokens: Option<Loose<'j>>,
}

/// A thinking block as it goes back.
#[derive(Serialize)]
struct SignedThinking<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    thinking: &'a str,
    signature: &'a str,
}

#[derive(Serialize)]
struct RedactedThinking<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    data: &'a str,
}

/// A block that was started and not stopped.
#[derive(Debug)]
struct Open {
    index: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Text,
    Call {
        /// Arguments that came with the start, in case no more do.
        input: Option<String>,
        streamed: bool,
    },
    Thinking {
        thinking: String,
        signature: String,
    },
    Redacted {
        data: String,
    },
    /// Something that the server did for itself: search, code.
    Foreign,
}

/// The text of a field; empty if it is missing or no text.
fn text(value: Option<Loose<'_>>) -> Cow<'_, str> {
    value.and_then(Loose::text).unwrap_or_default()
}

/// What came of one step so far.
#[derive(Debug)]
pub(crate) struct Decoder {
    provider: Arc<str>,
    key: Secret,
    calls: Assembler,
    open: Vec<Open>,
    stop_reason: Option<String>,
    /// `input` is without cached tokens here, as the wire counts.
    usage: Usage,
    cache_created: Option<u64>,
    model: Option<String>,
}

impl Decoder {
    pub(crate) fn new(provider: Arc<str>, key: Secret) -> Self {
        Self {
            provider,
            key,
            calls: Assembler::new(SecondObject::Mistake),
            open: Vec::new(),
            stop_reason: None,
            usage: Usage::default(),
            cache_created: None,
            model: None,
        }
    }

    fn start(&mut self, index: u64, block: &Block<'_>, out: &mut Outbox) -> Result<(), Fault> {
        if self.open.len() >= CALLS {
            return Err(Fault::malformed("left too many content blocks open"));
        }
        let kind = match block.kind.and_then(Loose::text).as_deref() {
            Some("text") => {
                out.text(&text(block.text))?;
                Kind::Text
            }
            Some("tool_use") => {
                let id = block.id.and_then(Loose::word);
                let name = block.name.and_then(Loose::word);
                let fragment = Fragment {
                    index: Some(index),
                    id: id.as_deref(),
                    name: name.as_deref(),
                    arguments: "",
                };
                self.calls.take(fragment, out)?;
                let input = block.input.filter(|input| !input.says_nothing());
                out.keep(input.map_or(0, |input| input.0.get().len()))?;
                Kind::Call {
                    input: input.map(|input| input.0.get().to_owned()),
                    streamed: false,
                }
            }
            Some("thinking") => {
                let thinking = text(block.thinking).into_owned();
                out.reasoning(&thinking)?;
                Kind::Thinking {
                    thinking,
                    signature: text(block.signature).into_owned(),
                }
            }
            Some("redacted_thinking") => {
                let data = text(block.data).into_owned();
                out.keep(data.len())?;
                Kind::Redacted { data }
            }
            Some(_) | None => Kind::Foreign,
        };
        self.open.push(Open { index, kind });
        Ok(())
    }

    fn delta(&mut self, index: u64, delta: &Delta<'_>, out: &mut Outbox) -> Result<(), Fault> {
        let Some(open) = self.open.iter_mut().rfind(|open| open.index == index) else {
            // A gateway that leaves out the starts of text blocks loses nothing by it.
            return out.text(&text(delta.text));
        };
        match &mut open.kind {
            Kind::Text => out.text(&text(delta.text)),
            Kind::Call { streamed, .. } => {
                let arguments = text(delta.partial_json);
                *streamed |= !arguments.is_empty();
                let fragment = Fragment {
                    index: Some(index),
                    arguments: &arguments,
                    ..Fragment::default()
                };
                self.calls.take(fragment, out).map(drop)
            }
            Kind::Thinking {
                thinking,
                signature,
            } => {
                let more = text(delta.thinking);
                thinking.push_str(&more);
                let signed = text(delta.signature);
                out.keep(signed.len())?;
                signature.push_str(&signed);
                out.reasoning(&more)
            }
            Kind::Redacted { .. } | Kind::Foreign => Ok(()),
        }
    }

    fn stop(&mut self, index: u64, out: &mut Outbox) -> Result<(), Fault> {
        let Some(place) = self.open.iter().rposition(|open| open.index == index) else {
            return Ok(());
        };
        match self.open.remove(place).kind {
            Kind::Call {
                input: Some(input),
                streamed: false,
            } => {
                let fragment = Fragment {
                    index: Some(index),
                    arguments: &input,
                    ..Fragment::default()
                };
                self.calls.take(fragment, out)?;
            }
            Kind::Thinking {
                thinking,
                signature,
            } => {
                // Without a signature it was cut short, and is refused when sent back.
                let block = (!signature.is_empty()).then(|| {
                    JsonText::of(&SignedThinking {
                        kind: "thinking",
                        thinking: &thinking,
                        signature: &signature,
                    })
                });
                out.reasoning_done(block.map(|block| self.meta(block)));
            }
            Kind::Redacted { data } => {
                let block = JsonText::of(&RedactedThinking {
                    kind: "redacted_thinking",
                    data: &data,
                });
                out.reasoning_done(Some(self.meta(block)));
            }
            Kind::Text | Kind::Call { .. } | Kind::Foreign => {}
        }
        Ok(())
    }

    fn meta(&self, block: JsonText) -> JsonText {
        JsonText::of(&ThinkingMeta {
            provider: self.provider.to_string(),
            block,
        })
    }

    /// Counts are totals so far, and come twice.
    fn take_usage(&mut self, usage: Loose<'_>) {
        let Some(usage) = usage.read::<WireUsage<'_>>() else {
            return;
        };
        let number = |value: Option<Loose<'_>>| value.and_then(Loose::number);
        let known = &mut self.usage;
        known.input = number(usage.input_tokens).or(known.input);
        known.output = number(usage.output_tokens).or(known.output);
        known.cached_input = number(usage.cache_read_input_tokens).or(known.cached_input);
        self.cache_created = number(usage.cache_creation_input_tokens).or(self.cache_created);
    }
}

impl Decode for Decoder {
    fn data(&mut self, data: &str, out: &mut Outbox) -> Result<Flow, Fault> {
        let data = data.trim();
        if data.is_empty() {
            return Ok(Flow::More);
        }
        if data == "[DONE]" {
            return Ok(Flow::End);
        }
        let event: Event<'_> = serde_json::from_str(data).map_err(|error| {
            Fault::malformed(format!(
                "sent an event that is none of the Messages API ({error}); check that base_url and wire are right"
            ))
        })?;
        let kind = event.kind.and_then(Loose::text);
        let index = event.index.and_then(Loose::number).unwrap_or_default();
        match kind.as_deref() {
            Some("message_start") => {
                if let Some(message) = event.message {
                    self.model = message.model.and_then(Loose::word).map(Cow::into_owned);
                    if let Some(usage) = message.usage {
                        self.take_usage(usage);
                    }
                }
            }
            Some("content_block_start") => {
                if let Some(block) = event.content_block {
                    self.start(index, &block, out)?;
                }
            }
            Some("content_block_delta") => {
                if let Some(delta) = event.delta {
                    self.delta(index, &delta, out)?;
                }
            }
            Some("content_block_stop") => self.stop(index, out)?,
            Some("message_delta") => {
                let reason = event.delta.and_then(|delta| delta.stop_reason?.word());
                if let Some(reason) = reason {
                    self.stop_reason = Some(reason.into_owned());
                }
                if let Some(usage) = event.usage {
                    self.take_usage(usage);
                }
            }
            Some("message_stop") => return Ok(Flow::End),
            Some("message") => {
                return Err(Fault::malformed(
                    "answered with one message although it was asked to stream; check that base_url is right",
                ));
            }
            Some(_) | None => {
                if let Some(error) = event.error {
                    return Err(stream_error(&Words::read(error.0.get()), &self.key));
                }
            }
        }
        Ok(Flow::More)
    }

    fn knows_its_end(&self) -> bool {
        self.stop_reason.is_some()
    }

    fn finish(&mut self, out: &mut Outbox) {
        while let Some(index) = self.open.last().map(|open| open.index) {
            // Blocks that were never stopped; their bytes have been counted.
            self.stop(index, out).unwrap_or_default();
        }
        let reason = self.stop_reason.as_deref().unwrap_or_default();
        let finish = match reason {
            "max_tokens" | "model_context_window_exceeded" => Finish::Length,
            "refusal" => Finish::ContentFilter,
            _ if !self.calls.is_empty() => Finish::ToolCalls,
            "end_turn" | "stop_sequence" | "tool_use" => Finish::Stop,
            other => Finish::Other(other.chars().take(16).collect()),
        };
        let ending = match finish {
            Finish::Length | Finish::ContentFilter => Ending::Cut,
            Finish::Stop | Finish::ToolCalls | Finish::Other(_) => Ending::Whole,
        };
        self.calls.finish(ending, out);
        let cached = [self.usage.cached_input, self.cache_created];
        let usage = Usage {
            input: self.usage.input.map(|input| {
                cached
                    .into_iter()
                    .flatten()
                    .fold(input, u64::saturating_add)
            }),
            ..self.usage
        };
        out.done(finish, usage, self.model.take());
    }
}
