//! `CONNECT`: a connection to a judged address, and bytes both ways until one of the bounds is met.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use outbound::{Consumer, Target};
use rustix::net::sockopt::set_socket_linger;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};

use super::{
    denial::Denial,
    exchange::{Client, Reply, deny},
    hello,
    identity::{Pass, Reach},
    places::Place,
    pulse::Pulse,
    report::{End, Record},
};

/// What is read at once, one way.
const PIECE_BYTES: usize = 16 * 1_024;
/// The longest silence of a tunnel that one side has closed.
const HALF_CLOSED: Duration = Duration::from_secs(30);

/// Connects, answers, and leaves the tunnel to a task of its own.
pub(super) async fn open(
    client: &Arc<Client>,
    mut request: Request<Incoming>,
    target: Target,
    pass: &Pass,
    place: Place,
    mut record: Record,
) -> Response<Reply> {
    let shared = client.shared();
    let deadline = Instant::now() + shared.config.connect;
    let connected = shared
        .connector
        .connect_tcp(&target, Consumer::Egress, deadline)
        .await;
    let server = match connected {
        Ok(server) => server,
        Err(error) => return deny(record, &Denial::of(&error, &target)),
    };
    record.allowed();
    let tunnel = Tunnel {
        client: Arc::clone(client),
        reach: pass.reach,
        target,
        record,
        _place: place,
    };
    let upgrade = hyper::upgrade::on(&mut request);
    // The handle is not needed: the lifecycle keeps the task.
    drop(
        shared
            .lifecycle
            .spawn_request("egress tunnel", tunnel.run(upgrade, server)),
    );
    Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync())
}

struct Tunnel {
    client: Arc<Client>,
    reach: Reach,
    target: Target,
    record: Record,
    _place: Place,
}

impl Tunnel {
    async fn run(mut self, upgrade: OnUpgrade, server: TcpStream) {
        let end = match timeout(self.client.shared().config.header, upgrade).await {
            Ok(Ok(upgraded)) => self.carry(TokioIo::new(upgraded), server).await,
            Ok(Err(_)) | Err(_) => End::Broken,
        };
        self.record.ended(end);
    }

    async fn carry<C>(&self, client: C, server: TcpStream) -> End
    where
        C: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let config = &self.client.shared().config;
        let (idle, old) = (config.idle, Instant::now() + config.lifetime);
        let limit = config.tunnel_bytes;
        let traffic = self.record.traffic();
        // Until it is known that all went through, closing it is breaking it off.
        on_close(&server, OnClose::Reset);
        let (mut from_client, mut to_client) = tokio::io::split(client);
        let (mut from_server, mut to_server) = server.into_split();
        let up = async {
            let first = match self.reach {
                Reach::Public => Vec::new(),
                Reach::Listed => hello::read(&mut from_client, &self.target).await?,
            };
            pass_on(&first, &mut to_server, &traffic.up, limit).await?;
            drop(first);
            pump(&mut from_client, &mut to_server, &traffic.up, limit).await
        };
        let down = pump(&mut from_server, &mut to_client, &traffic.down, limit);
        let end = both(up, down, self.client.pulse(), idle, old).await;
        match end {
            End::Complete => on_close(from_server.as_ref(), OnClose::Finish),
            // The client is told in its own protocol, if it still listens.
            End::SniMismatch => {
                let alert = to_client.write_all(&hello::UNRECOGNIZED_NAME);
                drop(timeout(HALF_CLOSED, alert).await);
            }
            End::Broken | End::HalfClosed | End::Cut(_) | End::TooManyBytes | End::NotTls => {}
        }
        end
    }
}

/// How a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnClose {
    /// What was sent still arrives, and then the end.
    Finish,
    /// The other side hears that it was broken off.
    Reset,
}

fn on_close(server: &TcpStream, how: OnClose) {
    let linger = match how {
        OnClose::Finish => None,
        OnClose::Reset => Some(Duration::ZERO),
    };
    if let Err(error) = set_socket_linger(server, linger) {
        tracing::debug!(%error, "how a connection is closed could not be set");
    }
}

/// Runs both ways to their ends. The bounds on silence and age hold over both.
async fn both(
    up: impl Future<Output = Result<(), End>> + Send,
    down: impl Future<Output = Result<(), End>> + Send,
    pulse: &Pulse,
    idle: Duration,
    old: Instant,
) -> End {
    let (mut up, mut down) = (std::pin::pin!(up), std::pin::pin!(down));
    let (first, rest): (_, Pin<&mut (dyn Future<Output = Result<(), End>> + Send)>) = tokio::select! {
        done = &mut up => (done, down),
        done = &mut down => (done, up),
        cut = pulse.stops(idle, old) => return End::Cut(cut),
    };
    if let Err(end) = first {
        return end;
    }
    tokio::select! {
        done = rest => done.err().unwrap_or(End::Complete),
        _cut = pulse.stops(idle.min(HALF_CLOSED), old) => End::HalfClosed,
    }
}

/// Passes on what comes until it ends, and then closes the other side's reading.
async fn pump<R, W>(from: &mut R, to: &mut W, count: &AtomicU64, limit: u64) -> Result<(), End>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = from.read(&mut piece).await.map_err(|_broken| End::Broken)?;
        if length == 0 {
            // A side that is gone already needs no farewell.
            drop(to.shutdown().await);
            return Ok(());
        }
        pass_on(&piece[..length], to, count, limit).await?;
    }
}

async fn pass_on<W>(piece: &[u8], to: &mut W, count: &AtomicU64, limit: u64) -> Result<(), End>
where
    W: AsyncWrite + Unpin,
{
    let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
    if count.load(Ordering::Relaxed).saturating_add(length) > limit {
        return Err(End::TooManyBytes);
    }
    to.write_all(piece).await.map_err(|_broken| End::Broken)?;
    to.flush().await.map_err(|_broken| End::Broken)?;
    count.fetch_add(length, Ordering::Relaxed);
    Ok(())
}
