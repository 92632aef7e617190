//! `serve`: a Village, until it is told to stop.

use std::{collections::HashMap, time::Duration};

use kernel::ErrorCode;
use llm::ProviderConfig;
use runtime::{Lifecycle, Stopped, process, telemetry};
use serde::Serialize;

use crate::{
    app::App,
    cli::DEFAULT_SERVER,
    compose::{self, Sections, Village},
    failure::Failure,
    output::Format,
    render::shell_word,
};

/// Models that are there for whoever has a key, to begin with.
const OPENAI_MODEL: &str = "openai/gpt-5-mini";
const ANTHROPIC_MODEL: &str = "anthropic/claude-sonnet-4-5";
/// The vendors' own hosts, which answer nobody without a key.
const VENDORS: [&str; 2] = ["//api.openai.com", "//api.anthropic.com"];

/// What a program reads of a Village that is open.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Opened {
    http: String,
    grpc: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    admin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    egress: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator_token_file: Option<String>,
}

pub(crate) async fn run(app: &App) -> Result<(), Failure> {
    process::install_crypto();
    process::protect_memory();
    let settings = app.settings()?;
    let sections = Sections::read(&settings)?;
    let telemetry =
        telemetry::init(&sections.telemetry, "agentsville").map_err(Failure::precondition)?;
    let lifecycle = Lifecycle::new();
    let outcome = open(app, &settings, &sections, &lifecycle, &telemetry).await;
    if let Err(failure) = &outcome
        && let Some(problem) = failure.problem()
    {
        tracing::error!(error = problem.detail, "stopping after a failure");
    }
    telemetry.shutdown().await;
    outcome
}

async fn open(
    app: &App,
    settings: &runtime::Settings,
    sections: &Sections,
    lifecycle: &Lifecycle,
    telemetry: &telemetry::Telemetry,
) -> Result<(), Failure> {
    let grace = Duration::from_secs(sections.grpc.drain_seconds);
    let village = compose::village(settings, lifecycle, &app.clock, telemetry.metrics()).await?;
    // Signals are listened for before anybody is told that the Village is open.
    let (stopped, said) = tokio::join!(lifecycle.run_until_stopped(grace), async {
        let said = say(app, sections, &village);
        // A Village does not close because nobody reads what it says of itself.
        if !matches!(said, Ok(()) | Err(Failure::ReaderGone)) {
            lifecycle.stop();
        }
        said
    });
    village.close().await;
    if !matches!(said, Err(Failure::ReaderGone)) {
        said?;
    }
    let stopped = stopped.map_err(|error| {
        Failure::of(
            ErrorCode::Internal,
            format!("cannot listen for signals: {error}"),
        )
    })?;
    match stopped {
        Stopped::Drained => tracing::info!("stopped"),
        Stopped::CutOff => tracing::warn!("stopped; some of what ran was cut off"),
        Stopped::Failed(reason) => return Err(Failure::of(ErrorCode::Internal, reason)),
    }
    Ok(())
}

fn say(app: &App, sections: &Sections, village: &Village) -> Result<(), Failure> {
    let http = format!("http://{}", village.http);
    let token_file = village
        .operator
        .file
        .as_ref()
        .map(|file| file.display().to_string());
    match app.output.format() {
        Format::Json => app.output.json_of(&Opened {
            http,
            grpc: village.grpc.to_string(),
            admin: village.admin.map(|address| address.to_string()),
            egress: village.egress.map(|address| address.to_string()),
            operator_token_file: token_file,
        })?,
        Format::Text => {
            let text = welcome(
                &app.program,
                sections,
                village,
                &http,
                token_file.as_deref(),
            );
            app.output.line(&text)?;
        }
    }
    Ok(())
}

fn welcome(
    program: &str,
    sections: &Sections,
    village: &Village,
    http: &str,
    token_file: Option<&str>,
) -> String {
    let mut lines = vec![
        "The Village is open.".to_owned(),
        format!("  HTTP            {http}"),
        format!("  gRPC            {}", village.grpc),
    ];
    if let Some(admin) = village.admin {
        lines.push(format!("  admin           http://{admin}/readyz"));
    }
    if let Some(egress) = village.egress {
        lines.push(format!("  egress          {egress}"));
    }
    lines.push(match token_file {
        Some(file) => format!("  Operator token  {file}"),
        None => "  Operator token  as the settings have it".to_owned(),
    });
    let server = if http == DEFAULT_SERVER {
        String::new()
    } else {
        format!(" --server {http}")
    };
    let program = shell_word(program);
    lines.push(String::new());
    let model = model_to_try(&sections.providers);
    if model.is_none() {
        lines.push(
            "No Provider has a key yet, so NPCs cannot answer: start again with OPENAI_API_KEY or ANTHROPIC_API_KEY set.".to_owned(),
        );
    }
    lines.push(
        match &model {
            Some(model) if model.ends_with("/MODEL") => {
                "Try, in another terminal, with a MODEL that your Provider has:"
            }
            Some(_) | None => "Try, in another terminal:",
        }
        .to_owned(),
    );
    lines.extend([
        format!(
            "  {program}{server} npc create Keeper --model {}",
            model.as_deref().unwrap_or(OPENAI_MODEL)
        ),
        format!("  {program}{server} grant add Keeper tool:current_time"),
        format!("  {program}{server} chat Keeper 'What time is it?'"),
    ]);
    lines.join("\n")
}

/// A model of a Provider that can answer, as far as the settings tell: one that has a key, or that is somewhere else than the
/// vendors are, where a key may not be needed. What models there are elsewhere is not known.
fn model_to_try(providers: &HashMap<String, ProviderConfig>) -> Option<String> {
    let mut usable: Vec<String> = providers
        .iter()
        .filter_map(|(name, provider)| {
            let elsewhere = provider
                .base_url
                .as_deref()
                .is_some_and(|url| !VENDORS.iter().any(|vendor| url.contains(vendor)));
            match (name.as_str(), elsewhere, provider.key.is_empty()) {
                (_, true, _) => Some(format!("{name}/MODEL")),
                (_, false, true) => None,
                ("openai", false, false) => Some(OPENAI_MODEL.to_owned()),
                ("anthropic", false, false) => Some(ANTHROPIC_MODEL.to_owned()),
                (_, false, false) => Some(format!("{name}/MODEL")),
            }
        })
        .collect();
    // A name that can be copied as it is comes first, and the choice does not change from start to start.
    usable.sort_by_key(|model| {
        (
            model.ends_with("/MODEL"),
            model.starts_with("anthropic"),
            model.clone(),
        )
    });
    usable.into_iter().next()
}

#[cfg(test)]
mod tests {
    use kernel::Secret;

    use super::*;

    fn provider(base_url: &str, key: &str) -> ProviderConfig {
        ProviderConfig {
            base_url: Some(base_url.to_owned()),
            key: Secret::new(key),
            ..ProviderConfig::default()
        }
    }

    fn tried(openai: ProviderConfig, anthropic_key: &str, others: &[&str]) -> Option<String> {
        let anthropic = provider("https://api.anthropic.com", anthropic_key);
        let mut providers = HashMap::from([
            ("openai".to_owned(), openai),
            ("anthropic".to_owned(), anthropic),
        ]);
        for name in others {
            let local = provider("http://127.0.0.1:11434/v1", "");
            providers.insert((*name).to_owned(), local);
        }
        model_to_try(&providers)
    }

    #[test]
    fn a_local_server_without_a_key_is_a_provider_that_can_answer() {
        let vendor = || provider("https://api.openai.com/v1", "");
        let keyed = || provider("https://api.openai.com/v1", "k");
        let local = || provider("http://127.0.0.1:11434/v1", "");
        assert_eq!(tried(vendor(), "", &[]), None);
        assert_eq!(tried(local(), "", &[]).as_deref(), Some("openai/MODEL"));
        assert_eq!(tried(keyed(), "", &[]).as_deref(), Some(OPENAI_MODEL));
        assert_eq!(tried(keyed(), "k", &[]).as_deref(), Some(OPENAI_MODEL));
        assert_eq!(tried(local(), "k", &[]).as_deref(), Some(ANTHROPIC_MODEL));
        assert_eq!(
            tried(vendor(), "", &["ollama"]).as_deref(),
            Some("ollama/MODEL")
        );
    }
}
