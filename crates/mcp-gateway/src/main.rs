//! The MCP gateway alone.

use std::{process::ExitCode, sync::Arc};

use kernel::{Secret, ServiceName};
use mcp_gateway::{Config, Deps};
use runtime::{BoxError, process};
use tokio_util::task::TaskTracker;
use vault::{SECRET_FILE, Vault};

fn main() -> ExitCode {
    if let Some(code) = reaper::child_main() {
        return code;
    }
    process::run(ServiceName::McpGateway, async |context| {
        let config: Config = context.settings.section("mcp")?;
        let vault = vault(&context)?;
        let redis: coordination::Settings = context.settings.section("redis")?;
        if redis.url.is_empty() {
            context.lifecycle.readiness().warn(
                "redis.url is empty: changes of MCP Servers are noticed after a minute instead of at once",
            );
        }
        let ended = context.lifecycle.hard();
        let coordination = coordination::connect(&redis.into(), &TaskTracker::new(), &ended)?;
        let deps = Deps {
            registry: context.peer(ServiceName::ToolRegistry)?,
            connector: mcp_gateway::connector(&context.settings, &context.lifecycle)?,
            vault: Arc::new(vault),
            signals: coordination.signals,
            program: std::env::current_exe()?,
            clock: context.clock,
        };
        Ok(mcp_gateway::build(config, deps, &context.lifecycle).await?)
    })
}

/// The vault under the root secret of the tool-registry: set, or in the data directory that both share. None is made here, since nothing that
/// the registry sealed could be read with it.
fn vault(context: &process::Context) -> Result<Vault, BoxError> {
    let set: Secret = context.settings.value("secret")?;
    if !set.is_empty() {
        return Ok(Vault::new(&set)?);
    }
    let data_dir = context.settings.data_dir()?;
    if !data_dir.join(SECRET_FILE).exists() {
        return Err("mcp-gateway needs the root secret that tool-registry seals credentials with: set BETTER_AUTH_SECRET to the same value for both".into());
    }
    Ok(Vault::new(&vault::load_or_create_secret(&data_dir)?)?)
}
