//! What belongs to this machine and this Village.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use if_addrs::IfAddr;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use kernel::{Clock, Timestamp};

/// How old the list of this machine's addresses may be. They change when networks are joined, and reading them costs some
/// tens of microseconds.
const MAX_AGE: Duration = Duration::from_secs(30);

/// The number of the loopback interface, whatever it is called (`LOOPBACK_IFINDEX` of Linux).
const LOOPBACK_INDEX: u32 = 1;

/// Reads the addresses of a machine.
type Reader = Box<dyn Fn() -> io::Result<Vec<Interface>> + Send + Sync>;

/// A machine's addresses, each with the network that it is on.
pub(crate) struct OwnAddresses {
    read: Reader,
    clock: Arc<dyn Clock>,
    snapshot: RwLock<Snapshot>,
}

#[derive(Debug)]
struct Snapshot {
    taken: Timestamp,
    interfaces: Vec<Interface>,
}

/// One address of one interface.
#[derive(Debug, Clone, Copy)]
struct Interface {
    /// The address, with the length of its network's prefix.
    network: IpNet,
    /// Whether it is the loopback interface: Linux then takes every address of the network for the machine's own, as it takes
    /// all of 127.0.0.0/8.
    is_loopback: bool,
}

impl Interface {
    fn is_reached_at(&self, address: IpAddr) -> bool {
        self.network.addr() == address || (self.is_loopback && self.network.contains(&address))
    }
}

/// How an address belongs to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Belonging {
    /// It is one of the machine's, where a connection ends at the machine itself.
    Itself,
    /// It lies in a network that the machine is on.
    OnLink(IpNet),
}

impl OwnAddresses {
    /// The addresses of the machine that this runs on, now and as they change.
    pub(crate) fn of_this_machine(clock: Arc<dyn Clock>) -> io::Result<Self> {
        Self::read_by(Box::new(interfaces), clock)
    }

    fn read_by(read: Reader, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let snapshot = Snapshot {
            taken: clock.now(),
            interfaces: read()?,
        };
        Ok(Self {
            read,
            clock,
            snapshot: RwLock::new(snapshot),
        })
    }

    /// The addresses of a machine that never changes.
    #[cfg(test)]
    pub(crate) fn fixed(networks: &[&str]) -> Self {
        let interfaces: Vec<Interface> = networks
            .iter()
            .map(|text| Interface {
                network: text.parse().expect("a network"),
                is_loopback: false,
            })
            .collect();
        Self::read_by(
            Box::new(move || Ok(interfaces.clone())),
            Arc::new(kernel::SystemClock),
        )
        .expect("they are at hand")
    }

    /// How the address belongs to the machine, as of at most [`MAX_AGE`] ago.
    pub(crate) fn belonging(&self, address: IpAddr) -> Option<Belonging> {
        self.refresh_if_old();
        let snapshot = self.snapshot.read().unwrap_or_else(PoisonError::into_inner);
        let mut interfaces = snapshot.interfaces.iter();
        if interfaces.clone().any(|own| own.is_reached_at(address)) {
            return Some(Belonging::Itself);
        }
        interfaces
            .find(|own| own.network.contains(&address))
            .map(|own| Belonging::OnLink(own.network.trunc()))
    }

    fn refresh_if_old(&self) {
        let now = self.clock.now();
        // A clock that was set back must not keep an old list alive.
        let is_old =
            |snapshot: &Snapshot| now < snapshot.taken || now.since(snapshot.taken) > MAX_AGE;
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
        match (self.read)() {
            Ok(interfaces) => snapshot.interfaces = interfaces,
            Err(problem) => {
                tracing::warn!(%problem, "this machine's network addresses cannot be read; the last known ones stay refused");
            }
        }
        snapshot.taken = now;
    }
}

impl fmt::Debug for OwnAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnAddresses")
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
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
        || own.is_some_and(|own| own.belonging(ip) == Some(Belonging::Itself));
    ip == listens_on
        || (listens_on.is_unspecified() && is_local)
        || (ip.is_unspecified() && listens_on.is_loopback())
}

fn interfaces() -> io::Result<Vec<Interface>> {
    let interfaces = if_addrs::get_if_addrs()?
        .into_iter()
        .filter_map(|interface| {
            let network = match interface.addr {
                IfAddr::V4(v4) => Ipv4Net::new(v4.ip, v4.prefixlen).ok().map(IpNet::V4),
                IfAddr::V6(v6) => Ipv6Net::new(v6.ip, v6.prefixlen).ok().map(IpNet::V6),
            }?;
            Some(Interface {
                // An interface without a mask says nothing of its network; all addresses would lie in it.
                network: if network.prefix_len() == 0 {
                    IpNet::from(network.addr())
                } else {
                    network
                },
                is_loopback: interface.index == Some(LOOPBACK_INDEX),
            })
        })
        .collect();
    Ok(interfaces)
}

#[cfg(test)]
mod tests;
