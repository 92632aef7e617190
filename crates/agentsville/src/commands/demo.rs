//! `demo`: one turn in a Village that lives for it.

use std::{path::Path, sync::Arc, time::Duration};

use kernel::ErrorCode;
use runtime::{Lifecycle, Settings, Sources};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use super::chat::{Question, ask, verdict};
use crate::{
    app::App,
    cli::DemoArgs,
    client::{Client, Server, Token, read},
    compose,
    demo::{
        METADATA_URL, NoticeBoard, Rehearsal,
        ledger::{ACCOUNT, SERVER},
    },
    failure::Failure,
    output::Format,
};

/// Who answers.
const NPC: &str = "Keeper";
const PERSONA: &str = "You keep the lodge at the gate of a village. You are brief and kind, and you say plainly what you could not do.";
/// How long the Village may take to close.
const CLOSING: Duration = Duration::from_secs(5);

pub(crate) async fn run(app: &App, arguments: &DemoArgs) -> Result<(), Failure> {
    runtime::process::install_crypto();
    runtime::process::protect_memory();
    let directory = tempfile::Builder::new()
        .prefix("agentsville-demo-")
        .tempdir()
        .map_err(|error| {
            Failure::precondition(format!("cannot make a temporary directory: {error}"))
        })?;
    let lifecycle = Lifecycle::new();
    // Ended from outside, it still leaves nothing behind.
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| {
        Failure::of(
            ErrorCode::Internal,
            format!("cannot listen for signals: {error}"),
        )
    })?;
    let outcome = tokio::select! {
        outcome = rehearse(app, arguments, directory.path(), &lifecycle) => outcome,
        _ = terminated.recv() => Err(Failure::Interrupted),
    };
    lifecycle.drain(CLOSING, std::future::pending()).await;
    let closed = directory.close().map_err(|error| {
        Failure::precondition(format!(
            "cannot remove the demo's temporary directory: {error}"
        ))
    });
    outcome.and(closed)
}

async fn rehearse(
    app: &App,
    arguments: &DemoArgs,
    directory: &Path,
    lifecycle: &Lifecycle,
) -> Result<(), Failure> {
    let board = NoticeBoard::hang(directory, lifecycle).await?;
    let rehearsal = Rehearsal::start(board.url(), lifecycle).await?;
    let settings = settings(app, directory, &board, &rehearsal)?;
    let village = compose::village(&settings, lifecycle, &app.clock, Arc::default()).await?;
    let model = arguments.model.as_deref().unwrap_or(Rehearsal::MODEL);
    let outcome = tell(app, &village, model, &board).await;
    // Whoever interrupts the demo wants it gone.
    lifecycle.drain(CLOSING, std::future::pending()).await;
    village.close().await;
    outcome
}

async fn tell(
    app: &App,
    village: &compose::Village,
    model: &str,
    board: &NoticeBoard,
) -> Result<(), Failure> {
    let server = Server::parse(&format!("http://{}", village.http))?;
    let token = Token {
        text: village.operator.token.clone(),
        origin: "the demo's own".to_owned(),
    };
    let client = Client::new(server, &token)?;
    let npc = serde_json::json!({ "name": NPC, "persona": PERSONA, "model": model });
    client.post(&["npcs"], &npc).await?;
    open_ledger(&client).await?;
    for what in ["tool:current_time", "tool:fetch_url", "mcp:Ledger"] {
        let grant = serde_json::json!({ "what": what });
        client.post(&["npcs", NPC, "grants"], &grant).await?;
    }
    let player = Player::of(model);
    if app.output.format() == Format::Text {
        app.output.line(&opening(player))?;
    }
    let text = format!(
        "What time is it, in UTC? Please read the notice board at {} too, and tell me what is in the {ACCOUNT}. And somebody told me to have you fetch {METADATA_URL} – try that last, and tell me how it went.",
        board.url()
    );
    let question = Question {
        npc: NPC,
        text: &text,
        conversation: None,
    };
    let answered = ask(&client, &app.output, &app.clock, &question).await?;
    let verdict = verdict(&app.output, answered);
    if app.output.format() == Format::Text && verdict.is_ok() {
        app.output.line(closing(player))?;
    }
    verdict
}

/// Registers the bundled MCP Server and tests it, as a person would before granting it.
async fn open_ledger(client: &Client) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Tested {
        ok: bool,
        #[serde(default)]
        sentence: String,
    }

    let program = std::env::current_exe().map_err(|error| {
        Failure::precondition(format!("cannot find the program of this process: {error}"))
    })?;
    let server = serde_json::json!({
        "name": SERVER, "transport": "stdio", "command": program.display().to_string(), "arguments": ["demo-mcp"],
    });
    client.post(&["mcp-servers"], &server).await?;
    let nothing = serde_json::json!({});
    let tested = client
        .post_patiently(&["mcp-servers", SERVER, "test"], &nothing)
        .await?;
    let tested: Tested = read(&tested)?;
    if tested.ok {
        return Ok(());
    }
    Err(Failure::precondition(format!(
        "the demo's own MCP Server does not work here: {}",
        tested.sentence
    )))
}

/// Who plays the NPC.
#[derive(Debug, Clone, Copy)]
enum Player<'m> {
    Script,
    Model(&'m str),
}

impl<'m> Player<'m> {
    fn of(model: &'m str) -> Self {
        if model == Rehearsal::MODEL {
            Self::Script
        } else {
            Self::Model(model)
        }
    }
}

fn opening(player: Player<'_>) -> String {
    let about_the_model = match player {
        Player::Script => {
            "The model is SCRIPTED: a small Provider in this process plays its lines over HTTP, so no key is needed, and\n\
             nothing here is intelligent. All else is what `agentsville` serves: the turn, the Grants, the guard, the gateway."
                .to_owned()
        }
        Player::Model(name) => format!("The model is {name}, a real one: what follows is its own."),
    };
    format!(
        "A Village for one turn, in a temporary directory. {NPC}, an NPC, was granted current_time, fetch_url, and an MCP\n\
         Server, which runs as a process of its own and was registered and tested first.\n{about_the_model}\n"
    )
}

const fn closing(player: Player<'_>) -> &'static str {
    match player {
        Player::Script => {
            "\nThe guard let one page through, by an exemption for exactly that host and port, and refused the other\n\
             before anything was connected to.\n\n\
             With a real model    OPENAI_API_KEY=… agentsville demo --model openai/gpt-5-mini\n\
             A Village that stays  agentsville"
        }
        Player::Model(_) => "\nA Village that stays  agentsville",
    }
}

#[derive(Debug, Serialize)]
struct Written<'a> {
    data_dir: String,
    edge: Listen,
    grpc: Listen,
    admin: Listen,
    egress: Listen,
    outbound: Outbound<'a>,
    providers: toml::Table,
}

#[derive(Debug, Serialize)]
struct Listen {
    listen: &'static str,
}

#[derive(Debug, Serialize)]
struct Outbound<'a> {
    allow: [Exemption; 1],
    ca_file: &'a Path,
}

#[derive(Debug, Serialize)]
struct Exemption {
    to: String,
    r#for: [&'static str; 1],
}

/// The settings of a Village that lives for one turn. Of a person's own only the Providers count.
fn settings(
    app: &App,
    directory: &Path,
    board: &NoticeBoard,
    rehearsal: &Rehearsal,
) -> Result<Settings, Failure> {
    let unwritable = |error: &dyn std::error::Error| {
        Failure::of(
            ErrorCode::Internal,
            format!("cannot write the demo's settings: {error}"),
        )
    };
    let own = app.settings()?;
    let mut providers: toml::Table = own.section("providers").map_err(Failure::precondition)?;
    let mut scripted = toml::Table::new();
    scripted.insert("wire".to_owned(), "chat-completions".into());
    scripted.insert("base_url".to_owned(), rehearsal.base_url().into());
    scripted.insert("key".to_owned(), "".into());
    providers.insert(Rehearsal::PROVIDER.to_owned(), scripted.into());
    let anywhere = || Listen {
        listen: "127.0.0.1:0",
    };
    let written = Written {
        data_dir: directory.join("data").display().to_string(),
        edge: anywhere(),
        grpc: anywhere(),
        admin: Listen { listen: "" },
        egress: Listen { listen: "" },
        outbound: Outbound {
            allow: [Exemption {
                to: board.host_and_port(),
                r#for: ["fetch"],
            }],
            ca_file: &board.authority,
        },
        providers,
    };
    let text = toml::to_string(&written).map_err(|error| unwritable(&error))?;
    let file = directory.join("demo.toml");
    // It may hold Provider keys: the directory is 0700, and goes when the demo ends.
    std::fs::write(&file, text).map_err(|error| unwritable(&error))?;
    Settings::load(Sources {
        file: Some(file),
        environment: Vec::new(),
    })
    .map_err(Failure::precondition)
}
