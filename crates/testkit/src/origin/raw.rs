//! A server that says bytes.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use rustls::{HandshakeKind, ProtocolVersion};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::{Authority, Identity};

/// What a [`RawOrigin`] does next on a connection. At the end of a script it waits for the client to go.
#[derive(Debug, Clone)]
pub enum Act {
    /// Waits until the client has sent this, looking only at what came since the last `Hear`.
    Hear(Bytes),
    /// Sends this.
    Say(Bytes),
    /// Sends this again and again, until the client goes.
    Babble(Bytes),
    /// Waits.
    Pause(Duration),
    /// Closes the connection properly.
    Close,
}

impl Act {
    /// Waits until the client has sent this.
    pub fn hear(bytes: impl Into<Bytes>) -> Self {
        Self::Hear(bytes.into())
    }

    /// Sends this.
    pub fn say(bytes: impl Into<Bytes>) -> Self {
        Self::Say(bytes.into())
    }

    /// Sends this again and again.
    pub fn babble(bytes: impl Into<Bytes>) -> Self {
        Self::Babble(bytes.into())
    }
}

/// What a TLS handshake came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Handshake {
    /// The name that the client asked for (SNI).
    pub server_name: Option<String>,
    /// The protocol's version.
    pub version: Option<ProtocolVersion>,
    /// Whether it went on with an earlier session.
    pub kind: Option<HandshakeKind>,
}

/// A server that plays scripts of bytes, one a connection in the order of their coming; the last one again for all others. It
/// stops when dropped.
#[derive(Debug)]
pub struct RawOrigin {
    address: SocketAddr,
    log: Arc<Log>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Log {
    accepted: AtomicUsize,
    handshakes: Mutex<Vec<Handshake>>,
    heard: Mutex<Vec<Vec<u8>>>,
}

impl RawOrigin {
    /// A server without TLS on a free port of 127.0.0.1.
    pub async fn plain(scripts: Vec<Vec<Act>>) -> Self {
        Self::start(None, scripts).await
    }

    /// A server with TLS that offers this protocol, by its name in TLS: `h2` or `http/1.1`.
    pub async fn tls(
        authority: &Authority,
        names: &[&str],
        protocol: &str,
        scripts: Vec<Vec<Act>>,
    ) -> Self {
        Self::being(&authority.issue(names), protocol, scripts).await
    }

    /// The same with this identity.
    pub async fn being(identity: &Identity, protocol: &str, scripts: Vec<Vec<Act>>) -> Self {
        let config = identity.server_config(&[protocol]);
        Self::start(Some(TlsAcceptor::from(Arc::new(config))), scripts).await
    }

    async fn start(acceptor: Option<TlsAcceptor>, scripts: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a port on loopback");
        let address = listener.local_addr().expect("a bound socket");
        let log = Arc::new(Log::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, acceptor, scripts, Arc::clone(&log)));
        Self {
            address,
            log,
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

    /// How many TCP connections were made, TLS or not.
    pub fn accepted(&self) -> usize {
        self.log.accepted.load(Ordering::SeqCst)
    }

    /// The TLS handshakes that succeeded.
    pub fn handshakes(&self) -> Vec<Handshake> {
        lock(&self.log.handshakes).clone()
    }

    /// What every connection's client sent, inside TLS, as far as it was read.
    pub fn heard_bytes(&self) -> Vec<Vec<u8>> {
        lock(&self.log.heard).clone()
    }

    /// The same as text.
    pub fn heard(&self) -> Vec<String> {
        lock(&self.log.heard)
            .iter()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    scripts: Vec<Vec<Act>>,
    log: Arc<Log>,
) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _peer)) = listener.accept().await else {
            continue;
        };
        stream.set_nodelay(true).ok();
        let number = log.accepted.fetch_add(1, Ordering::SeqCst);
        lock(&log.heard).push(Vec::new());
        let script = scripts
            .get(number)
            .or(scripts.last())
            .cloned()
            .unwrap_or_default();
        let player = Player {
            number,
            script,
            log: Arc::clone(&log),
        };
        // How a connection ends is the client's business; what it said is in the log.
        match acceptor.clone() {
            None => connections.spawn(async move {
                player.play(stream).await.ok();
            }),
            Some(acceptor) => connections.spawn(async move {
                player.play_over_tls(acceptor, stream).await.ok();
            }),
        };
    }
}

/// One connection.
struct Player {
    number: usize,
    script: Vec<Act>,
    log: Arc<Log>,
}

impl Player {
    async fn play_over_tls(self, acceptor: TlsAcceptor, stream: TcpStream) -> io::Result<()> {
        let stream = acceptor.accept(stream).await?;
        let session = stream.get_ref().1;
        lock(&self.log.handshakes).push(Handshake {
            server_name: session.server_name().map(str::to_owned),
            version: session.protocol_version(),
            kind: session.handshake_kind(),
        });
        self.play(stream).await
    }

    async fn play<S: AsyncRead + AsyncWrite + Send + 'static>(self, stream: S) -> io::Result<()> {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let (heard, mut hearing) = watch::channel(0_usize);
        let (number, log) = (self.number, Arc::clone(&self.log));
        // It reads all the time, so that no client waits for it.
        let listening = async move {
            let mut buffer = vec![0; 16 * 1_024];
            while let Ok(count @ 1..) = reader.read(&mut buffer).await {
                lock(&log.heard)[number].extend_from_slice(&buffer[..count]);
                heard.send_modify(|total| *total += count);
            }
        };
        let acting = async {
            let mut from = 0;
            for act in &self.script {
                match act {
                    Act::Hear(wanted) => {
                        while !self.has_heard(wanted, &mut from) {
                            hearing.changed().await.map_err(io::Error::other)?;
                        }
                    }
                    Act::Say(bytes) => {
                        writer.write_all(bytes).await?;
                        writer.flush().await?;
                    }
                    Act::Babble(bytes) => loop {
                        writer.write_all(bytes).await?;
                    },
                    Act::Pause(pause) => tokio::time::sleep(*pause).await,
                    Act::Close => return writer.shutdown().await,
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            () = listening => Ok(()),
            outcome = acting => outcome,
        }
    }

    /// Whether this came after `from`, which then moves behind it.
    fn has_heard(&self, wanted: &[u8], from: &mut usize) -> bool {
        let heard = lock(&self.log.heard);
        let new = &heard[self.number][*from..];
        let place = new
            .windows(wanted.len().max(1))
            .position(|window| window == wanted);
        if let Some(place) = place {
            *from += place + wanted.len();
        }
        place.is_some()
    }
}
