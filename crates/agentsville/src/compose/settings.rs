//! The settings of a whole Village, read before anything is opened.

use std::{collections::HashMap, net::SocketAddr, path::Path};

use kernel::{ErrorCode, Secret, ServiceName};
use llm::{ModelName, ProviderConfig, Providers};
use runtime::{
    Settings, Transport,
    admin::AdminSettings,
    exposure,
    host::{GrpcSettings, HostError, parse_listen},
    process::KeysSettings,
    telemetry::TelemetrySettings,
    tls::TlsSettings,
};
use tokio_util::task::TaskTracker;
use vault::Vault;

use crate::failure::Failure;

/// Every section that a Village in one process reads, in the types of those who use them.
#[derive(Debug)]
pub struct Sections {
    /// `edge`.
    pub edge: edge::Config,
    /// `grpc`.
    pub grpc: GrpcSettings,
    /// Where gRPC listens.
    pub grpc_listen: SocketAddr,
    /// Where the admin listener is, if there is to be one.
    pub admin: Option<SocketAddr>,
    /// `keys`.
    pub keys: KeysSettings,
    /// `tls`.
    pub tls: TlsSettings,
    /// `database`.
    pub database: store::Settings,
    /// `redis.url`.
    pub redis_url: Secret,
    /// `providers`.
    pub providers: HashMap<String, ProviderConfig>,
    /// `mcp`.
    pub mcp: mcp_gateway::Config,
    /// `fetch`.
    pub fetch: fetch_proxy::Config,
    /// `egress`.
    pub egress: fetch_proxy::egress::Config,
    /// `turn`.
    pub turn: turn_orchestrator::Config,
    /// `telemetry`.
    pub telemetry: TelemetrySettings,
}

impl Sections {
    /// Reads and judges them. Nothing is opened, made or bound.
    pub fn read(settings: &Settings) -> Result<Self, Failure> {
        let read = || -> Result<Self, runtime::BoxError> {
            let grpc: GrpcSettings = settings.section("grpc")?;
            let admin: AdminSettings = settings.section("admin")?;
            let turn: turn_orchestrator::Config = settings.section("turn")?;
            turn.check()?;
            Ok(Self {
                edge: edge::Config::of(settings)?,
                grpc_listen: parse_listen("grpc.listen", &grpc.listen)?,
                grpc,
                admin: match admin.listen.as_str() {
                    "" => None,
                    listen => Some(parse_listen("admin.listen", listen)?),
                },
                keys: settings.section("keys")?,
                tls: settings.section("tls")?,
                database: settings.section("database")?,
                redis_url: settings.value("redis.url")?,
                providers: settings.section("providers")?,
                mcp: settings.section("mcp")?,
                fetch: settings.section("fetch")?,
                egress: settings.section("egress")?,
                turn,
                telemetry: settings.section("telemetry")?,
            })
        };
        let sections = read().map_err(Failure::precondition)?;
        // A section of `outbound` that cannot be read must not wait for the first fetch to say so.
        settings
            .section::<outbound::Config>("outbound")
            .map_err(Failure::precondition)?;
        let providers =
            Providers::from_config(sections.providers.clone()).map_err(Failure::precondition)?;
        sections.refuse_a_default_model_of_nobody(&providers)?;
        sections.refuse_databases_without_a_driver()?;
        sections.refuse_exposed_grpc()?;
        sections.refuse_an_exposed_way_out(settings)?;
        sections.refuse_replicas_that_share_nothing(settings)?;
        Ok(sections)
    }

    fn refuse_a_default_model_of_nobody(&self, providers: &Providers) -> Result<(), Failure> {
        if self.turn.default_model.is_empty() {
            return Ok(());
        }
        let wrong = |error: &dyn std::error::Error| {
            let sentence = format!("turn.default_model: {error}");
            Failure::of(ErrorCode::FailedPrecondition, sentence)
        };
        let model: ModelName = self
            .turn
            .default_model
            .parse()
            .map_err(|error| wrong(&error))?;
        providers
            .resolve(&model)
            .map(drop)
            .map_err(|error| wrong(&error))
    }

    /// The addresses are judged by their schemes alone: they may hold passwords, and only their drivers read the rest.
    fn refuse_databases_without_a_driver(&self) -> Result<(), Failure> {
        let scheme = |url: &Secret| {
            let scheme = url.expose().split("://").next().unwrap_or_default();
            scheme.to_owned()
        };
        let (database, redis) = (&self.database.url, &self.redis_url);
        if !database.is_empty() && !matches!(&*scheme(database), "postgres" | "postgresql") {
            return Err(Failure::precondition(store::Error::Address));
        }
        if !redis.is_empty() && !scheme(redis).starts_with("redis") {
            return Err(Failure::precondition(coordination::Error::Address));
        }
        Ok(())
    }

    /// The host refuses it too, but only when everything else is open already.
    fn refuse_exposed_grpc(&self) -> Result<(), Failure> {
        if self.keys.private.is_empty() && !exposure::is_loopback(self.grpc_listen) {
            return Err(Failure::precondition(HostError::KeysNotSet {
                address: self.grpc_listen,
            }));
        }
        Ok(())
    }

    /// Its address is read too. Where fetch-proxy runs elsewhere, this process has no such listener.
    fn refuse_an_exposed_way_out(&self, settings: &Settings) -> Result<(), Failure> {
        let elsewhere = settings
            .peer(ServiceName::FetchProxy)
            .map_err(Failure::precondition)?;
        if elsewhere.is_some() {
            return Ok(());
        }
        self.egress
            .refuse_exposed(self.keys.origin())
            .map_err(Failure::precondition)
    }

    fn refuse_replicas_that_share_nothing(&self, settings: &Settings) -> Result<(), Failure> {
        let replicas: u32 = settings.value("replicas").map_err(Failure::precondition)?;
        if replicas == 0 {
            return Err(Failure::precondition(
                "replicas is 0; a Village has at least 1 of each service",
            ));
        }
        if replicas == 1 {
            return Ok(());
        }
        let missing = match (self.database.url.is_empty(), self.redis_url.is_empty()) {
            (false, false) => None,
            (true, true) => Some("DATABASE_URL (PostgreSQL) and REDIS_URL are"),
            (true, false) => Some("DATABASE_URL (PostgreSQL) is"),
            (false, true) => Some("REDIS_URL is"),
        };
        if let Some(missing) = missing {
            return Err(Failure::precondition(format!(
                "replicas is {replicas}, and {missing} not set: replicas must share their database and their events; set both, or replicas = 1"
            )));
        }
        for setting in ["secret", "operator_token"] {
            let value: Secret = settings.value(setting).map_err(Failure::precondition)?;
            if value.is_empty() {
                return Err(Failure::precondition(format!(
                    "replicas is {replicas}, and {setting} is not set: each replica would make its own; set one for all of them"
                )));
            }
        }
        Ok(())
    }
}

/// Whether a Village would start with these settings, as far as can be said without opening anything but the files that they name.
pub fn check(settings: &Settings) -> Result<(), Failure> {
    let sections = Sections::read(settings)?;
    sections.telemetry.check().map_err(Failure::precondition)?;
    sections.keys.signing_key().map_err(Failure::precondition)?;
    sections.tls.server().map_err(Failure::precondition)?;
    let tls = sections.tls.client().map_err(Failure::precondition)?;
    // Nobody calls the edge, so that it is nobody's peer.
    let called = ServiceName::ALL
        .into_iter()
        .filter(|service| *service != ServiceName::Edge);
    for service in called {
        let peer = settings.peer(service).map_err(Failure::precondition)?;
        if let Some(url) = peer {
            Transport::remote(&url, tls.as_ref()).map_err(Failure::precondition)?;
        }
    }
    let outbound: outbound::Config = settings
        .section("outbound")
        .map_err(Failure::precondition)?;
    outbound::Connector::new(&outbound, TaskTracker::new()).map_err(Failure::precondition)?;
    let token: Secret = settings
        .value("operator_token")
        .map_err(Failure::precondition)?;
    tool_registry::check_operator_token(&token).map_err(Failure::precondition)?;
    let secret: Secret = settings.value("secret").map_err(Failure::precondition)?;
    if !secret.is_empty() {
        Vault::new(&secret).map_err(Failure::precondition)?;
    }
    Ok(())
}

/// The vault under the root secret: `secret`, else the one of the data directory, which is made at the first start.
pub(crate) fn vault(settings: &Settings, data_dir: &Path) -> Result<Vault, Failure> {
    let set: Secret = settings.value("secret").map_err(Failure::precondition)?;
    let secret = if set.is_empty() {
        vault::load_or_create_secret(data_dir).map_err(Failure::precondition)?
    } else {
        set
    };
    Vault::new(&secret).map_err(Failure::precondition)
}
