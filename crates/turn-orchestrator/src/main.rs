//! The turn-orchestrator alone.

use std::process::ExitCode;

use kernel::ServiceName;
use runtime::process;

fn main() -> ExitCode {
    process::run(ServiceName::TurnOrchestrator, async |context| {
        let deps = turn_orchestrator::Deps::open(&context).await?;
        let config = context.settings.section("turn")?;
        Ok(turn_orchestrator::build(config, deps, &context.lifecycle)?)
    })
}
