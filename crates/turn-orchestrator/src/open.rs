//! What the service needs when it runs alone, opened as the settings say.

use std::{collections::HashMap, sync::Arc};

use kernel::{Secret, ServiceName};
use llm::{ProviderConfig, Providers};
use runtime::{BoxError, process::Context};
use store::Store;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::Deps;

impl Deps {
    /// Opens the database, the log and the Providers of a process that runs this service alone. The schema is checked, and never
    /// changed.
    ///
    /// # Errors
    /// A setting that cannot be used, a database that does not answer or has another schema.
    pub async fn open(context: &Context) -> Result<Self, BoxError> {
        let settings = &context.settings;
        // Turns settle after the hard stop, so neither the store nor the log ends with the lifecycle: they end with the process.
        let (tracker, never) = (TaskTracker::new(), CancellationToken::new());
        let config = store::Config {
            url: settings.value::<Secret>("database.url")?,
            data_dir: settings.data_dir()?,
            connections: settings.value("database.max_connections")?,
        };
        let store = Store::connect(&config, &tracker, never.clone()).await?;
        store::check_schema(&store, migrations::SCHEMA).await?;
        let redis = coordination::Config::redis(settings.value::<Secret>("redis.url")?);
        let coordination = coordination::connect(&redis, &tracker, &never)?;
        let providers: HashMap<String, ProviderConfig> = settings.section("providers")?;
        // Without a fetch-proxy the Tool is unavailable, and says so.
        let fetch = match settings.peer(ServiceName::FetchProxy)? {
            Some(_) => Some(context.peer(ServiceName::FetchProxy)?),
            None => None,
        };
        // The same holds for MCP Servers.
        let gateway = match settings.peer(ServiceName::McpGateway)? {
            Some(_) => Some(context.peer(ServiceName::McpGateway)?),
            None => None,
        };
        Ok(Self {
            store,
            coordination,
            providers: Providers::from_config(providers)?,
            registry: context.peer(ServiceName::ToolRegistry)?,
            fetch,
            gateway,
            clock: Arc::clone(&context.clock),
        })
    }
}
