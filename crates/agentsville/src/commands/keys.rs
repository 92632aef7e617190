//! `keys`: key pairs for services that run alone.

use kernel::{ErrorCode, ServiceName};
use runtime::{SigningKey, token::default_mints};
use serde::Serialize;

use crate::{app::App, failure::Failure, output::Format};

/// A service's key pair, and what others believe of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: &'static str,
    private_key: String,
    public_key: String,
    mints: &'static [kernel::CallerKind],
}

/// Who calls whom at run time: a service need trust nobody else.
fn callers_of(service: ServiceName) -> &'static [ServiceName] {
    use ServiceName::{
        Edge, FetchProxy, McpGateway, SandboxBroker, ToolRegistry, TurnOrchestrator,
    };
    match service {
        ToolRegistry => &[Edge, TurnOrchestrator, McpGateway],
        TurnOrchestrator => &[Edge],
        McpGateway => &[Edge, TurnOrchestrator],
        FetchProxy => &[TurnOrchestrator, SandboxBroker],
        SandboxBroker => &[Edge, TurnOrchestrator],
        Edge => &[],
    }
}

pub(crate) fn run(app: &App) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for service in ServiceName::ALL {
        let key = SigningKey::generate()
            .map_err(|error| Failure::of(ErrorCode::Internal, error.to_string()))?;
        rows.push((
            service,
            Row {
                id: service.as_str(),
                private_key: key.private_key().expose().to_owned(),
                public_key: key.public_key(),
                mints: default_mints(service.as_str()),
            },
        ));
    }
    match app.output.format() {
        Format::Json => {
            let rows: Vec<&Row> = rows.iter().map(|(_, row)| row).collect();
            app.output.json_of(&rows)?;
        }
        Format::Text => app.output.line(&settings(&rows))?,
    }
    Ok(())
}

/// A settings file for each service.
fn settings(rows: &[(ServiceName, Row)]) -> String {
    let mut lines = vec![
        "# Keys for services that run alone: one file a service, given to it with --config. A private key is a secret of that\n\
         # service alone; the public ones may be seen. They are printed here and kept nowhere. In the environment:\n\
         # AGENTSVILLE__KEYS__PRIVATE, or AGENTSVILLE__KEYS__PRIVATE_FILE."
            .to_owned(),
    ];
    for (service, row) in rows {
        lines.push(format!(
            "\n# ---- {service}.toml ----\n[keys]\nprivate = \"{}\"",
            row.private_key
        ));
        let callers = callers_of(*service);
        for (caller, trusted) in rows.iter().filter(|(name, _)| callers.contains(name)) {
            let mints: Vec<String> = trusted
                .mints
                .iter()
                .map(|kind| serde_json::to_string(kind).unwrap_or_default())
                .collect();
            lines.push(format!(
                "[keys.trust.{caller}]\npublic_key = \"{}\"\nmints = [{}]",
                trusted.public_key,
                mints.join(", ")
            ));
        }
    }
    lines.join("\n")
}
