//! What every test here needs: a Provider of ours in front of a scripted one.

use std::{collections::HashMap, sync::Arc};

use futures::StreamExt as _;
use kernel::{JsonText, Secret};
use llm::{
    AssistantBlock, CallArguments, ErrorKind, Finish, Message, Provider, ProviderConfig,
    ProviderError, Providers, StepEvent, StepRequest, ToolResult, ToolSpec, ToolUse, Usage,
};
use testkit::provider::{Manner, ScriptedProvider, Step, Wire};
use tokio_util::sync::CancellationToken;

/// What a step came to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    /// What is to be handed back with each piece of reasoning.
    pub(crate) metas: Vec<Option<JsonText>>,
    pub(crate) calls: Vec<Call>,
    pub(crate) finish: Option<Finish>,
    pub(crate) usage: Usage,
    pub(crate) model: Option<String>,
    pub(crate) error: Option<ProviderError>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: CallArguments,
    pub(crate) wire_id: Option<String>,
    pub(crate) meta: Option<JsonText>,
}

impl Outcome {
    /// Names and complete arguments; anything else fails the test.
    pub(crate) fn complete_calls(&self) -> Vec<(&str, &str)> {
        self.calls
            .iter()
            .map(|call| match &call.arguments {
                CallArguments::Complete(arguments) => (call.name.as_str(), arguments.as_str()),
                other => panic!("{} is not complete: {other:?}", call.name),
            })
            .collect()
    }

    /// Kind and sentence of the failure.
    pub(crate) fn failure(&self) -> (ErrorKind, &str) {
        let error = self.error.as_ref().expect("the step fails");
        (error.kind, &error.sentence)
    }
}

/// Our Provider and the scripted one that it talks to.
pub(crate) struct Pair {
    pub(crate) scripted: ScriptedProvider,
    pub(crate) provider: Arc<dyn Provider>,
}

impl Pair {
    pub(crate) async fn new(wire: Wire) -> Self {
        Self::with(wire, Manner::Strict, |_| {}).await
    }

    pub(crate) async fn with(
        wire: Wire,
        manner: Manner,
        set: impl FnOnce(&mut ProviderConfig),
    ) -> Self {
        let scripted = ScriptedProvider::start_with(wire, manner).await;
        let mut config = config(wire, &scripted.base_url());
        set(&mut config);
        Self {
            provider: provider(config),
            scripted,
        }
    }

    /// Runs a step that the script answers so.
    pub(crate) async fn run(&self, step: Step) -> Outcome {
        self.scripted.script([step]);
        outcome(&*self.provider, &ask("hi")).await
    }
}

pub(crate) fn config(wire: Wire, base_url: &str) -> ProviderConfig {
    ProviderConfig {
        wire: Some(match wire {
            Wire::ChatCompletions => llm::Wire::ChatCompletions,
            Wire::Anthropic => llm::Wire::Anthropic,
        }),
        base_url: Some(base_url.to_owned()),
        key: Secret::new("sk-test-key"),
        ..ProviderConfig::default()
    }
}

/// A Provider called `test`.
pub(crate) fn provider(config: ProviderConfig) -> Arc<dyn Provider> {
    let configs = HashMap::from([("test".to_owned(), config)]);
    let providers = Providers::from_config(configs).unwrap();
    providers.resolve(&"test/m".parse().unwrap()).unwrap()
}

/// A request with two Tools.
pub(crate) fn ask(text: &str) -> StepRequest {
    let tool = |name: &str| {
        ToolSpec {
        name: name.parse().unwrap(),
        description: format!("does {name}"),
        schema: r#"{"type":"object","properties":{"n":{"type":"number","maximum":12345678901234567890123}}}"#
            .parse()
            .unwrap(),
    }
    };
    StepRequest {
        model: "m".to_owned(),
        system: "You are a villager.".to_owned(),
        messages: vec![Message::User {
            text: text.to_owned(),
        }],
        tools: vec![tool("current_time"), tool("fetch_url")],
        tool_use: ToolUse::Auto,
        max_output_tokens: None,
    }
}

pub(crate) fn json(text: &str) -> JsonText {
    text.parse().unwrap()
}

pub(crate) fn call(id: &str, arguments: &str) -> AssistantBlock {
    AssistantBlock::Call {
        id: id.to_owned(),
        name: "current_time".to_owned(),
        arguments: json(arguments),
        meta: None,
    }
}

pub(crate) fn result(id: &str, text: &str) -> ToolResult {
    ToolResult {
        call_id: id.to_owned(),
        name: "current_time".to_owned(),
        text: text.to_owned(),
        failed: false,
    }
}

/// The history goes on: what the step said, and a result for each of its calls.
pub(crate) fn go_on(request: &mut StepRequest, outcome: &Outcome) {
    let mut blocks = Vec::new();
    for meta in &outcome.metas {
        blocks.push(AssistantBlock::Reasoning {
            text: outcome.reasoning.clone(),
            meta: meta.clone(),
        });
    }
    if !outcome.text.is_empty() {
        blocks.push(AssistantBlock::Text(outcome.text.clone()));
    }
    let mut results = Vec::new();
    for (place, call) in outcome.calls.iter().enumerate() {
        let id = format!("ours-{}-{place}", request.messages.len());
        results.push(ToolResult {
            call_id: id.clone(),
            name: call.name.clone(),
            text: "ok".to_owned(),
            failed: false,
        });
        blocks.push(AssistantBlock::Call {
            id,
            name: call.name.clone(),
            arguments: call.arguments.for_replay(),
            meta: call.meta.clone(),
        });
    }
    request.messages.push(Message::Assistant { blocks });
    if results.is_empty() {
        request.messages.push(Message::User {
            text: "and then?".to_owned(),
        });
    } else {
        request.messages.push(Message::ToolResults(results));
    }
}

/// Runs a step to its end, and checks what holds for every stream: dense indices, each call finished exactly once and only
/// before `Done`, its deltas adding up, no empty deltas, nothing behind the end.
pub(crate) async fn outcome(provider: &dyn Provider, request: &StepRequest) -> Outcome {
    outcome_until(provider, request, &CancellationToken::new()).await
}

pub(crate) async fn outcome_until(
    provider: &dyn Provider,
    request: &StepRequest,
    cancel: &CancellationToken,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut stream = match provider.stream(request, cancel).await {
        Ok(stream) => stream,
        Err(error) => {
            outcome.error = Some(error);
            return outcome;
        }
    };
    let mut names: Vec<(String, String)> = Vec::new();
    while let Some(item) = stream.next().await {
        assert!(
            outcome.finish.is_none() && outcome.error.is_none(),
            "something follows the end: {item:?}"
        );
        match item {
            Ok(StepEvent::TextDelta(delta)) => {
                assert!(!delta.is_empty());
                outcome.text.push_str(&delta);
            }
            Ok(StepEvent::ReasoningDelta(delta)) => {
                assert!(!delta.is_empty());
                outcome.reasoning.push_str(&delta);
            }
            Ok(StepEvent::ReasoningDone { meta }) => outcome.metas.push(meta),
            Ok(StepEvent::CallStarted { index, name }) => {
                assert_eq!(index, names.len(), "indices are dense");
                names.push((name, String::new()));
            }
            Ok(StepEvent::CallArgumentsDelta { index, delta }) => {
                assert!(!delta.is_empty());
                names[index].1.push_str(&delta);
            }
            Ok(StepEvent::CallFinished {
                index,
                arguments,
                wire_id,
                meta,
            }) => {
                assert_eq!(index, outcome.calls.len(), "in order, once each");
                let (name, raw) = names[index].clone();
                if let CallArguments::Complete(arguments) = &arguments
                    && !["", "null"].contains(&raw.trim())
                {
                    assert_eq!(&json(&raw), arguments, "deltas add up");
                }
                outcome.calls.push(Call {
                    name,
                    arguments,
                    wire_id,
                    meta,
                });
            }
            Ok(StepEvent::Done {
                finish,
                usage,
                model,
            }) => {
                assert_eq!(names.len(), outcome.calls.len(), "every call is finished");
                outcome.finish = Some(finish);
                outcome.usage = usage;
                outcome.model = model;
            }
            Err(error) => outcome.error = Some(error),
        }
    }
    assert!(
        outcome.finish.is_some() != outcome.error.is_some(),
        "a stream ends in Done or in an error"
    );
    outcome
}

/// Plays a recorded stream, whole and byte by byte.
macro_rules! play {
    ($wire:expr, $name:literal) => {{
        let bytes: &'static [u8] = include_bytes!(concat!("streams/", $name, ".sse"));
        crate::support::play_bytes($wire, bytes).await
    }};
}
pub(crate) use play;

pub(crate) async fn play_bytes(wire: Wire, bytes: &'static [u8]) -> Outcome {
    let pair = Pair::new(wire).await;
    let whole = pair.run(Step::stream(bytes)).await;
    // In packets that split events, lines and characters; a pause makes a packet of its own.
    let pause = std::time::Duration::from_micros(200);
    let packets = bytes
        .chunks(7.max(bytes.len() / 60))
        .fold(Step::stream(&b""[..]), |step, packet| {
            step.bytes(packet).pause(pause)
        });
    assert_eq!(pair.run(packets).await, whole, "packets show");
    whole
}
