//! HTTP to a Provider: one client for all, one request at a time.
//!
//! Provider URLs are the Operator's own, so they are not guarded. What a proxy variable or a redirect would do instead is take
//! the key somewhere else: neither is followed.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use kernel::Secret;
use reqwest::Response;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{
    ErrorKind,
    config::Timeouts,
    http_error::{Asked, ERROR_BODY_BYTES, Words, is_html, refusal},
    outbox::Fault,
};

/// How long the body of an error may take.
const ERROR_BODY_TIME: Duration = Duration::from_secs(5);

/// No HTTP client can be made.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client for Providers cannot be made")]
pub struct ClientError(#[source] Box<dyn std::error::Error + Send + Sync>);

/// A client that keeps keys where they belong. Its roots are Mozilla's, the same on every machine and in every image, and
/// its cryptography is ring whatever else the process installed.
pub(crate) fn client(connect_timeout: Duration) -> Result<reqwest::Client, ClientError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = rustls::RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientError(error.into()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .retry(reqwest::retry::never())
        .connect_timeout(connect_timeout)
        .tcp_nodelay(true)
        .user_agent(concat!("AgentsVille/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| ClientError(error.into()))
}

/// Where requests of one Provider go.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) client: reqwest::Client,
    pub(crate) url: Url,
    /// With the key, marked sensitive.
    pub(crate) headers: HeaderMap,
    pub(crate) key: Secret,
    pub(crate) timeouts: Timeouts,
}

/// An answer whose body is still to come.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) response: Response,
    /// Until when the first byte must be here.
    pub(crate) first_byte_until: Instant,
}

/// No stream: the failure, and what the Provider said.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) fault: Fault,
    pub(crate) words: Words,
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self {
            fault,
            words: Words::default(),
        }
    }
}

impl Endpoint {
    /// Sends a body and waits for the head of the answer.
    pub(crate) async fn open(
        &self,
        body: Bytes,
        model: &str,
        cancel: &CancellationToken,
    ) -> Result<Opened, Refused> {
        let first_byte_until = Instant::now() + self.timeouts.first_byte;
        let sent = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .body(body)
            .send();
        let answered = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(cancelled().into()),
            answered = timeout_at(first_byte_until, sent) => answered,
        };
        let response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.unreachable(&error).into()),
            Err(_elapsed) => return Err(self.late("answered nothing").into()),
        };
        if response.status() == StatusCode::OK {
            if is_html(response.headers(), b"") {
                return Err(Fault {
                    kind: ErrorKind::Malformed,
                    status: Some(200),
                    what: format!(
                        "answered with an HTML page at {}, so something other than the API is answering there; check base_url",
                        self.url
                    ),
                }
                .into());
            }
            return Ok(Opened {
                response,
                first_byte_until,
            });
        }
        let (status, headers) = (response.status(), response.headers().clone());
        let body = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(cancelled().into()),
            body = error_body(response) => body,
        };
        let asked_of = Asked {
            model,
            key: &self.key,
        };
        let (fault, words) = refusal(status, &headers, &body, &asked_of);
        Err(Refused { fault, words })
    }

    pub(crate) fn late(&self, what: &str) -> Fault {
        Fault::new(
            ErrorKind::Timeout,
            format!(
                "{what} for {} s; try again later, or set a longer time for it",
                self.timeouts.first_byte.as_secs_f64()
            ),
        )
    }

    fn unreachable(&self, error: &reqwest::Error) -> Fault {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let why: String = if error.is_timeout() {
            "the connection took too long".to_owned()
        } else {
            cause.to_string().chars().take(160).collect()
        };
        let host = self.url.host_str().unwrap_or_default();
        let port = self
            .url
            .port_or_known_default()
            .map_or_else(String::new, |port| format!(":{port}"));
        Fault::new(
            ErrorKind::Unreachable,
            format!(
                "cannot be reached at {host}{port} ({why}); check base_url, and whether it is running"
            ),
        )
    }
}

pub(crate) fn cancelled() -> Fault {
    Fault::new(
        ErrorKind::Cancelled,
        "was not asked further: the step was stopped",
    )
}

/// The first bytes of an error's body: what came in time counts.
async fn error_body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let until = Instant::now() + ERROR_BODY_TIME;
    while body.len() < ERROR_BODY_BYTES {
        match timeout_at(until, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                let room = ERROR_BODY_BYTES - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            }
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    body
}

/// Reads the little that may stand between the last event and the end of a body, so that the connection can be used again.
/// A server that lingers costs `grace`, and its connection.
pub(crate) async fn drain(mut response: Response, grace: Duration) {
    let to_end = async {
        for _ in 0..4 {
            if !matches!(response.chunk().await, Ok(Some(_))) {
                break;
            }
        }
    };
    // Too late is as good as in time here.
    timeout(grace, to_end).await.unwrap_or_default();
}
