//! The tool-registry alone.

use std::{process::ExitCode, sync::Arc};

use kernel::{Secret, ServiceName};
use outbound::Connector;
use runtime::{listeners, process};
use store::Store;
use tokio_util::task::TaskTracker;
use tool_registry::{Config, Deps};
use vault::Vault;

fn main() -> ExitCode {
    process::run(ServiceName::ToolRegistry, async |context| {
        let database: store::Settings = context.settings.section("database")?;
        let data_dir = context.settings.data_dir()?;
        let database = database.in_dir(data_dir.clone());
        let ended = context.lifecycle.hard();
        let store = Store::connect(&database, &TaskTracker::new(), ended.clone()).await?;
        let secret: Secret = context.settings.value("secret")?;
        let secret = if secret.is_empty() {
            vault::load_or_create_secret(&data_dir)?
        } else {
            secret
        };
        let connector = Connector::new(
            &context.settings.section("outbound")?,
            context.lifecycle.tracker().clone(),
        )?;
        let guarded = connector.clone();
        listeners::of_the_village(&context.settings, &context.lifecycle, move |address| {
            guarded.guard().protect_listener(address);
        })?;
        let redis: coordination::Settings = context.settings.section("redis")?;
        let coordination =
            coordination::connect(&redis.into(), context.lifecycle.tracker(), &ended)?;
        let config = Config::from_settings(&context.settings)?;
        let deps = Deps {
            store,
            clock: context.clock,
            vault: Arc::new(Vault::new(&secret)?),
            connector,
            signals: coordination.signals,
        };
        Ok(tool_registry::build(config, deps, &context.lifecycle).await?)
    })
}
