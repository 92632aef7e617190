//! From a command line to an exit code.

use std::{ffi::OsString, process::ExitCode, sync::Arc};

use clap::Parser as _;
use kernel::{Clock, ErrorCode, SystemClock};
use runtime::{Settings, Sources};

use crate::{
    cli::{Cli, Command, DEFAULT_SERVER, Global, asks_for_json},
    client::{Client, Server, token},
    commands,
    environment::Environment,
    failure::{Failure, Problem},
    output::{Format, Output},
    render::shell_word,
};

/// What every command can use.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) global: Global,
    pub(crate) environment: Environment,
    pub(crate) output: Output,
    pub(crate) clock: Arc<dyn Clock>,
    /// How the program was called, for commands that a person can copy.
    pub(crate) program: String,
}

impl App {
    /// How a person would call the program again for the same Village, up to the command.
    pub(crate) fn invocation(&self) -> String {
        let program = shell_word(&self.program);
        if self.global.server == DEFAULT_SERVER {
            return program;
        }
        format!("{program} --server {}", shell_word(&self.global.server))
    }

    /// The settings: defaults, `--config`, the environment.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        Settings::load(self.sources()).map_err(Failure::precondition)
    }

    /// Where the settings come from.
    pub(crate) fn sources(&self) -> Sources {
        Sources {
            file: self.global.config.clone(),
            environment: self.environment.variables().to_vec(),
        }
    }

    /// A client of the Village that `--server` names.
    pub(crate) fn village(&self) -> Result<Client, Failure> {
        let server = Server::parse(&self.global.server)?;
        let token = token(&server, self.environment.get("AGENTSVILLE_TOKEN"), || {
            self.settings()
        })?;
        Client::new(server, &token)
    }
}

/// Does what a command line says. Arguments and environment are handed in, so that nothing else reads them.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let environment = Environment::of(environment);
    let format = if asks_for_json(&arguments) {
        Format::Json
    } else {
        Format::Text
    };
    let output = Output::new(format, &environment);
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return misread(&output, &error),
    };
    let app = App {
        global: cli.global,
        environment,
        output,
        clock: Arc::new(SystemClock),
        program: arguments.first().map_or_else(
            || "agentsville".to_owned(),
            |program| program.to_string_lossy().into_owned(),
        ),
    };
    let done = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(tokio) => {
            let done = tokio.block_on(dispatch(&app, cli.command.unwrap_or(Command::Serve)));
            // What is left are blocking reads, such as of a terminal, and nobody waits for those.
            tokio.shutdown_background();
            done
        }
        Err(error) => Err(Failure::of(
            ErrorCode::Internal,
            format!("cannot start threads: {error}"),
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(problem) = failure.problem() {
                // Where standard error cannot be written to, the exit code has to do.
                app.output.problem(problem).unwrap_or_default();
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Help and version are no errors; everything else that clap says is wrong usage.
fn misread(output: &Output, error: &clap::Error) -> ExitCode {
    let code = u8::try_from(error.exit_code()).unwrap_or(2);
    let printed = if output.format() == Format::Json && error.use_stderr() {
        let text = error.to_string();
        let sentence = text
            .strip_prefix("error: ")
            .unwrap_or(&text)
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
            .collect::<Vec<_>>()
            .join("; ");
        output.problem(&Problem::new(ErrorCode::InvalidArgument, sentence))
    } else {
        error.print()
    };
    // A reader that left, again, changes nothing about what was asked.
    printed.unwrap_or_default();
    ExitCode::from(code)
}

async fn dispatch(app: &App, command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve => Box::pin(commands::serve::run(app)).await,
        Command::Migrate => commands::migrate::run(app).await,
        Command::CheckConfig => commands::config::check(app),
        Command::Healthcheck => commands::healthcheck::run(app).await,
        Command::Demo(arguments) => Box::pin(commands::demo::run(app, &arguments)).await,
        Command::Openapi => commands::openapi::run(app),
        Command::Keys => commands::keys::run(app),
        Command::Secrets(command) => commands::secrets::run(app, &command).await,
        Command::Npc(command) => commands::npc::run(app, &command).await,
        Command::Grant(command) => commands::grant::run(app, &command).await,
        Command::Mcp(command) => commands::mcp::run(app, &command).await,
        Command::Player(command) => commands::player::run(app, &command).await,
        Command::Audit(command) => commands::audit::run(app, &command).await,
        Command::Chat(arguments) => commands::chat::run(app, &arguments).await,
        Command::Conversation(command) => commands::conversation::run(app, &command).await,
        Command::Turn(command) => commands::turn::run(app, &command).await,
        Command::Guard(command) => commands::guard::run(app, &command).await,
        Command::DemoMcp => commands::demo_mcp::run(),
    }
}
