//! Names to addresses: all of them or none.

mod answer;
mod memory;

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hickory_resolver::{
    TokioResolver,
    config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts},
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::rr::{Name, RecordType},
    system_conf::read_system_conf,
};
use kernel::{Clock, SystemClock};

use self::{answer::definite, memory::Memory};
use crate::Error;

/// How long a look-up may take, both families and all retries.
pub const LOOK_UP_TIME: Duration = Duration::from_secs(2);
/// One try at one server.
const TRY_TIME: Duration = Duration::from_millis(900);
/// More addresses than this is no honest answer, and each would be judged.
const MAX_ADDRESSES: usize = 256;

/// Asks DNS and nothing else: no hosts file, no search list, and no public server when the machine has none.
#[derive(Debug)]
pub struct Resolver {
    /// What is wrong with this machine's DNS settings, if they cannot be used.
    resolver: Result<TokioResolver, String>,
    memory: Memory,
}

impl Resolver {
    /// A resolver that asks this server, or those of `/etc/resolv.conf`. A machine without any still gets a resolver; its
    /// look-ups fail and say so.
    pub fn new(nameserver: Option<SocketAddr>) -> Self {
        Self::with_clock(nameserver, Arc::new(SystemClock))
    }

    /// A resolver that keeps answers by this clock.
    pub fn with_clock(nameserver: Option<SocketAddr>, clock: Arc<dyn Clock>) -> Self {
        let resolver = build(nameserver).map_err(|problem| problem.to_string());
        if let Err(problem) = &resolver {
            tracing::warn!(
                problem,
                "this machine has no usable DNS server; names will not resolve"
            );
        }
        Self {
            resolver,
            memory: Memory::new(clock),
        }
    }

    /// Every address of a name, IPv6 first. Both families are asked, and both answers must be definite: an answer that is
    /// missing could be the private one. What was answered lately is not asked again for as long as DNS allows, at most a minute.
    pub async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, Error> {
        if let Some(addresses) = self.memory.recall(name) {
            return Ok(addresses);
        }
        let unresolvable = |why: String| Error::Unresolvable {
            host: name.to_owned(),
            why,
        };
        let resolver = self.resolver.as_ref().map_err(|problem| {
            unresolvable(format!(
                "this machine has no working DNS ({problem}); name a server in /etc/resolv.conf or in outbound.nameserver"
            ))
        })?;
        // The dot of the root keeps the search list out.
        let absolute = Name::from_ascii(format!("{name}."))
            .map_err(|problem| unresolvable(format!("DNS cannot ask for it: {problem}")))?;
        let both = futures::future::join(
            resolver.ipv6_lookup(absolute.clone()),
            resolver.ipv4_lookup(absolute.clone()),
        );
        let (v6, v4) = tokio::time::timeout(LOOK_UP_TIME, both)
            .await
            .map_err(|_elapsed| {
                unresolvable(format!(
                    "DNS did not answer within {} seconds",
                    LOOK_UP_TIME.as_secs()
                ))
            })?;
        let v6 = definite(&absolute, RecordType::AAAA, v6)
            .map_err(|why| unresolvable(format!("IPv6: {why}")))?;
        let v4 = definite(&absolute, RecordType::A, v4)
            .map_err(|why| unresolvable(format!("IPv4: {why}")))?;
        let ttl = v6.ttl.min(v4.ttl);
        let addresses = [v6.addresses, v4.addresses].concat();
        if addresses.is_empty() {
            return Err(unresolvable(
                "DNS says that it does not exist or has no address".to_owned(),
            ));
        }
        if addresses.len() > MAX_ADDRESSES {
            return Err(unresolvable(format!(
                "DNS gave {} addresses, and at most {MAX_ADDRESSES} are taken",
                addresses.len()
            )));
        }
        let addresses = without_repetitions(addresses);
        self.memory.keep(name, &addresses, ttl);
        Ok(addresses)
    }
}

fn without_repetitions(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let mut distinct = Vec::new();
    for address in addresses {
        if !distinct.contains(&address) {
            distinct.push(address);
        }
    }
    distinct
}

fn build(nameserver: Option<SocketAddr>) -> Result<TokioResolver, NetError> {
    let servers = match nameserver {
        // The servers alone: neither the machine's domain nor its search list has a say.
        None => read_system_conf()?.0.into_parts().2,
        Some(address) => {
            let mut server = NameServerConfig::udp_and_tcp(address.ip());
            for connection in &mut server.connections {
                connection.port = address.port();
            }
            vec![server]
        }
    };
    let mut builder = TokioResolver::builder_with_config(
        ResolverConfig::from_name_servers(servers),
        TokioRuntimeProvider::default(),
    );
    tune(builder.options_mut());
    builder.build()
}

fn tune(options: &mut ResolverOpts) {
    options.use_hosts_file = ResolveHosts::Never;
    options.timeout = TRY_TIME;
    options.attempts = 1;
    options.try_tcp_on_error = true;
    // Its own memory forgets which alias an answer came by; ours does not.
    options.cache_size = 0;
    options.preserve_intermediates = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_machine_without_dns_gets_a_resolver_that_says_so() {
        let resolver = Resolver {
            resolver: Err("no nameservers found in config".to_owned()),
            memory: Memory::new(Arc::new(SystemClock)),
        };
        assert_eq!(
            resolver.look_up("example.com").await,
            Err(Error::Unresolvable {
                host: "example.com".to_owned(),
                why: "this machine has no working DNS (no nameservers found in config); name a server in /etc/resolv.conf or in outbound.nameserver".to_owned(),
            })
        );
    }

    #[test]
    fn a_resolver_for_this_machine_can_be_made_whatever_its_settings() {
        let resolver = Resolver::new(None);
        if let Ok(resolver) = &resolver.resolver {
            assert_eq!(resolver.options().use_hosts_file, ResolveHosts::Never);
        }
    }
}
