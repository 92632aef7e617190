//! `/healthz`, `/readyz` and `/metrics`, for orchestrators and Prometheus. There is no token: the listener belongs inside.

use std::{net::SocketAddr, sync::Arc};

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use prometheus::{Encoder as _, Registry, TextEncoder};
use serde::{Deserialize, Serialize};

use crate::{
    Lifecycle, Readiness,
    host::{HostError, bind},
};

/// The section `admin`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminSettings {
    /// address:port; port 0 picks a free one; empty: no such listener.
    pub listen: String,
}

#[derive(Clone)]
struct Admin {
    readiness: Readiness,
    metrics: Arc<Registry>,
}

/// Serves until everything else has ended, so that a stopping process still says so. Gives the actual address.
pub async fn listen(
    address: SocketAddr,
    lifecycle: &Lifecycle,
    metrics: Arc<Registry>,
) -> Result<SocketAddr, HostError> {
    let listener = bind("admin", address).await?;
    let address = listener.local_addr().map_err(|source| HostError::Bind {
        what: "admin".to_owned(),
        address,
        source,
    })?;
    lifecycle.listens_on(address);
    tracing::info!(%address, "admin is listening");
    let app = router(lifecycle.readiness().clone(), metrics);
    let hard = lifecycle.hard();
    lifecycle.spawn_background("admin listener", async move {
        let served = axum::serve(listener, app)
            .with_graceful_shutdown(hard.cancelled_owned())
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "the admin listener ended");
        }
    });
    Ok(address)
}

/// The routes, for those who have a listener of their own.
pub fn router(readiness: Readiness, metrics: Arc<Registry>) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(render_metrics))
        .with_state(Admin { readiness, metrics })
}

/// The process answers, so it lives.
async fn healthz() -> &'static str {
    "ok\n"
}

#[derive(Serialize)]
struct Readyz {
    ready: bool,
    /// What is waited for.
    pending: Vec<String>,
    /// What the Operator should know.
    warnings: Vec<String>,
}

async fn readyz(State(admin): State<Admin>) -> impl IntoResponse {
    let state = admin.readiness.state();
    let status = if state.is_ready() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let ready = state.is_ready();
    let mut pending: Vec<String> = state.pending.into_keys().collect();
    if state.stopping {
        pending.push("stopping".to_owned());
    }
    let body = Readyz {
        ready,
        pending,
        warnings: state.warnings,
    };
    (status, Json(body))
}

async fn render_metrics(State(admin): State<Admin>) -> impl IntoResponse {
    let encoder = TextEncoder::new();
    let mut text = Vec::new();
    match encoder.encode(&admin.metrics.gather(), &mut text) {
        Ok(()) => (
            StatusCode::OK,
            [("content-type", encoder.format_type().to_owned())],
            text,
        ),
        Err(error) => {
            tracing::error!(%error, "metrics could not be rendered");
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                [("content-type", "text/plain".to_owned())],
                Vec::new(),
            )
        }
    }
}
