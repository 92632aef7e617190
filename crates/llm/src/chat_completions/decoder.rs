//! Reads `chat.completion.chunk` objects.

use std::{borrow::Cow, sync::Arc};

use kernel::{JsonText, Secret, limits::PART_BYTES};
use serde::Deserialize;

use super::{CallMeta, ReasoningMeta, think::Think};
use crate::{
    Finish, Usage,
    assembler::{Assembler, Ending, Fragment, SecondObject},
    http_error::{Words, stream_error},
    loose::Loose,
    outbox::{Fault, Outbox},
    step::{Decode, Flow},
};

/// Everything is optional, and nothing has the type that its documentation gives: see `tests/it` for who sends what.
#[derive(Deserialize)]
struct Chunk<'j> {
    #[serde(borrow)]
    model: Option<Loose<'j>>,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'j>>>,
    #[serde(borrow)]
    usage: Option<Loose<'j>>,
    #[serde(borrow)]
    x_groq: Option<Loose<'j>>,
    #[serde(borrow)]
    error: Option<Loose<'j>>,
}

/// Where Groq puts what belongs to the step.
#[derive(Deserialize)]
struct Groq<'j> {
    #[serde(borrow)]
    usage: Option<Loose<'j>>,
}

#[derive(Deserialize)]
struct Choice<'j> {
    #[serde(borrow)]
    delta: Option<Delta<'j>>,
    /// Instead of `delta`, from endpoints that do not stream.
    #[serde(borrow)]
    message: Option<Delta<'j>>,
    #[serde(borrow)]
    finish_reason: Option<Loose<'j>>,
    #[serde(borrow)]
    usage: Option<Loose<'j>>,
    #[serde(borrow)]
    error: Option<Loose<'j>>,
}

#[derive(Deserialize)]
struct Delta<'j> {
    #[serde(borrow)]
    content: Option<Loose<'j>>,
    #[serde(borrow)]
    refusal: Option<Loose<'j>>,
    #[serde(borrow)]
    reasoning_content: Option<Loose<'j>>,
    #[serde(borrow)]
    reasoning: Option<Loose<'j>>,
    #[serde(borrow)]
    reasoning_details: Option<Loose<'j>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ToolCall<'j>>>,
}

#[derive(Deserialize)]
struct ToolCall<'j> {
    #[serde(borrow)]
    index: Option<Loose<'j>>,
    #[serde(borrow)]
    id: Option<Loose<'j>>,
    #[serde(borrow)]
    function: Option<Function<'j>>,
    #[serde(borrow)]
    extra_content: Option<Loose<'j>>,
}

#[derive(Deserialize)]
struct Function<'j> {
    #[serde(borrow)]
    name: Option<Loose<'j>>,
    #[serde(borrow)]
    arguments: Option<Loose<'j>>,
}

#[derive(Deserialize)]
struct TypedPart<'j> {
    #[serde(borrow, rename = "type")]
    kind: Option<Loose<'j>>,
    #[serde(borrow)]
    text: Option<Loose<'j>>,
    #[serde(borrow)]
    thinking: Option<Loose<'j>>,
}

#[derive(Deserialize)]
struct WireUsage<'j> {
    #[serde(borrow)]
    prompt_tokens: Option<Loose<'j>>,
    #[serde(borrow)]
    completion_tokens: Option<Loose<'j>>,
    #[serde(borrow)]
    prompt_cache_hit_tokens: Option<Loose<'j>>,
    #[serde(borrow)]
    prompt_tokens_details: Option<Loose<'j>>,
    #[serde(borrow)]
    completion_tokens_details: Option<Loose<'j>>,
}

#[derive(Deserialize)]
struct TokenDetails<'j> {
    #[serde(borrow)]
    cached_tokens: Option<Loose<'j>>,
    #[serde(borrow)]
    reasoning_tokens: Option<Loose<'j>>,
}

/// The field that a step's reasoning comes in: the first that is seen stays, since some endpoints send it in two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReasoningField {
    ReasoningContent,
    Reasoning,
}

impl ReasoningField {
    fn as_str(self) -> &'static str {
        match self {
            Self::ReasoningContent => "reasoning_content",
            Self::Reasoning => "reasoning",
        }
    }
}

/// What came of one step so far.
#[derive(Debug)]
pub(crate) struct Decoder {
    provider: Arc<str>,
    key: Secret,
    calls: Assembler,
    think: Think,
    reasoning_field: Option<ReasoningField>,
    /// Entries of `reasoning_details` since reasoning was last said to be done.
    details: Vec<serde_json::Value>,
    details_bytes: usize,
    reasoning_open: bool,
    finish: Option<String>,
    usage: Usage,
    model: Option<String>,
}

impl Decoder {
    pub(crate) fn new(provider: Arc<str>, key: Secret) -> Self {
        Self {
            provider,
            key,
            calls: Assembler::new(SecondObject::AnotherCall),
            think: Think::default(),
            reasoning_field: None,
            details: Vec::new(),
            details_bytes: 0,
            reasoning_open: false,
            finish: None,
            usage: Usage::default(),
            model: None,
        }
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut Outbox) -> Result<(), Fault> {
        self.reasoning(&delta, out)?;
        if let Some(content) = delta.content {
            self.content(content, out)?;
        }
        if let Some(refusal) = delta.refusal.and_then(Loose::text) {
            self.text(&refusal, out)?;
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.close_reasoning(out);
            self.think.end(out)?;
            self.call(&call, out)?;
        }
        Ok(())
    }

    fn reasoning(&mut self, delta: &Delta<'_>, out: &mut Outbox) -> Result<(), Fault> {
        if let Some(details) = delta.reasoning_details.filter(|details| details.is_array()) {
            self.reasoning_details(details, out)?;
        }
        let fields = [
            (ReasoningField::ReasoningContent, delta.reasoning_content),
            (ReasoningField::Reasoning, delta.reasoning),
        ];
        for (field, value) in fields {
            let Some(text) = value.and_then(Loose::text).filter(|text| !text.is_empty()) else {
                continue;
            };
            if *self.reasoning_field.get_or_insert(field) == field {
                self.reasoning_open = true;
                out.reasoning(&text)?;
            }
        }
        Ok(())
    }

    fn reasoning_details(&mut self, details: Loose<'_>, out: &mut Outbox) -> Result<(), Fault> {
        let bytes = details.0.get().len();
        out.keep(bytes)?;
        self.details_bytes = self.details_bytes.saturating_add(bytes);
        // A Part could not keep more. Without some of it the rest is of no use to the endpoint.
        if self.details_bytes > PART_BYTES {
            self.details.clear();
            return Ok(());
        }
        let details: Vec<serde_json::Value> = details.read().unwrap_or_default();
        self.reasoning_open |= !details.is_empty();
        for detail in details {
            add_detail(&mut self.details, detail);
        }
        Ok(())
    }

    fn content(&mut self, content: Loose<'_>, out: &mut Outbox) -> Result<(), Fault> {
        if let Some(text) = content.text() {
            return self.text(&text, out);
        }
        let parts: Vec<TypedPart<'_>> = content.read().unwrap_or_default();
        for part in parts {
            let kind = part.kind.and_then(Loose::text);
            match (kind.as_deref(), part.text, part.thinking) {
                (Some("thinking"), text, Some(thinking)) => {
                    let inner: Vec<TypedPart<'_>> = thinking.read().unwrap_or_default();
                    self.reasoning_open = true;
                    for text in inner
                        .iter()
                        .map(|part| part.text)
                        .chain([Some(thinking), text])
                    {
                        if let Some(text) = text.and_then(Loose::text) {
                            out.reasoning(&text)?;
                        }
                    }
                }
                (_, Some(text), _) => {
                    if let Some(text) = text.text() {
                        self.text(&text, out)?;
                    }
                }
                (_, None, _) => {}
            }
        }
        Ok(())
    }

    fn text(&mut self, text: &str, out: &mut Outbox) -> Result<(), Fault> {
        if text.is_empty() {
            return Ok(());
        }
        self.close_reasoning(out);
        self.think.content(text, out)
    }

    /// Reasoning is over: hand out what must come back with it.
    fn close_reasoning(&mut self, out: &mut Outbox) {
        if !std::mem::take(&mut self.reasoning_open) {
            return;
        }
        let details = std::mem::take(&mut self.details);
        let field = if details.is_empty() {
            self.reasoning_field.map(ReasoningField::as_str)
        } else {
            Some("reasoning_details")
        };
        out.reasoning_done(field.map(|field| {
            JsonText::of(&ReasoningMeta {
                provider: self.provider.to_string(),
                field: field.to_owned(),
                details: (!details.is_empty()).then(|| JsonText::of(&details)),
            })
        }));
    }

    fn call(&mut self, call: &ToolCall<'_>, out: &mut Outbox) -> Result<(), Fault> {
        let id = call.id.and_then(Loose::word);
        let function = call.function.as_ref();
        let name = function.and_then(|function| function.name?.word());
        let arguments = function.and_then(|function| function.arguments).map_or(
            Cow::Borrowed(""),
            |arguments| match arguments.text() {
                Some(text) => text,
                // An object where a string belongs (llama.cpp#20198); digit for digit.
                None => Cow::Borrowed(arguments.0.get()),
            },
        );
        let fragment = Fragment {
            index: call.index.and_then(Loose::number),
            id: id.as_deref(),
            name: name.as_deref(),
            arguments: &arguments,
        };
        let place = self.calls.take(fragment, out)?;
        if let (Some(place), Some(extra)) = (place, call.extra_content.filter(|e| e.is_object())) {
            out.keep(extra.0.get().len())?;
            let meta = CallMeta {
                provider: self.provider.to_string(),
                extra_content: extra.0.to_owned(),
            };
            self.calls.set_meta(place, JsonText::of(&meta));
        }
        Ok(())
    }

    fn take_usage(&mut self, usage: Loose<'_>) {
        let Some(usage) = usage.read::<WireUsage<'_>>() else {
            return;
        };
        let number = |value: Option<Loose<'_>>| value.and_then(Loose::number);
        let details = |value: Option<Loose<'_>>| {
            let details: TokenDetails<'_> = value?.read()?;
            Some((
                number(details.cached_tokens),
                number(details.reasoning_tokens),
            ))
        };
        let cached = details(usage.prompt_tokens_details).and_then(|(cached, _)| cached);
        let reasoning = details(usage.completion_tokens_details).and_then(|(_, tokens)| tokens);
        let hit = number(usage.prompt_cache_hit_tokens);
        let known = &mut self.usage;
        known.input = number(usage.prompt_tokens).or(known.input);
        known.output = number(usage.completion_tokens).or(known.output);
        known.cached_input = cached.or(hit).or(known.cached_input);
        known.reasoning = reasoning.or(known.reasoning);
    }
}

impl Decode for Decoder {
    fn data(&mut self, data: &str, out: &mut Outbox) -> Result<Flow, Fault> {
        let data = data.trim();
        if data == "[DONE]" {
            return Ok(Flow::End);
        }
        if data.is_empty() {
            return Ok(Flow::More);
        }
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|error| {
            Fault::malformed(format!(
                "sent an event that is no chat completion chunk ({error}); check that base_url and wire are right"
            ))
        })?;
        if let Some(error) = chunk.error.filter(|error| !error.says_nothing()) {
            return Err(self.error(error));
        }
        if self.model.is_none() {
            self.model = chunk.model.and_then(Loose::word).map(Cow::into_owned);
        }
        // Only one answer is asked for, and usage comes without any.
        if let Some(choice) = chunk.choices.unwrap_or_default().into_iter().next() {
            if let Some(error) = choice.error.filter(|error| !error.says_nothing()) {
                return Err(self.error(error));
            }
            for delta in [choice.delta, choice.message].into_iter().flatten() {
                self.delta(delta, out)?;
            }
            match choice.finish_reason.and_then(Loose::word).as_deref() {
                Some("error") => return Err(stream_error(&Words::default(), &self.key)),
                Some(reason) => self.finish = Some(reason.to_owned()),
                None => {}
            }
            if let Some(usage) = choice.usage {
                self.take_usage(usage);
            }
        }
        let groq = chunk.x_groq.and_then(|groq| groq.read::<Groq<'_>>()?.usage);
        for usage in [chunk.usage, groq].into_iter().flatten() {
            self.take_usage(usage);
        }
        Ok(Flow::More)
    }

    fn knows_its_end(&self) -> bool {
        self.finish.is_some()
    }

    fn finish(&mut self, out: &mut Outbox) {
        self.close_reasoning(out);
        // What is held back is at most a tag, which the bound has counted long ago.
        self.think.end(out).unwrap_or_default();
        let reason = self.finish.as_deref().unwrap_or_default();
        let finish = match reason {
            "length" | "max_tokens" | "model_length" => Finish::Length,
            "content_filter" | "safety" | "SAFETY" => Finish::ContentFilter,
            // Whatever the reason, calls are calls, and a step without any calls nothing.
            _ if !self.calls.is_empty() => Finish::ToolCalls,
            "stop" | "tool_calls" | "function_call" | "tool_use" | "eos" | "eos_token"
            | "end_turn" | "stop_sequence" => Finish::Stop,
            other => Finish::Other(other.chars().take(16).collect()),
        };
        let ending = match finish {
            Finish::Length | Finish::ContentFilter => Ending::Cut,
            Finish::Stop | Finish::ToolCalls | Finish::Other(_) => Ending::Whole,
        };
        self.calls.finish(ending, out);
        out.done(finish, self.usage, self.model.take());
    }
}

impl Decoder {
    fn error(&self, error: Loose<'_>) -> Fault {
        let words = match error.text() {
            Some(text) => Words {
                message: text.into_owned(),
                ..Words::default()
            },
            None => Words::read(error.0.get()),
        };
        stream_error(&words, &self.key)
    }
}

/// Adds an entry of `reasoning_details`. Texts of one index come in pieces and are put together, with the signature that
/// comes last (`OpenRouter` wants back what a whole answer would have held).
fn add_detail(details: &mut Vec<serde_json::Value>, detail: serde_json::Value) {
    let joins = |last: &serde_json::Value| {
        ["type", "index", "id"].iter().all(|key| {
            last.get(key).unwrap_or(&serde_json::Value::Null)
                == detail.get(key).unwrap_or(&serde_json::Value::Null)
        }) && detail.get("index").is_some()
    };
    let field = ["text", "summary"]
        .into_iter()
        .find(|field| detail.get(field).is_some_and(serde_json::Value::is_string));
    let (Some(last), Some(field)) = (details.last_mut().filter(|last| joins(last)), field) else {
        details.push(detail);
        return;
    };
    let serde_json::Value::Object(more) = detail else {
        return;
    };
    for (key, value) in more {
        match (last.get_mut(&key), value) {
            (Some(serde_json::Value::String(text)), serde_json::Value::String(piece))
                if key == field =>
            {
                text.push_str(&piece);
            }
            (_, serde_json::Value::Null) => {}
            (_, value) => last[key] = value,
        }
    }
}
