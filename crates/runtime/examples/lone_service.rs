//! The `main` of a service that runs alone, in its whole length. This one calls tool-registry (or would), and describes itself to callers with a
//! token.

use std::process::ExitCode;

use kernel::ServiceName;
use runtime::{GrpcServer, process};

fn main() -> ExitCode {
    process::run(ServiceName::TurnOrchestrator, |context| async move {
        let _registry = context.peer(ServiceName::ToolRegistry)?;
        let described = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()?;
        Ok(GrpcServer::new(context.name).add(described))
    })
}
