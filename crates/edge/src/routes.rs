//! The map of the edge: every path, and what it is built from.

use std::{net::SocketAddr, ops::Deref, sync::Arc};

use axum::{
    Router, middleware,
    routing::{get, post},
};
use http::{HeaderValue, Method, StatusCode, Uri, header::CONTENT_TYPE};
use kernel::{Clock, ErrorCode};
use runtime::{Lifecycle, Peer};

use crate::{
    auth::Authenticator,
    body::quoted,
    chat::{self, StreamCount},
    config::Config,
    error::Error,
    guard::{self, Rules},
    listener, openapi,
    peers::{Gateway, Registry, Turns},
    problem::Problem,
    rest::{audit, conversations, grants, mcp_servers, media, npcs, players, secrets, turns},
};

/// What the edge is built from.
#[derive(Debug, Clone)]
pub struct Deps {
    /// tool-registry, with the edge's issuer.
    pub registry: Peer,
    /// turn-orchestrator, with the edge's issuer.
    pub turns: Peer,
    /// mcp-gateway, with the edge's issuer. Without it, servers are registered and never reached.
    pub gateway: Option<Peer>,
    /// For limits and caches.
    pub clock: Arc<dyn Clock>,
}

/// What handlers share. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct App(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) registry: Registry,
    pub(crate) turns: Turns,
    pub(crate) gateway: Gateway,
    pub(crate) authenticator: Authenticator,
    pub(crate) rules: Rules,
    pub(crate) streams: StreamCount,
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// The edge, ready to listen.
#[derive(Debug, Clone)]
pub struct Edge {
    router: Router,
    config: Config,
    lifecycle: Lifecycle,
}

/// Builds the edge. Nothing is connected and nothing listens yet.
pub fn build(config: Config, deps: Deps, lifecycle: Lifecycle) -> Result<Edge, Error> {
    config.check()?;
    let registry = Registry(deps.registry);
    let app = App(Arc::new(Shared {
        rules: Rules::of(&config)?,
        authenticator: Authenticator::new(&config, registry.clone(), deps.clock),
        streams: StreamCount::new(config.streams_per_token),
        turns: Turns(deps.turns),
        gateway: Gateway(deps.gateway),
        registry,
        config: config.clone(),
    }));
    Ok(Edge {
        router: router(app),
        config,
        lifecycle,
    })
}

impl Edge {
    /// The edge as a service, for whoever brings a listener of his own: without the bounds on connections and on the time that a
    /// request's head may take.
    pub fn into_router(self) -> Router {
        self.router
    }

    /// Opens the listener and serves until the process stops: at the soft step no further requests are taken, and streams go on until
    /// their turns end or the hard step comes.
    ///
    /// Returns the actual address, which it also logs.
    pub async fn listen(self) -> Result<SocketAddr, Error> {
        listener::listen(self.router, &self.config, &self.lifecycle).await
    }
}

fn router(app: App) -> Router {
    Router::new()
        .route("/", get(front))
        .route("/v1/openapi.json", get(openapi::serve))
        .route("/v1/npcs", get(npcs::list).post(npcs::create))
        .route(
            "/v1/npcs/{npc}",
            get(npcs::show).patch(npcs::update).delete(npcs::remove),
        )
        .route("/v1/npcs/{npc}/tools", get(npcs::tools))
        .route(
            "/v1/npcs/{npc}/grants",
            get(grants::list).post(grants::add).delete(grants::remove),
        )
        .merge(mcp())
        .route("/v1/players", get(players::list).post(players::create))
        .route("/v1/players/{player}/revoke", post(players::revoke))
        .route("/v1/me", get(players::me))
        .route("/v1/audit", get(audit::list))
        .route("/v1/conversations", get(conversations::list))
        .route(
            "/v1/conversations/{conversation}",
            get(conversations::show).delete(conversations::remove),
        )
        .route("/v1/chat", post(chat::start))
        .route("/v1/chat/{id}/stream", get(chat::resume))
        .route("/v1/turns/{turn}/abort", post(turns::abort))
        .route("/v1/media/{id}", get(media::show))
        .route("/v1/secrets", get(secrets::status))
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(app.clone(), guard::around))
        .with_state(app)
}

fn mcp() -> Router<App> {
    let one = || {
        get(mcp_servers::show)
            .patch(mcp_servers::update)
            .delete(mcp_servers::remove)
    };
    Router::new()
        .route(
            "/v1/mcp-servers",
            get(mcp_servers::list).post(mcp_servers::create),
        )
        .route("/v1/mcp-servers/{server}", one())
        // A server may be called `test` or `import`, too.
        .route(
            "/v1/mcp-servers/test",
            one().post(mcp_servers::testing::unsaved),
        )
        .route(
            "/v1/mcp-servers/import",
            one().post(mcp_servers::importing::import),
        )
        .route(
            "/v1/mcp-servers/{server}/test",
            post(mcp_servers::testing::saved),
        )
        .route(
            "/v1/mcp-servers/{server}/diff",
            get(mcp_servers::pins::diff),
        )
        .route(
            "/v1/mcp-servers/{server}/accept",
            post(mcp_servers::pins::accept),
        )
}

async fn front() -> (
    StatusCode,
    [(http::HeaderName, HeaderValue); 1],
    &'static str,
) {
    let text = "This is the HTTP edge of an AgentsVille Village. Its API is under /v1 and described by /v1/openapi.json; every call but that one needs \
                an Authorization header with a bearer token. POST /v1/chat speaks the UI message stream of the npm package `ai`.\n";
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    (StatusCode::OK, [(CONTENT_TYPE, plain)], text)
}

async fn nothing_here(uri: Uri) -> Problem {
    Problem::new(
        ErrorCode::NotFound,
        format!(
            "there is nothing at {}; /v1/openapi.json lists what there is",
            quoted(uri.path())
        ),
    )
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    Problem::new(
        ErrorCode::InvalidArgument,
        format!(
            "{} does not take {}; the header allow lists what it takes",
            quoted(uri.path()),
            quoted(method.as_str())
        ),
    )
    .with_status(StatusCode::METHOD_NOT_ALLOWED)
}
