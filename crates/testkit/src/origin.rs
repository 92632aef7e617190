//! Web servers on loopback with certificates of their own authority, which reply as they were told.
//!
//! [`TlsOrigin`] speaks proper HTTP; [`RawOrigin`] says whatever bytes it is given, for what proper servers never say.
#![expect(
    clippy::expect_used,
    reason = "a test's server that cannot work must fail the test at once"
)]

mod raw;

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderMap, Method, Request, Response, Version};
use http_body_util::{StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::port::HeldPort;

pub use raw::{Act, Handshake, RawOrigin};

/// A certificate authority that only its own test trusts.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Authority {
    /// A new authority, its certificate in a file of a temporary directory.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // A name of its own: OpenSSL takes a certificate whose issuer is named like itself for self-signed.
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, "the authority of one test");
        params.distinguished_name = name;
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("authority.pem");
        std::fs::write(&path, issuer.pem()).expect("a file in a temporary directory");
        Self {
            issuer,
            path,
            _directory: directory,
        }
    }

    /// The PEM file with its certificate.
    pub fn pem_path(&self) -> &Path {
        &self.path
    }

    /// What a TLS server needs to be these names, over HTTP/1.1 and HTTP/2.
    pub fn server_config(&self, names: &[&str]) -> ServerConfig {
        self.server_config_speaking(names, &["h2", "http/1.1"])
    }

    /// The same for other protocols, by their names in TLS.
    pub fn server_config_speaking(&self, names: &[&str], protocols: &[&str]) -> ServerConfig {
        self.issue(names).server_config(protocols)
    }

    /// A certificate for these names, and its key.
    pub fn issue(&self, names: &[&str]) -> Identity {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let params = CertificateParams::new(names).expect("names that certificates can have");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Identity {
            certificate: certificate.der().clone(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()),
        }
    }
}

/// What a server shows, and what it proves that with. They need not fit together: an impostor's do not.
#[derive(Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// The key.
    pub key: PrivatePkcs8KeyDer<'static>,
}

impl Identity {
    /// A server that is this, and speaks these protocols, by their names in TLS.
    pub fn server_config(&self, protocols: &[&str]) -> ServerConfig {
        let key = PrivateKeyDer::Pkcs8(self.key.clone_key());
        let key = ring::sign::any_supported_type(&key).expect("a key that ring can use");
        let shown = CertifiedKey::new(vec![self.certificate.clone()], key);
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring's protocol versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
        config.alpn_protocols = protocols
            .iter()
            .map(|protocol| protocol.as_bytes().to_vec())
            .collect();
        config
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

/// What to reply.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    wait: Duration,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone)]
enum Piece {
    Bytes(Bytes),
    Pause(Duration),
    Break,
}

impl Reply {
    /// A status and nothing else.
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            wait: Duration::ZERO,
            pieces: Vec::new(),
        }
    }

    /// 200 with a body of this type.
    pub fn ok(content_type: &str, body: impl Into<Bytes>) -> Self {
        Self::status(200)
            .header("content-type", content_type)
            .piece(body)
    }

    /// 200 with plain text.
    pub fn text(body: impl Into<String>) -> Self {
        Self::ok("text/plain; charset=utf-8", body.into())
    }

    /// A redirect.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::status(status).header("location", location)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a piece to the body.
    #[must_use]
    pub fn piece(mut self, bytes: impl Into<Bytes>) -> Self {
        self.pieces.push(Piece::Bytes(bytes.into()));
        self
    }

    /// Waits before what comes next in the body.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pieces.push(Piece::Pause(pause));
        self
    }

    /// Breaks the connection off there.
    #[must_use]
    pub fn broken_off(mut self) -> Self {
        self.pieces.push(Piece::Break);
        self
    }

    /// Waits before the head.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

/// A request that came in.
#[derive(Debug, Clone)]
pub struct SeenRequest {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The host that it was for: the URI's, or the `Host` header's.
    pub host: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The HTTP version.
    pub version: Version,
}

/// An HTTPS server. It stops when dropped.
#[derive(Debug)]
pub struct TlsOrigin {
    address: SocketAddr,
    /// If nobody said which.
    _port: Option<HeldPort>,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Shared {
    replies: Mutex<HashMap<String, Reply>>,
    requests: Mutex<Vec<SeenRequest>>,
    accepted: AtomicUsize,
    destinations: Mutex<Vec<SocketAddr>>,
}

impl TlsOrigin {
    /// A server on a free port of 127.0.0.1, with a certificate for these names or addresses.
    pub async fn start(authority: &Authority, names: &[&str]) -> Self {
        Self::start_on(authority, names, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// A server on this address. Linux has all of 127.0.0.0/8. Port 0 picks one that no other test has on any address, so that this
    /// test may start another server there, or count on nobody's being there.
    pub async fn start_on(authority: &Authority, names: &[&str], address: SocketAddr) -> Self {
        Self::start_speaking(authority, names, address, &["h2", "http/1.1"]).await
    }

    /// A server that offers these protocols alone, by their names in TLS: `h2`, `http/1.1`.
    pub async fn start_speaking(
        authority: &Authority,
        names: &[&str],
        address: SocketAddr,
        protocols: &[&str],
    ) -> Self {
        let config = authority.server_config_speaking(names, protocols);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let port = (address.port() == 0).then(|| HeldPort::for_address(address.ip()));
        let number = port.as_ref().map_or(address.port(), HeldPort::number);
        let address = SocketAddr::new(address.ip(), number);
        let listener = TcpListener::bind(address)
            .await
            .expect("a port to listen on");
        let shared = Arc::new(Shared::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, acceptor, Arc::clone(&shared)));
        Self {
            address,
            _port: port,
            shared,
            _tasks: tasks,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Says what to reply to a path, with its query if it has one. Other paths get 404.
    pub fn serve(&self, path: &str, reply: Reply) {
        self.shared
            .replies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(path.to_owned(), reply);
    }

    /// How many TCP connections were made, TLS or not.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Where each of those connections was going to: a server on all addresses is met at many.
    pub fn destinations(&self) -> Vec<SocketAddr> {
        self.shared
            .destinations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.shared
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        if let Ok((stream, _peer)) = listener.accept().await {
            let destination = stream.local_addr().expect("a connected socket");
            let destination = SocketAddr::new(destination.ip().to_canonical(), destination.port());
            shared
                .destinations
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(destination);
            shared.accepted.fetch_add(1, Ordering::SeqCst);
            // Without it, small answers wait for the client's delayed acknowledgement.
            stream.set_nodelay(true).ok();
            connections.spawn(serve_connection(
                stream,
                acceptor.clone(),
                Arc::clone(&shared),
            ));
        }
    }
}

async fn serve_connection(stream: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let service = service_fn(move |request| reply(Arc::clone(&shared), request));
    // How a connection ends is the client's business; the requests are in the log.
    auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await
        .ok();
}

async fn reply(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, io::Error>>, Infallible> {
    let path = request
        .uri()
        .path_and_query()
        .map_or_else(|| "/".to_owned(), ToString::to_string);
    let from_header = request
        .headers()
        .get(http::header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = request
        .uri()
        .authority()
        .map(http::uri::Authority::as_str)
        .or(from_header)
        .unwrap_or_default()
        .to_owned();
    shared
        .requests
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(SeenRequest {
            method: request.method().clone(),
            path: path.clone(),
            host,
            headers: request.headers().clone(),
            version: request.version(),
        });
    let reply = shared
        .replies
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&path)
        .cloned()
        .unwrap_or_else(|| Reply::status(404).piece("there is no such page"));
    tokio::time::sleep(reply.wait).await;
    let mut response = Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    let pieces = stream::iter(reply.pieces).filter_map(|piece| async move {
        match piece {
            Piece::Bytes(bytes) => Some(Ok(Frame::data(bytes))),
            Piece::Pause(pause) => {
                tokio::time::sleep(pause).await;
                None
            }
            Piece::Break => Some(Err(io::Error::other("broken off as scripted"))),
        }
    });
    Ok(response
        .body(BoxBody::new(StreamBody::new(pieces)))
        .expect("a reply that was scripted well"))
}
