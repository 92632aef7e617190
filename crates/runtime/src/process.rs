//! The `main` of every service that runs alone.

mod arguments;

use std::{collections::BTreeMap, io::Write as _, process::ExitCode, sync::Arc, time::Duration};

use kernel::{CallerKind, Clock, Secret, ServiceName, SystemClock};
use serde::Deserialize;

use crate::{
    BoxError, GrpcServer, Host, Issuer, Lifecycle, Peer, ServerLayers, Settings, SettingsError,
    Signals, SigningKey, Sources, Stopped, Transport, Trust,
    admin::{self, AdminSettings},
    host::{GrpcSettings, Keys, parse_listen},
    lifecycle::panic_message,
    status,
    telemetry::{self, Telemetry, TelemetrySettings},
    tls::{ClientTls, TlsSettings},
    token::{KeyError, default_mints},
};
use arguments::Arguments;

/// It ran and was stopped.
const DONE: u8 = 0;
/// It could not start, or failed.
const FAILED: u8 = 1;
/// Wrong usage.
const USAGE: u8 = 2;

/// The section `keys`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeysSettings {
    /// This service's private key; empty: made at the start.
    pub private: Secret,
    /// Whom it trusts, by the name that tokens carry as issuer.
    pub trust: BTreeMap<String, TrustSettings>,
}

/// One entry of `keys.trust`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustSettings {
    /// Base64 of the 32 bytes, or PEM.
    pub public_key: String,
    /// Kinds of caller; empty: what that service needs, and Players only for others.
    #[serde(default)]
    pub mints: Vec<CallerKind>,
}

impl KeysSettings {
    /// Whether the key is set or made at the start.
    pub fn origin(&self) -> Keys {
        if self.private.is_empty() {
            Keys::MadeAtStart
        } else {
            Keys::Set
        }
    }

    /// The key that is set, or a new one, and which of both it is.
    pub fn signing_key(&self) -> Result<(SigningKey, Keys), KeyError> {
        if self.private.is_empty() {
            Ok((SigningKey::generate()?, Keys::MadeAtStart))
        } else {
            Ok((SigningKey::from_setting(&self.private)?, Keys::Set))
        }
    }

    /// Adds every entry of `keys.trust`.
    pub fn add_to(&self, trust: &Trust) -> Result<(), KeyError> {
        for (issuer, entry) in &self.trust {
            let mints = if entry.mints.is_empty() {
                default_mints(issuer)
            } else {
                &entry.mints
            };
            trust.add(issuer, &entry.public_key, mints)?;
        }
        Ok(())
    }
}

/// What a service is built from.
#[derive(Debug, Clone)]
pub struct Context {
    /// Which service this is.
    pub name: ServiceName,
    /// All settings.
    pub settings: Settings,
    /// Tasks, readiness, the end.
    pub lifecycle: Lifecycle,
    /// The machine's clock.
    pub clock: Arc<dyn Clock>,
    /// Mints this service's caller tokens.
    pub issuer: Arc<Issuer>,
    /// Whose tokens are believed.
    pub trust: Arc<Trust>,
    /// Where metrics are registered.
    pub metrics: Arc<prometheus::Registry>,
    tls: Option<ClientTls>,
}

impl Context {
    /// A service that this one calls. The error names the setting when the address is missing.
    pub fn peer(&self, service: ServiceName) -> Result<Peer, BoxError> {
        let Some(url) = self.settings.peer(service)? else {
            let key = service.as_str().replace('-', "_");
            return Err(Box::new(SettingsError::Missing {
                hint: format!(
                    "{} needs {service}: set AGENTSVILLE__PEERS__{}=http://name:port",
                    self.name,
                    key.to_ascii_uppercase()
                ),
                key: format!("peers.{key}"),
            }));
        };
        let transport = Transport::remote(&url, self.tls.as_ref())?;
        Ok(Peer::new(transport, Arc::clone(&self.issuer), service))
    }
}

/// Installs the TLS provider of the process: ring. Every `main` does it first; a second time changes nothing.
pub fn install_crypto() {
    // An error says that one is installed already.
    drop(rustls::crypto::ring::default_provider().install_default());
}

/// Keeps other processes of the same user from reading this one's memory, and its secrets out of core dumps.
pub fn protect_memory() {
    let behavior = rustix::process::DumpableBehavior::NotDumpable;
    if let Err(error) = rustix::process::set_dumpable_behavior(behavior) {
        tracing::warn!(%error, "PR_SET_DUMPABLE could not be set: secrets may reach core dumps");
    }
}

/// Has panics logged like everything else, with the place where they happened, instead of as plain text between the lines.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!(
            at = panic.location().map(tracing::field::display),
            panic = panic_message(panic.payload()),
            "a panic"
        );
    }));
}

/// The environment, as settings take it. Text that is not UTF-8 is replaced by marks, which no setting accepts.
pub fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .map(|(name, value)| {
            (
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into_owned(),
            )
        })
        .collect()
}

/// Runs one service alone: reads `--config` and the environment, sets up telemetry, keys, the admin listener and the gRPC listener, and runs until
/// it is stopped. Exit codes: 0 stopped, 1 could not start or failed, 2 wrong usage.
pub fn run<F, B>(name: ServiceName, build: F) -> ExitCode
where
    F: FnOnce(Context) -> B,
    B: Future<Output = Result<GrpcServer, BoxError>>,
{
    let config = match Arguments::parse(std::env::args_os().skip(1)) {
        Ok(Arguments::Run { config }) => config,
        Ok(Arguments::Help) => {
            // A closed stdout is the reader's choice.
            drop(std::io::stdout().write_all(arguments::help(name).as_bytes()));
            return ExitCode::from(DONE);
        }
        Err(error) => {
            complain(name, &error.to_string());
            return ExitCode::from(USAGE);
        }
    };
    install_crypto();
    protect_memory();
    let sources = Sources {
        file: config,
        environment: environment(),
    };
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(BoxError::from)
        .and_then(|runtime| runtime.block_on(start(name, sources, build)));
    match outcome {
        Ok(()) => ExitCode::from(DONE),
        Err(error) => {
            complain(name, &status::chain(&*error));
            ExitCode::from(FAILED)
        }
    }
}

/// Says why on stderr, in plain text: a person or an orchestrator reads it.
fn complain(name: ServiceName, sentence: &str) {
    let sentence = kernel::strip_control(sentence);
    // There is nowhere else to say it.
    drop(writeln!(std::io::stderr(), "{name}: {sentence}"));
}

async fn start<F, B>(name: ServiceName, sources: Sources, build: F) -> Result<(), BoxError>
where
    F: FnOnce(Context) -> B,
    B: Future<Output = Result<GrpcServer, BoxError>>,
{
    let settings = Settings::load(sources)?;
    let telemetry_settings: TelemetrySettings = settings.section("telemetry")?;
    let telemetry = telemetry::init(&telemetry_settings, name.as_str())?;
    log_panics();
    let outcome = serve(name, settings, &telemetry, build).await;
    if let Err(error) = &outcome {
        tracing::error!(error = status::chain(&**error), "stopping after a failure");
    }
    telemetry.shutdown().await;
    outcome
}

async fn serve<F, B>(
    name: ServiceName,
    settings: Settings,
    telemetry: &Telemetry,
    build: F,
) -> Result<(), BoxError>
where
    F: FnOnce(Context) -> B,
    B: Future<Output = Result<GrpcServer, BoxError>>,
{
    let mut signals = Signals::listen()?;
    let grpc: GrpcSettings = settings.section("grpc")?;
    let listen = parse_listen("grpc.listen", &grpc.listen)?;
    let lifecycle = Lifecycle::new();
    let starting = lifecycle.readiness().task("start");
    let admin: AdminSettings = settings.section("admin")?;
    if !admin.listen.is_empty() {
        let address = parse_listen("admin.listen", &admin.listen)?;
        admin::listen(address, &lifecycle, telemetry.metrics()).await?;
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let keys: KeysSettings = settings.section("keys")?;
    let (key, origin) = keys.signing_key()?;
    let issuer = Arc::new(Issuer::new(name, key, Arc::clone(&clock)));
    let trust = Trust::new(Arc::clone(&clock));
    keys.add_to(&trust)?;
    // The edge is called over HTTP alone, with tokens of its own.
    if trust.is_empty() && name != ServiceName::Edge {
        lifecycle
            .readiness()
            .warn("keys.trust is empty: nobody can call this service");
    }
    let trust = Arc::new(trust);
    let tls: TlsSettings = settings.section("tls")?;
    let server_tls = tls.server()?;
    let context = Context {
        name,
        settings,
        lifecycle: lifecycle.clone(),
        clock,
        issuer,
        trust: Arc::clone(&trust),
        metrics: telemetry.metrics(),
        tls: tls.client()?,
    };
    let server = tokio::select! {
        server = build(context) => server?,
        // Stopped before it began: there is nothing to drain.
        () = signals.next() => return Ok(()),
    };
    let layers = ServerLayers {
        trust,
        longest_call: Duration::from_secs(grpc.longest_call_seconds),
    };
    Host::new(lifecycle.clone(), origin)
        .with_settings(&grpc)
        .with_tls(server_tls)
        .add(server.layered(layers))
        .listen(listen)
        .await?;
    drop(starting);
    let grace = Duration::from_secs(grpc.drain_seconds);
    match lifecycle.run_until(signals, grace).await {
        Stopped::Drained => {
            tracing::info!("stopped");
            Ok(())
        }
        Stopped::CutOff => {
            tracing::warn!("stopped; some calls were cut off");
            Ok(())
        }
        Stopped::Failed(reason) => Err(reason.into()),
    }
}
