//! What belongs to this machine and this Village.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{PoisonError, RwLock},
    time::{Duration, Instant},
};

use if_addrs::IfAddr;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// How old the list of this machine's addresses may be. They change when networks are joined, and reading them costs some
/// tens of microseconds.
const MAX_AGE: Duration = Duration::from_secs(30);

/// This machine's addresses, each with the network that it is on.
#[derive(Debug)]
pub(crate) struct OwnAddresses {
    snapshot: RwLock<Snapshot>,
}

#[derive(Debug)]
struct Snapshot {
    taken: Instant,
    on_link: Vec<IpNet>,
}

/// How an address belongs to this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Belonging {
    /// It is one of the machine's.
    Itself(IpNet),
    /// It lies in a network that the machine is on.
    OnLink(IpNet),
}

impl OwnAddresses {
    pub(crate) fn read() -> std::io::Result<Self> {
        Ok(Self {
            snapshot: RwLock::new(Snapshot {
                taken: Instant::now(),
                on_link: on_link()?,
            }),
        })
    }

    /// How the address belongs to this machine, as of at most [`MAX_AGE`] ago.
    pub(crate) fn belonging(&self, address: IpAddr) -> Option<Belonging> {
        self.refresh_if_old();
        let snapshot = self.snapshot.read().unwrap_or_else(PoisonError::into_inner);
        let mut on_link = None;
        for network in &snapshot.on_link {
            if network.addr() == address {
                return Some(Belonging::Itself(*network));
            }
            if network.contains(&address) {
                on_link = Some(Belonging::OnLink(network.trunc()));
            }
        }
        on_link
    }

    fn refresh_if_old(&self) {
        let is_old = |snapshot: &Snapshot| snapshot.taken.elapsed() > MAX_AGE;
        if !is_old(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut snapshot = self
            .snapshot
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if !is_old(&snapshot) {
            return;
        }
        match on_link() {
            Ok(on_link) => snapshot.on_link = on_link,
            Err(problem) => {
                tracing::warn!(%problem, "this machine's network addresses cannot be read; the last known ones stay refused");
            }
        }
        snapshot.taken = Instant::now();
    }
}

/// Whether a connection to `address` ends at this listener.
pub(crate) fn reaches(
    address: SocketAddr,
    listener: SocketAddr,
    own: Option<&OwnAddresses>,
) -> bool {
    if address.port() != listener.port() {
        return false;
    }
    let listens_on = listener.ip().to_canonical();
    let ip = address.ip().to_canonical();
    // A connection to the unspecified address is one to the machine itself.
    let is_local = ip.is_loopback()
        || ip.is_unspecified()
        || own.is_some_and(|own| matches!(own.belonging(ip), Some(Belonging::Itself(_))));
    ip == listens_on
        || (listens_on.is_unspecified() && is_local)
        || (ip.is_unspecified() && listens_on.is_loopback())
}

fn on_link() -> std::io::Result<Vec<IpNet>> {
    let networks = if_addrs::get_if_addrs()?
        .into_iter()
        .filter_map(|interface| match interface.addr {
            IfAddr::V4(v4) => Ipv4Net::new(v4.ip, v4.prefixlen).ok().map(IpNet::V4),
            IfAddr::V6(v6) => Ipv6Net::new(v6.ip, v6.prefixlen).ok().map(IpNet::V6),
        })
        // An interface without a mask says nothing of its network; all addresses would lie in it.
        .map(|network| {
            if network.prefix_len() == 0 {
                IpNet::from(network.addr())
            } else {
                network
            }
        })
        .collect();
    Ok(networks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(text: &str) -> SocketAddr {
        text.parse().expect("a socket address")
    }

    #[test]
    fn this_machines_own_addresses_are_known() {
        let own = OwnAddresses::read().expect("interfaces");
        assert!(matches!(
            own.belonging("127.0.0.1".parse().expect("an address")),
            Some(Belonging::Itself(_))
        ));
        assert_eq!(
            own.belonging("93.184.216.34".parse().expect("an address")),
            None
        );
    }

    #[test]
    fn a_listener_on_all_addresses_is_reached_by_every_local_one() {
        for (address, listener, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:81", "127.0.0.1:80", false),
            ("127.0.0.9:80", "0.0.0.0:80", true),
            ("127.0.0.1:80", "[::]:80", true),
            ("[::1]:80", "[::]:80", true),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("[::]:80", "[::1]:80", true),
            ("93.184.216.34:80", "0.0.0.0:80", false),
        ] {
            assert_eq!(
                reaches(socket(address), socket(listener), None),
                expected,
                "{address} {listener}"
            );
        }
    }
}
