//! The tool-registry alone.

use std::process::ExitCode;

use kernel::ServiceName;
use runtime::process;
use store::Store;
use tokio_util::task::TaskTracker;
use tool_registry::{Config, Deps};

fn main() -> ExitCode {
    process::run(ServiceName::ToolRegistry, async |context| {
        let database: store::Settings = context.settings.section("database")?;
        let database = database.in_dir(context.settings.data_dir()?);
        let ended = context.lifecycle.hard();
        let store = Store::connect(&database, &TaskTracker::new(), ended).await?;
        let config = Config::from_settings(&context.settings)?;
        let deps = Deps {
            store,
            clock: context.clock,
        };
        Ok(tool_registry::build(config, deps, &context.lifecycle).await?)
    })
}
