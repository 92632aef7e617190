//! Ports: those that are a test's own, whether anybody listens there or not, and those that a program picked and logged.
#![expect(
    clippy::expect_used,
    reason = "what a test stands on fails by panicking, which fails the test"
)]

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::OwnedFd,
};

use rustix::net::{AddressFamily, SocketType, sockopt};

/// A TCP port of this machine that the kernel gives to nobody else while this is held: not to a listener that asks for any port, nor
/// to a connection that goes out.
///
/// Connections to it are refused until somebody listens. Who knows the number can: like every server, it must set `SO_REUSEADDR`, and
/// may stop and listen again. To pick a port, close it and hand the number on would be a race instead, which a listener of another
/// test wins now and then.
///
/// It is a socket that is bound to all addresses of its family and never listens. Linux lets sockets that all set `SO_REUSEADDR` share
/// a port which somebody names, as long as no other one listens on the same address; and when it picks a port by itself, it passes over
/// those in use (socket(7), `inet_csk_find_open_port` and `__inet_hash_connect`).
#[derive(Debug)]
pub struct HeldPort {
    _socket: OwnedFd,
    port: u16,
}

impl HeldPort {
    /// One of IPv4.
    pub fn new() -> Self {
        Self::for_address(Ipv4Addr::LOCALHOST.into())
    }

    /// One for listeners on this address and every other one of its family; for an IPv6 address, on those of IPv4 as well.
    pub fn for_address(address: IpAddr) -> Self {
        let (family, everywhere) = match address {
            IpAddr::V4(_) => (AddressFamily::INET, IpAddr::from(Ipv4Addr::UNSPECIFIED)),
            IpAddr::V6(_) => (AddressFamily::INET6, IpAddr::from(Ipv6Addr::UNSPECIFIED)),
        };
        let socket = rustix::net::socket_with(
            family,
            SocketType::STREAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .expect("a socket");
        sockopt::set_socket_reuseaddr(&socket, true).expect("an option of sockets");
        rustix::net::bind(&socket, &SocketAddr::new(everywhere, 0)).expect("a free port");
        let bound = rustix::net::getsockname(&socket).expect("a bound socket");
        let bound: SocketAddr = bound.try_into().expect("an internet address");
        Self {
            _socket: socket,
            port: bound.port(),
        }
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.port
    }

    /// The port on 127.0.0.1.
    pub fn on_loopback(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
}

impl Default for HeldPort {
    fn default() -> Self {
        Self::new()
    }
}

/// Where a program of ours listens by what it has logged so far, once it has logged this message: `gRPC is listening`.
///
/// It was told to listen on port 0, and says what it got.
pub fn listener_in_log(log: &str, message: &str) -> Option<SocketAddr> {
    log.lines()
        // The last line may be half written.
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find(|record| record["message"] == message)?["address"]
        .as_str()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::ErrorKind,
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::netns::Namespace;

    fn refuses(address: SocketAddr) -> bool {
        TcpStream::connect(address).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    }

    #[test]
    fn connections_are_refused_until_somebody_listens_and_again_when_nobody_does() {
        let held = HeldPort::new();
        for address in ["127.0.0.1", "127.0.0.2"] {
            let address = SocketAddr::new(address.parse().unwrap(), held.number());
            for _turn in 0..2 {
                assert!(refuses(address));
                let listener = TcpListener::bind(address).unwrap();
                TcpStream::connect(address).unwrap();
                drop(listener);
            }
            assert!(refuses(address));
        }
    }

    #[test]
    fn a_port_of_ipv6_is_one_of_ipv4_as_well() {
        let held = HeldPort::for_address(Ipv6Addr::LOCALHOST.into());
        for address in ["[::]", "[::1]", "127.0.0.1"] {
            let address: SocketAddr = format!("{address}:{}", held.number()).parse().unwrap();
            drop(TcpListener::bind(address).unwrap());
        }
    }

    #[test]
    fn a_listener_is_found_in_whole_lines_alone() {
        let log = r#"plain words, and 1
{"message":"admin is listening","address":"127.0.0.1:1"}
{"message":"gRPC is listening","address":"127.0.0.1:2"}
{"message":"HTTP listens","address":"127.0."#;
        let found = |message| listener_in_log(log, message).map(|address| address.port());
        assert_eq!(found("admin is listening"), Some(1));
        assert_eq!(found("gRPC is listening"), Some(2));
        assert_eq!(found("HTTP listens"), None);
        assert_eq!(found("egress is listening"), None);
    }

    #[test]
    fn nobody_who_asks_for_any_port_gets_a_held_one() {
        let machine = Namespace::new();
        machine.run(|| {
            // So few ports that the kernel has to try every one.
            fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40007").unwrap();
            let held = HeldPort::new();
            let other_listener = TcpListener::bind("127.0.0.9:30000").unwrap();
            let mut got = Vec::new();
            let mut connections = Vec::new();
            while let Ok(connection) = TcpStream::connect(other_listener.local_addr().unwrap()) {
                got.push(connection.local_addr().unwrap().port());
                connections.push(connection);
            }
            assert_eq!(connections.len(), 7);
            drop(connections);
            for address in ["127.0.0.1:0", "127.0.0.2:0", "0.0.0.0:0", "[::]:0"] {
                let mut listeners = Vec::new();
                while let Ok(listener) = TcpListener::bind(address) {
                    got.push(listener.local_addr().unwrap().port());
                    listeners.push(listener);
                }
            }
            assert!(!got.contains(&held.number()), "{got:?}");
        });
    }
}
