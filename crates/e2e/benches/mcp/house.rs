//! The gateway and a tool-registry, each a process, as they run alone.

use std::{
    fs::File,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kernel::{Caller, Clock, PlayerId, ServiceName, SystemClock};
use proto::registry::v1::{
    AuthenticatePlayerRequest, CreateMcpServerRequest, McpTransport,
    mcp_server_service_client::McpServerServiceClient,
    resolution_service_client::ResolutionServiceClient,
};
use runtime::{Issuer, Peer, SigningKey, Transport};
use tempfile::TempDir;
use testkit::port::HeldPort;

use crate::{
    client::Place,
    process::{Process, Usage, address_in_log, program},
    upstream::Upstream,
};

pub(crate) const OPERATOR_TOKEN: &str = "operator-token-of-a-bench-0123456789abcdef";
pub(crate) const ROOT_SECRET: &str = "root-secret-of-a-bench-0123456789abcdef";
/// MCP Servers of one Player; the benchmark registers more than people do.
pub(crate) const SERVERS: &str = "1000";

/// Registry and gateway.
pub(crate) struct House {
    /// A port on which nobody listens.
    pub(crate) refusing: HeldPort,
    gateway: Process,
    gateway_url: String,
    registry: Peer,
    operator: PlayerId,
    orchestrator: SigningKey,
    registered: AtomicUsize,
    _registry: Process,
    _folder: TempDir,
}

impl House {
    pub(crate) async fn start(upstream: &Upstream) -> Self {
        let folder = TempDir::new().unwrap();
        let refusing = HeldPort::new();
        let key = || SigningKey::generate().unwrap();
        let (edge, orchestrator, gateway_key) = (key(), key(), key());
        let trusted = [
            ("EDGE", &edge),
            ("TURN_ORCHESTRATOR", &orchestrator),
            ("MCP_GATEWAY", &gateway_key),
        ];
        let data = folder.path().join("data");
        let run = |name: &str, own: &SigningKey, registry: Option<&str>| -> (Process, PathBuf) {
            let mut command = program(name);
            common(&mut command, upstream, &refusing);
            command
                .env("AGENTSVILLE__DATA_DIR", &data)
                .env("AGENTSVILLE__KEYS__PRIVATE", own.private_key().expose());
            for (issuer, key) in trusted {
                let setting = format!("AGENTSVILLE__KEYS__TRUST__{issuer}__PUBLIC_KEY");
                command.env(setting, key.public_key());
            }
            if let Some(url) = registry {
                command.env("AGENTSVILLE__PEERS__TOOL_REGISTRY", url);
            }
            let log = folder.path().join(format!("{name}.log"));
            let child = command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(File::create(&log).unwrap())
                .spawn()
                .unwrap();
            (Process(child), log)
        };
        let migrated = program("agentsville")
            .arg("migrate")
            .env("AGENTSVILLE__DATA_DIR", &data)
            .output()
            .unwrap();
        assert!(migrated.status.success(), "{migrated:?}");
        let (mut registry_process, log) = run("tool-registry", &key(), None);
        let address = address_in_log(&mut registry_process, &log, "gRPC is listening").await;
        let registry_url = format!("http://{address}");
        let (mut gateway, log) = run("mcp-gateway", &gateway_key, Some(&registry_url));
        let address = address_in_log(&mut gateway, &log, "gRPC is listening").await;

        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let issuer = Arc::new(Issuer::new(ServiceName::Edge, edge, clock));
        let transport = Transport::remote(&registry_url, None).unwrap();
        let registry = Peer::new(transport, issuer, ServiceName::ToolRegistry);
        Self {
            refusing,
            gateway,
            gateway_url: format!("http://{address}"),
            operator: operator(&registry).await,
            registry,
            orchestrator,
            registered: AtomicUsize::new(0),
            _registry: registry_process,
            _folder: folder,
        }
    }

    /// Registers a server, which nobody has spoken to yet.
    pub(crate) async fn register(&self, url: &str) -> Place {
        let number = self.registered.fetch_add(1, Ordering::Relaxed);
        let request = CreateMcpServerRequest {
            name: format!("server {number}"),
            transport: McpTransport::Http.into(),
            url: url.to_owned(),
            ..CreateMcpServerRequest::default()
        };
        let operator = Caller::Operator(self.operator);
        let created = McpServerServiceClient::new(self.registry.as_caller(&operator))
            .create_mcp_server(request)
            .await
            .unwrap();
        let server = created.into_inner().server.unwrap();
        Place {
            gateway: self.gateway_url.clone(),
            key: self.orchestrator.private_key().expose().to_owned(),
            player: self.operator,
            server_id: server.id,
            generation: server.generation,
        }
    }

    /// What the gateway has taken so far.
    pub(crate) fn usage(&self) -> Usage {
        self.gateway.usage()
    }
}

/// What every program of ours is told here.
pub(crate) fn common(command: &mut Command, upstream: &Upstream, refusing: &HeldPort) {
    command
        .env("AGENTSVILLE__GRPC__LISTEN", "127.0.0.1:0")
        .env("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:0")
        .env("AGENTSVILLE__OPERATOR_TOKEN", OPERATOR_TOKEN)
        .env("AGENTSVILLE__LIMITS__MCP_SERVERS_PER_PLAYER", SERVERS)
        .env("BETTER_AUTH_SECRET", ROOT_SECRET)
        .env(
            "AGENTSVILLE__OUTBOUND__ALLOW",
            format!(
                r#"["{}", "127.0.0.1:{}"]"#,
                upstream.address,
                refusing.number()
            ),
        );
}

/// Who holds the Operator's token, once the registry answers.
async fn operator(registry: &Peer) -> PlayerId {
    let edge = Caller::Service {
        name: ServiceName::Edge,
        player: None,
    };
    let mut client = ResolutionServiceClient::new(registry.as_caller(&edge));
    let mut last = None;
    for _ in 0..500 {
        let request = AuthenticatePlayerRequest {
            token: OPERATOR_TOKEN.to_owned(),
        };
        match client.authenticate_player(request).await {
            Ok(answer) => return answer.into_inner().player.unwrap().id.parse().unwrap(),
            Err(status) => last = Some(status),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the registry does not answer: {last:?}")
}
