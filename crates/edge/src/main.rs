//! The edge alone: its peers are other processes.

use std::process::ExitCode;

use kernel::ServiceName;
use runtime::{GrpcServer, process};

fn main() -> ExitCode {
    process::run(ServiceName::Edge, |context| async move {
        let gateway = context
            .settings
            .peer(ServiceName::McpGateway)?
            .map(|_url| context.peer(ServiceName::McpGateway))
            .transpose()?;
        let deps = edge::Deps {
            registry: context.peer(ServiceName::ToolRegistry)?,
            turns: context.peer(ServiceName::TurnOrchestrator)?,
            gateway,
            clock: context.clock,
        };
        let config = edge::Config::of(&context.settings)?;
        edge::build(config, deps, context.lifecycle)?
            .listen()
            .await?;
        Ok(GrpcServer::new(ServiceName::Edge))
    })
}
