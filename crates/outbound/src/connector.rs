//! Resolve, judge, connect: to the addresses that were judged and no others.
//!
//! **Architecture invariant:** a name is looked up once per judgement; nothing below resolves again, reads proxies from the
//! environment, or uses a connection under another judgement, unless a [`Lane`] finds its address among the newly judged ones.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use http::{Request, Response};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_keepintvl};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::task::TaskTracker;

use crate::{
    Body, Config, Connection, Consumer, Error, Guard, Lane, LaneBounds, Phase, Refusal,
    RequestBody, Resolver, Security, SetUpError, Standing, Target, connection::Stream,
    error::heard, guard::known_addresses, tls,
};

/// Addresses tried for one connection.
const MAX_TRIES: usize = 8;
/// Head start of one address over the next (RFC 8305 section 5 recommends 250 ms; browsers use 300).
const HEAD_START: Duration = Duration::from_millis(300);
/// One address's time, so that a dead one does not use up the caller's.
const TRY_TIME: Duration = Duration::from_secs(3);

/// Silence after which the kernel asks whether the other end is still there: tunnels and answers may stay open for long.
const ASK_AFTER: Duration = Duration::from_secs(30);
/// Time between such questions.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Opens connections to the outside. Everything that leaves the Village on somebody's word goes through one of these.
#[derive(Debug, Clone)]
pub struct Connector {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    guard: Guard,
    resolver: Resolver,
    tls: Arc<ClientConfig>,
    tasks: TaskTracker,
}

/// A target whose every address was judged and let pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approved {
    /// The target.
    pub target: Target,
    /// Its addresses, all of them, in the order in which they will be tried.
    pub addresses: Vec<IpAddr>,
}

impl Connector {
    /// A connector. Connections are driven on `tasks` until they are dropped.
    pub fn new(config: &Config, tasks: TaskTracker) -> Result<Self, SetUpError> {
        Ok(Self {
            shared: Arc::new(Shared {
                guard: Guard::new(config)?,
                resolver: Resolver::new(config.nameserver),
                tls: tls::client(config.ca_file.as_deref())?,
                tasks,
            }),
        })
    }

    /// The guard that judges for this connector.
    pub fn guard(&self) -> &Guard {
        &self.shared.guard
    }

    /// Resolves a target and judges everything about it. One address that may not be connected to refuses the target: what
    /// else would make a name point inside and outside at once?
    pub async fn approve(&self, target: &Target, consumer: Consumer) -> Result<Approved, Error> {
        let Shared {
            guard, resolver, ..
        } = &*self.shared;
        let standing = guard.judge_name(target, consumer)?;
        let addresses = match (known_addresses(target, standing), target.name()) {
            (Some(known), _) => known,
            (None, Some(name)) => resolver.look_up(name).await?,
            (None, None) => Vec::new(),
        };
        self.judge_all(target, &addresses, standing, consumer)?;
        Ok(Approved {
            target: target.clone(),
            addresses: interleave(addresses),
        })
    }

    fn judge_all(
        &self,
        target: &Target,
        addresses: &[IpAddr],
        standing: Standing,
        consumer: Consumer,
    ) -> Result<(), Refusal> {
        addresses.iter().try_for_each(|&address| {
            self.shared
                .guard
                .judge_address(target, address, standing, consumer)
        })
    }

    /// Opens a plain TCP connection, for instance for a tunnel. The peer is one of the approved addresses.
    pub async fn connect_tcp(
        &self,
        target: &Target,
        consumer: Consumer,
        deadline: Instant,
    ) -> Result<TcpStream, Error> {
        let approved = self.approve_until(target, consumer, deadline).await?;
        race_until(&approved, deadline).await
    }

    pub(crate) async fn approve_until(
        &self,
        target: &Target,
        consumer: Consumer,
        deadline: Instant,
    ) -> Result<Approved, Error> {
        timeout_at(deadline, self.approve(target, consumer))
            .await
            .map_err(|_elapsed| timed_out(target, Phase::Resolving))?
    }

    /// Opens an HTTP connection: TCP, TLS for the target's own name if the target asks for it, and the HTTP version that both
    /// sides speak. `deadline` covers all of that, and not what is done with the connection.
    pub async fn connect(
        &self,
        target: &Target,
        consumer: Consumer,
        deadline: Instant,
    ) -> Result<Connection, Error> {
        let approved = self.approve_until(target, consumer, deadline).await?;
        self.connect_approved(&approved, deadline).await
    }

    /// Opens an HTTP connection on a judgement that was made just now.
    pub(crate) async fn connect_approved(
        &self,
        approved: &Approved,
        deadline: Instant,
    ) -> Result<Connection, Error> {
        let target = &approved.target;
        let tcp = race_until(approved, deadline).await?;
        let handshakes = async {
            let stream = match target.security() {
                Security::Plain => Stream::Plain(tcp),
                Security::Tls => Stream::Tls(Box::new(self.handshake(target, tcp).await?)),
            };
            Connection::open(stream, target.clone(), self.shared.tasks.clone()).await
        };
        timeout_at(deadline, handshakes)
            .await
            .map_err(|_elapsed| timed_out(target, Phase::Connecting))?
    }

    /// One request over a fresh connection of its own; `deadline` covers all until the answer's head.
    pub async fn request<B: Into<RequestBody>>(
        &self,
        target: &Target,
        consumer: Consumer,
        request: Request<B>,
        deadline: Instant,
    ) -> Result<Response<Body>, Error> {
        self.connect(target, consumer, deadline)
            .await?
            .send(request, deadline)
            .await
    }

    /// Connections for one user's requests in a row, which may go over the same one.
    pub fn lane(&self, consumer: Consumer, bounds: LaneBounds) -> Lane {
        Lane::new(self.clone(), consumer, bounds)
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.shared.tasks
    }

    async fn handshake(
        &self,
        target: &Target,
        tcp: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Error> {
        let failed = |why: String| Error::Tls {
            host: target.host().to_string(),
            why,
        };
        let name = match (target.address(), target.name()) {
            (Some(address), _) => ServerName::from(address),
            (None, name) => ServerName::try_from(name.unwrap_or_default().to_owned())
                .map_err(|problem| failed(heard(problem)))?,
        };
        TlsConnector::from(Arc::clone(&self.shared.tls))
            .connect(name, tcp)
            .await
            .map_err(|problem| failed(tls::explain(&problem)))
    }
}

fn timed_out(target: &Target, phase: Phase) -> Error {
    Error::TimedOut {
        host: target.host().to_string(),
        phase,
    }
}

async fn race_until(approved: &Approved, deadline: Instant) -> Result<TcpStream, Error> {
    timeout_at(deadline, race(approved))
        .await
        .map_err(|_elapsed| timed_out(&approved.target, Phase::Connecting))?
}

/// Tries the approved addresses, each with a head start over the next, and keeps the first connection.
async fn race(approved: &Approved) -> Result<TcpStream, Error> {
    let target = &approved.target;
    let unreachable = |why: String| Error::Unreachable {
        host: target.to_string(),
        why,
    };
    let mut waiting = approved
        .addresses
        .iter()
        .take(MAX_TRIES)
        .map(|&address| SocketAddr::new(address, target.port()));
    let mut running = FuturesUnordered::new();
    let mut last_problem = "it has no address".to_owned();
    loop {
        let has_more = match waiting.next() {
            Some(next) => {
                running.push(connect_one(next));
                true
            }
            None => false,
        };
        // Until the head start is over, or for good when no address waits.
        let head_start = async {
            if has_more {
                tokio::time::sleep(HEAD_START).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            ended = running.next() => match ended {
                Some(Ok(stream)) => {
                    check_peer(&stream, approved).map_err(unreachable)?;
                    return Ok(stream);
                }
                Some(Err(problem)) => last_problem = problem,
                None => return Err(unreachable(last_problem)),
            },
            () = head_start => {}
        }
    }
}

async fn connect_one(address: SocketAddr) -> Result<TcpStream, String> {
    let connect = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        set_socket_keepalive(&stream, true)?;
        set_tcp_keepidle(&stream, ASK_AFTER)?;
        set_tcp_keepintvl(&stream, ASK_AGAIN_AFTER)?;
        Ok::<_, io::Error>(stream)
    };
    match timeout(TRY_TIME, connect).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(problem)) => Err(format!("{address}: {problem}")),
        Err(_elapsed) => Err(format!(
            "{address}: no answer within {} seconds",
            TRY_TIME.as_secs()
        )),
    }
}

/// The last tripwire: before a byte is sent, the other end must be one of the addresses that were judged.
fn check_peer(stream: &TcpStream, approved: &Approved) -> Result<(), String> {
    let peer = stream
        .peer_addr()
        .map_err(|problem| problem.to_string())?
        .ip()
        .to_canonical();
    if approved
        .addresses
        .iter()
        .any(|address| address.to_canonical() == peer)
    {
        Ok(())
    } else {
        Err(format!(
            "the connection went to {peer}, which was not judged"
        ))
    }
}

/// One address of each family in turn, IPv6 first (RFC 8305 section 4).
fn interleave(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) = addresses.into_iter().partition(IpAddr::is_ipv6);
    let longest = v6.len().max(v4.len());
    (0..longest)
        .flat_map(|place| [v6.get(place), v4.get(place)])
        .flatten()
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use testkit::port::HeldPort;
    use tokio::net::TcpListener;

    use super::*;
    use crate::Schemes;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect()
    }

    fn approved(texts: &[&str], port: u16) -> Approved {
        let (_url, target) =
            Target::parse(&format!("http://a.test:{port}/"), Schemes::HttpAndHttps)
                .expect("a target");
        Approved {
            target,
            addresses: addresses(texts),
        }
    }

    #[test]
    fn families_take_turns_and_ipv6_is_first() {
        assert_eq!(
            interleave(addresses(&["1.1.1.1", "1.1.1.2", "1.1.1.3", "2606::1"])),
            addresses(&["2606::1", "1.1.1.1", "1.1.1.2", "1.1.1.3"])
        );
        assert_eq!(interleave(Vec::new()), addresses(&[]));
    }

    #[tokio::test]
    async fn a_connection_to_a_peer_that_was_not_judged_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let stream = TcpStream::connect(address).await.expect("a connection");
        let judged = approved(&["::ffff:127.0.0.1"], address.port());
        assert_eq!(check_peer(&stream, &judged), Ok(()));
        let other = approved(&["127.0.0.2"], address.port());
        assert_eq!(
            check_peer(&stream, &other),
            Err("the connection went to 127.0.0.1, which was not judged".to_owned())
        );
    }

    #[tokio::test]
    async fn no_more_than_eight_addresses_are_tried() {
        let held = HeldPort::new();
        let port = held.number();
        let _ninth = TcpListener::bind(("127.0.0.9", port))
            .await
            .expect("a listener");
        let nine: Vec<String> = (1..=9).map(|n| format!("127.0.0.{n}")).collect();
        let nine: Vec<&str> = nine.iter().map(String::as_str).collect();
        assert!(race(&approved(&nine[1..], port)).await.is_ok());
        assert!(matches!(
            race(&approved(&nine, port)).await,
            Err(Error::Unreachable { .. })
        ));
    }
}
