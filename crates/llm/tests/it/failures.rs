//! Failures are sentences, and keep secrets.

use std::{collections::HashMap, process::Command};

use kernel::Secret;
use llm::{ErrorKind, ProviderConfig, Providers};
use testkit::origin::{Authority, TlsOrigin};
use testkit::provider::{Gate, Manner, ScriptedProvider, Step, Wire, Wire::ChatCompletions};
use tokio_util::sync::CancellationToken;

use crate::support::{Pair, ask, config, outcome, outcome_until, provider};

async fn sentence(step: Step) -> String {
    let pair = Pair::with(ChatCompletions, Manner::Strict, |config| {
        config.retries = 0;
    })
    .await;
    let step = pair.run(step).await;
    step.failure().1.to_owned()
}

#[tokio::test]
async fn a_rejected_key_is_not_repeated() {
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-test-key. Find yours at example.com."}}"#;
    assert_eq!(
        sentence(Step::refusal(401, body)).await,
        "Provider test answered 401: Incorrect API key provided: …. Find yours at example.com.; check the Provider's key and what it may use"
    );
}

#[tokio::test]
async fn an_error_page_is_not_repeated() {
    let page = "<!DOCTYPE html><title>Bad gateway</title>";
    let refusal = Step::refusal(502, page).header("content-type", "text/html; charset=utf-8");
    assert_eq!(
        sentence(refusal).await,
        "Provider test answered 502 with an HTML page, so something other than the API is answering there; try again later"
    );
    let page = Step::stream(page).header("content-type", "text/html");
    let said = sentence(page).await;
    assert!(
        said.starts_with("Provider test answered with an HTML page at http://127.0.0.1:")
            && said.ends_with("check base_url"),
        "{said}"
    );
}

#[tokio::test]
async fn an_unknown_model_is_named() {
    assert_eq!(
        sentence(Step::refusal(
            404,
            r#"{"error":{"message":"no such model"}}"#
        ))
        .await,
        "Provider test answered 404: no such model; check that it has the model \"m\", and that base_url is right"
    );
}

#[tokio::test]
async fn an_empty_answer_is_a_cut_stream() {
    assert_eq!(
        sentence(Step::stream(&b""[..])).await,
        "Provider test cut its answer short: the stream ended without a finish reason; try again"
    );
    assert_eq!(
        sentence(Step::refusal(500, "")).await,
        "Provider test answered 500 without a word; try again later"
    );
}

#[tokio::test]
async fn what_is_not_the_wire_format_is_malformed() {
    let said = sentence(Step::stream("data: hello\n\n")).await;
    assert!(
        said.starts_with("Provider test sent an event that is no chat completion chunk")
            && said.ends_with("check that base_url and wire are right"),
        "{said}"
    );
}

#[tokio::test]
async fn silence_before_and_behind_the_head_is_a_timeout() {
    let pair = Pair::with(ChatCompletions, Manner::Strict, |config| {
        config.first_byte_timeout_ms = 200;
    })
    .await;
    for step in [Step::silence(), Step::stream(&b""[..]).stall()] {
        assert_eq!(
            pair.run(step).await.failure(),
            (
                ErrorKind::Timeout,
                "Provider test answered nothing for 0.2 s; try again later, or set a longer time for it"
            )
        );
    }
    assert_eq!(
        pair.scripted.requests().len(),
        2,
        "silence is not asked again"
    );
}

#[tokio::test]
async fn nobody_listening_is_said_with_the_address() {
    let mut settings = config(ChatCompletions, "http://127.0.0.1:1/v1");
    settings.retries = 0;
    let step = outcome(&*provider(settings), &ask("hi")).await;
    let (kind, said) = step.failure();
    assert_eq!(kind, ErrorKind::Unreachable);
    assert!(
        said.starts_with("Provider test cannot be reached at 127.0.0.1:1 (Connection refused"),
        "{said}"
    );
}

#[tokio::test]
async fn a_provider_that_went_away_is_unreachable() {
    let pair = Pair::with(ChatCompletions, Manner::Strict, |config| {
        config.retries = 0;
    })
    .await;
    assert_eq!(pair.run(Step::new().text("a")).await.text, "a");
    let Pair { scripted, provider } = pair;
    drop(scripted);
    let step = outcome(&*provider, &ask("hi")).await;
    assert_eq!(step.failure().0, ErrorKind::Unreachable);
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_never_sees_the_key() {
    let authority = Authority::new();
    let origin = TlsOrigin::start(&authority, &["localhost"]).await;
    let url = format!("https://localhost:{}/v1", origin.port());
    let mut settings = config(ChatCompletions, &url);
    settings.retries = 0;
    let step = outcome(&*provider(settings), &ask("hi")).await;
    let (kind, said) = step.failure();
    assert_eq!(kind, ErrorKind::Unreachable);
    assert!(said.contains("invalid peer certificate"), "{said}");
    assert_eq!(origin.requests().len(), 0);
}

#[tokio::test]
async fn an_error_in_a_stream_does_not_repeat_the_key() {
    let stream =
        "data: {\"error\":{\"message\":\"bad sk-test-key\",\"code\":\"invalid_api_key\"}}\n\n";
    assert_eq!(
        sentence(Step::stream(stream)).await,
        "Provider test failed in the middle of its answer: bad …"
    );
}

#[tokio::test]
async fn a_redirect_does_not_take_the_key_along() {
    let elsewhere = ScriptedProvider::start(ChatCompletions).await;
    let target = format!("{}/chat/completions", elsewhere.base_url());
    let said = sentence(Step::refusal(307, "").header("location", &target)).await;
    assert_eq!(
        said,
        "Provider test answered 307 without a word, a redirect, and these are not followed with a key; set base_url to the final address"
    );
    assert_eq!(elsewhere.requests().len(), 0);
}

/// Runs a test that talks to a Provider in a process whose environment names proxies that nobody runs.
#[test]
fn proxies_of_the_environment_are_ignored() {
    let dead = "http://127.0.0.1:1";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "chat_completions::a_plain_request_succeeds"])
        .env("HTTP_PROXY", dead)
        .env("http_proxy", dead)
        .env("ALL_PROXY", dead)
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[tokio::test]
async fn a_cancelled_step_hangs_up_and_says_so() {
    for wire in [ChatCompletions, Wire::Anthropic] {
        let pair = Pair::new(wire).await;
        let gate = Gate::new();
        pair.scripted
            .script([Step::new().text("hal").gate(&gate).text("lo")]);
        let cancel = CancellationToken::new();
        let request = ask("hi");
        let (step, ()) = tokio::join!(outcome_until(&*pair.provider, &request, &cancel), async {
            gate.reached().await;
            cancel.cancel();
        });
        assert_eq!(step.failure().0, ErrorKind::Cancelled);
        pair.scripted.wait_for_hang_ups(1).await;
    }
}

#[tokio::test]
async fn a_step_that_was_cancelled_before_it_began_sends_nothing() {
    let pair = Pair::new(ChatCompletions).await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let step = outcome_until(&*pair.provider, &ask("hi"), &cancel).await;
    assert_eq!(step.failure().0, ErrorKind::Cancelled);
    assert_eq!(pair.scripted.requests().len(), 0);
}

#[tokio::test]
async fn a_dropped_stream_hangs_up() {
    let pair = Pair::new(ChatCompletions).await;
    let gate = Gate::new();
    pair.scripted.script([Step::new().text("hal").gate(&gate)]);
    let stream = pair
        .provider
        .stream(&ask("hi"), &CancellationToken::new())
        .await
        .unwrap();
    gate.reached().await;
    drop(stream);
    pair.scripted.wait_for_hang_ups(1).await;
}

#[tokio::test]
async fn a_vendor_without_a_key_says_what_to_set_and_is_not_asked() {
    let providers = Providers::from_config(HashMap::new()).unwrap();
    for name in ["openai", "anthropic"] {
        let provider = providers
            .resolve(&format!("{name}/m").parse().unwrap())
            .unwrap();
        let step = outcome(&*provider, &ask("hi")).await;
        let variable = format!("{}_API_KEY", name.to_uppercase());
        let said = format!(
            "Provider {name} has no key; set {variable}, or key under [providers.{name}] in the settings"
        );
        assert_eq!(step.failure(), (ErrorKind::Auth, said.as_str()));
    }
}

#[test]
fn an_unknown_provider_names_the_nearest() {
    let providers = Providers::from_config(HashMap::new()).unwrap();
    let refused = |model: &str| {
        let model = model.parse().unwrap();
        providers.resolve(&model).unwrap_err().to_string()
    };
    assert_eq!(
        refused("opnai/gpt-5"),
        "there is no Provider \"opnai\"; did you mean \"openai\"?"
    );
    assert_eq!(
        refused("xyz/gpt-5"),
        "there is no Provider \"xyz\"; known are anthropic, openai, and more can be set as [providers.NAME]"
    );
}

#[test]
fn keys_do_not_show_in_debug() {
    let configs = HashMap::from([(
        "openai".to_owned(),
        config(ChatCompletions, "http://[::1]/v1"),
    )]);
    let shown = format!("{configs:?}");
    assert!(!shown.contains("sk-test-key"), "{shown}");
    let providers = Providers::from_config(configs).unwrap();
    let shown = format!("{providers:?}");
    assert!(!shown.contains("sk-test-key"), "{shown}");
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let refused = |name: &str, set: fn(&mut ProviderConfig)| {
        let mut settings = config(ChatCompletions, "http://127.0.0.1/v1");
        set(&mut settings);
        let configs = HashMap::from([(name.to_owned(), settings)]);
        Providers::from_config(configs).unwrap_err().to_string()
    };
    let rows: [(&str, fn(&mut ProviderConfig), &str); 10] = [
        ("Mine", |_| {}, "providers.Mine: a Provider's name is"),
        ("mine", |c| c.wire = None, "providers.mine: wire is missing"),
        (
            "mine",
            |c| c.base_url = None,
            "providers.mine: base_url is missing",
        ),
        (
            "anthropic",
            |_| {},
            "providers.anthropic: this name keeps its own wire format",
        ),
        (
            "mine",
            |c| c.base_url = Some("api.example.com/v1".to_owned()),
            "providers.mine: base_url is no URL",
        ),
        (
            "mine",
            |c| c.base_url = Some("file:///v1".to_owned()),
            "providers.mine: base_url is neither http nor https",
        ),
        (
            "mine",
            |c| c.base_url = Some("https://u:sk-test-key@example.com/v1".to_owned()),
            "providers.mine: base_url holds a password",
        ),
        (
            "mine",
            |c| c.key = Secret::new("sk-test-key\n"),
            "providers.mine: key has characters that no key has",
        ),
        (
            "mine",
            |c| c.idle_timeout_ms = 0,
            "providers.mine: idle_timeout_ms is 0",
        ),
        (
            "mine",
            |c| c.thinking_tokens = Some(1),
            "providers.mine: thinking_tokens is less than 1024",
        ),
    ];
    for (name, set, said) in rows {
        let problem = refused(name, set);
        assert!(problem.starts_with(said), "{problem}");
        assert!(!problem.contains("sk-test-key"), "{problem}");
    }
}

#[test]
fn settings_are_read_with_their_defaults_and_unknown_keys_refused() {
    let read = |text: &str| serde_json::from_str::<ProviderConfig>(text);
    let settings =
        read(r#"{"wire":"chat-completions","key":"k","base_url":"http://x/v1"}"#).unwrap();
    assert_eq!(
        (
            settings.idle_timeout_ms,
            settings.first_byte_timeout_ms,
            settings.retries
        ),
        (120_000, 60_000, 2)
    );
    let refused = read(r#"{"base_uri":"http://x/v1"}"#)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("unknown field `base_uri`"), "{refused}");
}
