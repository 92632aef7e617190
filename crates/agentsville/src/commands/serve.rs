//! `serve`: a Village, until it is told to stop.

use std::time::Duration;

use kernel::ErrorCode;
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

/// What a program reads of a Village that is open.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Opened {
    http: String,
    grpc: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    admin: Option<String>,
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
    let keyed = sections
        .providers
        .iter()
        .any(|(name, provider)| !provider.key.is_empty() || !is_vendor(name));
    let model = match sections.providers.get("anthropic") {
        Some(provider) if !provider.key.is_empty() => "anthropic/claude-sonnet-4-5",
        Some(_) | None => "openai/gpt-5-mini",
    };
    lines.push(String::new());
    if !keyed {
        lines.push(
            "No Provider has a key yet, so NPCs cannot answer: start again with OPENAI_API_KEY or ANTHROPIC_API_KEY set.".to_owned(),
        );
    }
    lines.push("Try, in another terminal:".to_owned());
    lines.extend([
        format!("  {program}{server} npc create Keeper --model {model}"),
        format!("  {program}{server} grant add Keeper tool:current_time"),
        format!("  {program}{server} chat Keeper 'What time is it?'"),
    ]);
    lines.join("\n")
}

/// The Providers that are there without being set, and need a key.
fn is_vendor(name: &str) -> bool {
    matches!(name, "openai" | "anthropic")
}
