//! An edge on a real socket, in front of scripted peers.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::Method;
use kernel::{Clock, ServiceName, SystemClock};
use runtime::{GrpcServer, Lifecycle, Peer, ServerLayers, Transport, token::Village as Keys};
use serde_json::{Value, json};
use testkit::port::HeldPort;

use crate::{
    client::Ask,
    scripted::{Mcp, Registry, Somebody, Turns},
};

/// The edge and its scripted peers. They end with the test's runtime.
pub(crate) struct Village {
    pub(crate) address: SocketAddr,
    pub(crate) registry: Registry,
    pub(crate) turns: Turns,
    pub(crate) mcp: Mcp,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) player: Somebody,
}

/// What tests start from: the defaults, on a free port.
pub(crate) fn config() -> edge::Config {
    edge::Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        allowed_hosts: Vec::new(),
        cors_origins: Vec::new(),
        requests_per_minute: 600,
        failed_logins_per_minute: 10,
        streams_per_token: 32,
        timeouts: edge::Timeouts::default(),
    }
}

/// A service in this process, as another one reaches it.
pub(crate) fn peer(keys: &Keys, from: ServiceName, server: GrpcServer) -> Peer {
    let layers = ServerLayers {
        trust: keys.trust(),
        longest_call: Duration::from_mins(61),
    };
    let name = server.name();
    let transport = Transport::in_process(&server.layered(layers));
    Peer::new(transport, keys.issuer(from), name)
}

/// Peers for the edge, which reach these services in this process.
pub(crate) fn peers(
    registry: GrpcServer,
    turns: GrpcServer,
    gateway: Option<GrpcServer>,
    clock: Arc<dyn Clock>,
) -> edge::Deps {
    let keys = Keys::generate(&clock).unwrap();
    edge::Deps {
        registry: peer(&keys, ServiceName::Edge, registry),
        turns: peer(&keys, ServiceName::Edge, turns),
        gateway: gateway.map(|gateway| peer(&keys, ServiceName::Edge, gateway)),
        clock,
    }
}

impl Village {
    pub(crate) async fn start() -> Self {
        Self::with(config(), Arc::new(SystemClock)).await
    }

    /// Where nobody reaches MCP Servers.
    pub(crate) async fn without_a_gateway() -> Self {
        Self::made_of(config(), Arc::new(SystemClock), |_| None).await
    }

    /// On a port where nobody else listens when it has stopped, either.
    pub(crate) async fn on(port: &HeldPort) -> Self {
        let config = edge::Config {
            listen: port.on_loopback(),
            ..config()
        };
        Self::with(config, Arc::new(SystemClock)).await
    }

    pub(crate) async fn with(config: edge::Config, clock: Arc<dyn Clock>) -> Self {
        Self::made_of(config, clock, |mcp| Some(mcp.gateway())).await
    }

    async fn made_of(
        config: edge::Config,
        clock: Arc<dyn Clock>,
        gateway: impl FnOnce(&Mcp) -> Option<GrpcServer>,
    ) -> Self {
        let (registry, turns, mcp) = (Registry::default(), Turns::default(), Mcp::default());
        let lifecycle = Lifecycle::new();
        let deps = peers(
            mcp.in_registry(registry.server()),
            turns.server(),
            gateway(&mcp),
            clock,
        );
        let edge = edge::build(config, deps, lifecycle.clone()).unwrap();
        let player = registry.player("ada");
        Self {
            address: edge.listen().await.unwrap(),
            registry,
            turns,
            mcp,
            lifecycle,
            player,
        }
    }

    /// A request without a token.
    pub(crate) fn ask(&self, method: Method, path: &str) -> Ask {
        Ask::new(self.address, method, path)
    }

    /// A request of the Player who is there from the start.
    pub(crate) fn get(&self, path: &str) -> Ask {
        self.ask(Method::GET, path).token(&self.player.token)
    }

    pub(crate) fn post(&self, path: &str) -> Ask {
        self.ask(Method::POST, path).token(&self.player.token)
    }

    /// The Player's question to an NPC.
    pub(crate) fn chat(&self, npc: &str, conversation: &str, message: &str) -> Ask {
        self.post("/v1/chat")
            .json(&question(npc, conversation, message))
    }
}

/// What the transport sends for a new Message.
pub(crate) fn question(npc: &str, conversation: &str, message: &str) -> Value {
    json!({
        "id": conversation, "npc": npc, "trigger": "submit-message",
        "messages": [{"id": message, "role": "user", "parts": [{"type": "text", "text": "hello"}]}],
    })
}
