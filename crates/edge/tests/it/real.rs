//! An edge in front of the real tool-registry and turn-orchestrator, on SQLite, with a scripted Provider.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use http::Method;
use kernel::{Clock, Secret, ServiceName, SystemClock};
use runtime::{Lifecycle, token::Village as Keys};
use serde_json::{Value, json};
use testkit::{
    database::{Schema, TestDatabase},
    provider::{ScriptedProvider, Wire},
};

use crate::{
    client::{Answer, Ask},
    village::{config, peer},
};

const OPERATOR_TOKEN: &str = "operator-token-of-a-test-0123456789abcdef";

/// A whole Village but for fetch-proxy. It ends with the test's runtime.
pub(crate) struct RealVillage {
    pub(crate) address: SocketAddr,
    pub(crate) provider: ScriptedProvider,
    _database: TestDatabase,
}

/// One who may ask.
pub(crate) struct Client {
    address: SocketAddr,
    pub(crate) id: String,
    pub(crate) token: String,
}

impl RealVillage {
    pub(crate) async fn start() -> Self {
        runtime::process::install_crypto();
        let database = TestDatabase::sqlite(Schema::Migrated).await;
        let provider = ScriptedProvider::start(Wire::ChatCompletions).await;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let keys = Keys::generate(&clock).unwrap();
        let lifecycle = Lifecycle::new();
        let registry = tool_registry::build(
            tool_registry::Config {
                operator_token: Secret::new(OPERATOR_TOKEN),
                providers: vec!["openai".to_owned()],
                npcs_per_player: 100,
                mcp_servers_per_player: 50,
            },
            tool_registry::Deps {
                store: database.store(),
                clock: Arc::clone(&clock),
                vault: Arc::new(vault::Vault::new(&Secret::new(OPERATOR_TOKEN)).unwrap()),
                connector: outbound::Connector::new(
                    &outbound::Config::default(),
                    lifecycle.tracker().clone(),
                )
                .unwrap(),
                signals: coordination::connect(
                    &coordination::Config::in_process(),
                    lifecycle.tracker(),
                    &lifecycle.hard(),
                )
                .unwrap()
                .signals,
            },
            &lifecycle,
        )
        .await
        .unwrap();
        let turns = turn_orchestrator::build(
            turn_orchestrator::Config {
                default_model: "openai/scripted".to_owned(),
                ..turn_orchestrator::Config::default()
            },
            turn_orchestrator::Deps {
                store: database.store(),
                coordination: coordination::connect(
                    &coordination::Config::in_process(),
                    lifecycle.tracker(),
                    &lifecycle.hard(),
                )
                .unwrap(),
                providers: providers(&provider),
                registry: peer(&keys, ServiceName::TurnOrchestrator, registry.clone()),
                fetch: None,
                gateway: None,
                clock: Arc::clone(&clock),
            },
            &lifecycle,
        )
        .unwrap();
        let deps = edge::Deps {
            registry: peer(&keys, ServiceName::Edge, registry),
            turns: peer(&keys, ServiceName::Edge, turns),
            gateway: None,
            clock,
        };
        let edge = edge::build(config(), deps, lifecycle).unwrap();
        Self {
            address: edge.listen().await.unwrap(),
            provider,
            _database: database,
        }
    }

    /// The Operator.
    pub(crate) async fn operator(&self) -> Client {
        let mut operator = Client {
            address: self.address,
            id: String::new(),
            token: OPERATOR_TOKEN.to_owned(),
        };
        let me = operator.get("/v1/me").await.json();
        me["id"].as_str().unwrap().clone_into(&mut operator.id);
        operator
    }

    /// A new Player.
    pub(crate) async fn player(&self, name: &str) -> Client {
        let operator = self.operator().await;
        let made = operator.post("/v1/players", &json!({"name": name})).await;
        assert_eq!(made.status, 201, "{}", made.body);
        let made = made.json();
        let text = |field: &str| made[field].as_str().unwrap().to_owned();
        Client {
            address: self.address,
            id: text("id"),
            token: text("token"),
        }
    }
}

fn providers(scripted: &ScriptedProvider) -> llm::Providers {
    let openai = json!({"wire": "chat-completions", "base_url": scripted.base_url(), "key": "k"});
    let openai = serde_json::from_value(openai).unwrap();
    llm::Providers::from_config(HashMap::from([("openai".to_owned(), openai)])).unwrap()
}

impl Client {
    pub(crate) fn ask(&self, method: Method, path: &str) -> Ask {
        Ask::new(self.address, method, path).token(&self.token)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path).send().await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path).send().await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::POST, path).json(body).send().await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::PATCH, path).json(body).send().await
    }
}
