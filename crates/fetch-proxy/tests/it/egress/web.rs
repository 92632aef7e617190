//! A web server that has files, takes uploads, and remembers what it was asked.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use testkit::{origin::Authority, port::HeldPort};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

/// When every file was changed last.
pub(super) const LAST_MODIFIED: &str = "Tue, 01 Dec 2026 00:00:00 GMT";

/// What it was asked.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

#[derive(Debug, Default)]
struct Content {
    files: HashMap<String, Bytes>,
    headers: HashMap<String, (StatusCode, HeaderMap)>,
    asked: Vec<Asked>,
    accepted: usize,
}

/// A server on a port of 127.0.0.1 that no other test has on any address, over HTTP/1.1. It stops when dropped.
pub(super) struct Web {
    port: HeldPort,
    content: Arc<Mutex<Content>>,
    _tasks: JoinSet<()>,
}

impl Web {
    pub(super) async fn plain() -> Self {
        Self::start(None).await
    }

    pub(super) async fn tls(authority: &Authority, names: &[&str]) -> Self {
        let config = authority.server_config_speaking(names, &["http/1.1"]);
        Self::start(Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn start(tls: Option<TlsAcceptor>) -> Self {
        let port = HeldPort::new();
        let listener = TcpListener::bind(port.on_loopback())
            .await
            .expect("a listener");
        let content: Arc<Mutex<Content>> = Arc::default();
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&content);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _peer)) = listener.accept().await {
                let (shared, tls) = (Arc::clone(&shared), tls.clone());
                shared.lock().expect("whole").accepted += 1;
                connections.spawn(async move {
                    match tls {
                        None => serve(stream, shared).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, shared).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            port,
            content,
            _tasks: tasks,
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port.number()
    }

    /// Puts a file at a path.
    pub(super) fn file(&self, path: &str, bytes: impl Into<Bytes>) {
        let mut content = self.content.lock().expect("whole");
        content.files.insert(path.to_owned(), bytes.into());
    }

    /// Answers at a path with this status and these headers, and the file there if there is one.
    pub(super) fn answer(&self, path: &str, status: u16, headers: &[(&'static str, &str)]) {
        let status = StatusCode::from_u16(status).expect("a status");
        let headers = headers
            .iter()
            .map(|(name, value)| {
                (
                    http::HeaderName::from_static(name),
                    value.parse().expect("a value"),
                )
            })
            .collect();
        let mut content = self.content.lock().expect("whole");
        content.headers.insert(path.to_owned(), (status, headers));
    }

    /// What it was asked so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.content.lock().expect("whole").asked.clone()
    }

    /// How many connections there were.
    pub(super) fn accepted(&self) -> usize {
        self.content.lock().expect("whole").accepted
    }
}

async fn serve<S>(stream: S, content: Arc<Mutex<Content>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| answer(Arc::clone(&content), request));
    http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await
        .ok();
}

async fn answer(
    content: Arc<Mutex<Content>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    // apt asks for what lies in a flat repository so.
    let path = head.uri.path().replace("/./", "/");
    let body = body.collect().await.map(Collected::to_bytes);
    let body = body.unwrap_or_default();
    let mut content = content.lock().expect("whole");
    content.asked.push(Asked {
        method: head.method.clone(),
        target: head.uri.to_string(),
        headers: head.headers.clone(),
        body: body.clone(),
    });
    let mut response = if path == "/echo" {
        Response::new(Full::new(body))
    } else {
        let file = content.files.get(&path);
        file.map_or_else(missing, |file| of_file(file, &head.headers))
    };
    if let Some((status, headers)) = content.headers.get(&path) {
        *response.status_mut() = *status;
        response.headers_mut().extend(headers.clone());
    }
    Ok(response)
}

fn missing() -> Response<Full<Bytes>> {
    let mut missing = Response::new(Full::new(Bytes::from_static(b"nothing here")));
    *missing.status_mut() = StatusCode::NOT_FOUND;
    missing
}

/// A file, a part of it, or that it is still the same.
fn of_file(file: &Bytes, headers: &HeaderMap) -> Response<Full<Bytes>> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let from = text(header::RANGE)
        .and_then(|range| {
            range
                .strip_prefix("bytes=")?
                .strip_suffix('-')?
                .parse()
                .ok()
        })
        .filter(|&from: &usize| from < file.len());
    let (status, body) = match from {
        _ if text(header::IF_MODIFIED_SINCE) == Some(LAST_MODIFIED) => {
            (StatusCode::NOT_MODIFIED, Bytes::new())
        }
        Some(from) => (StatusCode::PARTIAL_CONTENT, file.slice(from..)),
        None => (StatusCode::OK, file.clone()),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::LAST_MODIFIED,
        HeaderValue::from_static(LAST_MODIFIED),
    );
    if let Some(from) = from {
        let range = format!("bytes {from}-{}/{}", file.len() - 1, file.len());
        headers.insert(header::CONTENT_RANGE, range.parse().expect("a value"));
    }
    response
}
