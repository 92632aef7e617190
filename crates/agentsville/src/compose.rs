//! The composition root: how a Village is put together. It reads from top to bottom, and what is needed comes first: store →
//! registry → gateway → fetch → turns → edge.
//!
//! A service that `peers` gives an address to is not run here but called there; everything else runs in this process, behind the same
//! layers, and can be called on the gRPC listener too.

mod house;
mod settings;

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use coordination::Coordination;
use kernel::{Clock, ServiceName};
use runtime::{Lifecycle, Settings, admin};
use store::{Engine, Store};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use vault::Vault;

use crate::{
    data_dir::{self, OperatorToken},
    failure::Failure,
};
use house::House;

pub use settings::{Sections, check};

/// How long the database may take to finish what it was handed.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// A Village that is served.
#[derive(Debug)]
pub struct Village {
    /// Where the edge listens.
    pub http: SocketAddr,
    /// Where gRPC listens.
    pub grpc: SocketAddr,
    /// Where the admin listener is, if there is one.
    pub admin: Option<SocketAddr>,
    /// Where traffic of Sandboxes leaves, if it does so here.
    pub egress: Option<SocketAddr>,
    /// The Operator's token, and where it is kept.
    pub operator: OperatorToken,
    foundations: Foundations,
}

impl Village {
    /// Closes the database, once the services have ended: what they handed over is still written.
    pub async fn close(self) {
        self.foundations.close().await;
    }
}

/// Puts a Village together and serves it until `lifecycle` ends. Whoever ends it then calls [`Village::close`].
pub async fn village(
    settings: &Settings,
    lifecycle: &Lifecycle,
    clock: &Arc<dyn Clock>,
    metrics: Arc<prometheus::Registry>,
) -> Result<Village, Failure> {
    let foundations = Foundations::default();
    let put_together = put_together(settings, lifecycle, clock, metrics, foundations.clone());
    match Box::pin(put_together).await {
        Ok(village) => Ok(village),
        Err(failure) => {
            // What was begun ends before the failure is told: its listeners and its lock are free again.
            lifecycle
                .drain(Duration::ZERO, std::future::ready(()))
                .await;
            foundations.close().await;
            Err(failure)
        }
    }
}

async fn put_together(
    settings: &Settings,
    lifecycle: &Lifecycle,
    clock: &Arc<dyn Clock>,
    metrics: Arc<prometheus::Registry>,
    foundations: Foundations,
) -> Result<Village, Failure> {
    let starting = lifecycle.readiness().task("start");
    let sections = Sections::read(settings)?;
    let data_dir = data_dir::prepare(settings)?;
    let store = foundations.store(&sections, &data_dir).await?;
    let admin = match sections.admin {
        Some(address) => Some(
            admin::listen(address, lifecycle, metrics)
                .await
                .map_err(|error| house::not_listening("ADMIN", error))?,
        ),
        None => None,
    };
    store::migrate::<migrations::Migrator>(&store, migrations::SCHEMA)
        .await
        .map_err(Failure::precondition)?;
    let vault = Arc::new(settings::vault(settings, &data_dir)?);
    let keeper = tool_registry::Config::from_settings(settings).map_err(Failure::precondition)?;
    let operator = OperatorToken::of(keeper.operator_token.clone(), settings, &data_dir)?;
    let coordination = foundations.coordination(&sections)?;
    let providers =
        llm::Providers::from_config(sections.providers.clone()).map_err(Failure::precondition)?;

    let mut house = House::new(settings, &sections, lifecycle, clock)?;
    let connector = fetch_proxy::connector(settings, lifecycle).map_err(Failure::precondition)?;

    let registry = house
        .at(ServiceName::ToolRegistry, async || {
            let deps = tool_registry::Deps {
                store: store.clone(),
                clock: Arc::clone(clock),
                vault: Arc::clone(&vault),
                connector: connector.clone(),
                signals: Arc::clone(&coordination.signals),
            };
            Ok(tool_registry::build(keeper, deps, lifecycle).await?)
        })
        .await?;
    let gateway_registry = house.peer(
        ServiceName::McpGateway,
        ServiceName::ToolRegistry,
        &registry,
    )?;
    let gateway = house
        .at(ServiceName::McpGateway, async || {
            let deps = mcp_gateway::Deps {
                registry: gateway_registry,
                connector: connector.clone(),
                vault,
                signals: Arc::clone(&coordination.signals),
                clock: Arc::clone(clock),
                program: std::env::current_exe()?,
            };
            Ok(mcp_gateway::build(sections.mcp.clone(), deps, lifecycle).await?)
        })
        .await?;
    let fetch = house
        .at(ServiceName::FetchProxy, async || {
            let deps = fetch_proxy::Deps {
                connector: connector.clone(),
                reader: fetch_proxy::reader()?,
                clock: Arc::clone(clock),
            };
            Ok(fetch_proxy::build(sections.fetch.clone(), deps, lifecycle))
        })
        .await?;
    let egress = if house.hosts(ServiceName::FetchProxy) {
        let deps = fetch_proxy::egress::Deps {
            connector: connector.clone(),
            trust: house.trust(),
            keys: house.keys(),
            tls: sections.tls.server().map_err(Failure::precondition)?,
        };
        fetch_proxy::egress::listen(sections.egress.clone(), deps, lifecycle)
            .await
            .map_err(|error| house::not_listening("EGRESS", error))?
    } else {
        None
    };
    let turns_registry = house.peer(
        ServiceName::TurnOrchestrator,
        ServiceName::ToolRegistry,
        &registry,
    )?;
    let turns_fetch = house.peer(
        ServiceName::TurnOrchestrator,
        ServiceName::FetchProxy,
        &fetch,
    )?;
    let turns_gateway = house.peer(
        ServiceName::TurnOrchestrator,
        ServiceName::McpGateway,
        &gateway,
    )?;
    let turns = house
        .at(ServiceName::TurnOrchestrator, async || {
            let deps = turn_orchestrator::Deps {
                store: store.clone(),
                coordination,
                providers,
                registry: turns_registry,
                fetch: Some(turns_fetch),
                gateway: Some(turns_gateway),
                clock: Arc::clone(clock),
            };
            Ok(turn_orchestrator::build(
                sections.turn.clone(),
                deps,
                lifecycle,
            )?)
        })
        .await?;
    let deps = edge::Deps {
        registry: house.peer(ServiceName::Edge, ServiceName::ToolRegistry, &registry)?,
        turns: house.peer(ServiceName::Edge, ServiceName::TurnOrchestrator, &turns)?,
        gateway: Some(house.peer(ServiceName::Edge, ServiceName::McpGateway, &gateway)?),
        clock: Arc::clone(clock),
    };
    let edge = edge::build(sections.edge.clone(), deps, lifecycle.clone())
        .map_err(Failure::precondition)?;

    let grpc = house.listen().await?;
    let http = edge.listen().await.map_err(Failure::precondition)?;
    drop(starting);
    Ok(Village {
        http,
        grpc,
        admin,
        egress,
        operator,
        foundations,
    })
}

/// Brings the database to this release's schema, and says which database it is.
pub async fn migrate(settings: &Settings) -> Result<&'static str, Failure> {
    let sections = Sections::read(settings)?;
    let data_dir = data_dir::prepare(settings)?;
    let foundations = Foundations::default();
    let migrated = async {
        let store = foundations.store(&sections, &data_dir).await?;
        store::migrate::<migrations::Migrator>(&store, migrations::SCHEMA)
            .await
            .map_err(Failure::precondition)?;
        Ok(match store.engine() {
            Engine::Sqlite => "SQLite",
            Engine::Postgres => "PostgreSQL",
        })
    }
    .await;
    foundations.close().await;
    migrated
}

/// Counts the sealed rows that the root secret reads, in a Village that is not served; none where there is none yet. Nothing is made.
pub async fn count_sealed(settings: &Settings, vault: &Vault) -> Result<(u64, u64), Failure> {
    let sections = Sections::read(settings)?;
    let data_dir = settings.data_dir().map_err(Failure::precondition)?;
    if sections.database.url.is_empty() && !data_dir.join(store::SQLITE_FILE).exists() {
        return Ok((0, 0));
    }
    let foundations = Foundations::default();
    let counted = async {
        let store = foundations.store(&sections, &data_dir).await?;
        let status = tool_registry::count_sealed(&store, vault)
            .await
            .map_err(Failure::precondition)?;
        Ok((status.readable, status.unreadable))
    }
    .await;
    foundations.close().await;
    counted
}

/// What outlives the services, because they write to the last.
#[derive(Debug, Clone, Default)]
struct Foundations {
    tasks: TaskTracker,
    ended: CancellationToken,
}

impl Foundations {
    async fn store(&self, sections: &Sections, data_dir: &Path) -> Result<Store, Failure> {
        let config = sections.database.clone().in_dir(data_dir.to_owned());
        Store::connect(&config, &self.tasks, self.ended.clone())
            .await
            .map_err(Failure::precondition)
    }

    fn coordination(&self, sections: &Sections) -> Result<Coordination, Failure> {
        let config = coordination::Config::redis(sections.redis_url.clone());
        coordination::connect(&config, &self.tasks, &self.ended).map_err(Failure::precondition)
    }

    async fn close(&self) {
        self.ended.cancel();
        self.tasks.close();
        if tokio::time::timeout(LAST_WRITES, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("the database did not close in time");
        }
    }
}
