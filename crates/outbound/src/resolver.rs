//! Names to addresses: all of them or none.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use hickory_resolver::{
    TokioResolver,
    config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts},
    lookup::Lookup,
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::{op::ResponseCode, rr::Name},
    system_conf::read_system_conf,
};

use crate::Error;

/// How long a look-up may take, both families and all retries.
pub const LOOK_UP_TIME: Duration = Duration::from_secs(2);
/// One try at one server.
const TRY_TIME: Duration = Duration::from_millis(900);
/// More addresses than this is no honest answer, and each would be judged.
const MAX_ADDRESSES: usize = 256;
/// How long an answer may be kept, whatever it says: an address that was public an hour ago may be ours now.
const MAX_TTL: Duration = Duration::from_mins(1);
/// Answers kept.
const CACHED_ANSWERS: u64 = 1_024;

/// Asks DNS and nothing else: no hosts file, no search list, and no public server when the machine has none.
#[derive(Debug)]
pub struct Resolver {
    /// What is wrong with this machine's DNS settings, if they cannot be used.
    resolver: Result<TokioResolver, String>,
}

impl Resolver {
    /// A resolver that asks this server, or those of `/etc/resolv.conf`. A machine without any still gets a resolver; its
    /// look-ups fail and say so.
    pub fn new(nameserver: Option<SocketAddr>) -> Self {
        let resolver = build(nameserver).map_err(|problem| problem.to_string());
        if let Err(problem) = &resolver {
            tracing::warn!(
                problem,
                "this machine has no usable DNS server; names will not resolve"
            );
        }
        Self { resolver }
    }

    /// Every address of a name, IPv6 first. Both families are asked, and both answers must be definite: an answer that is
    /// missing could be the private one.
    pub async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, Error> {
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
            resolver.ipv4_lookup(absolute),
        );
        let (v6, v4) = tokio::time::timeout(LOOK_UP_TIME, both)
            .await
            .map_err(|_elapsed| {
                unresolvable(format!(
                    "DNS did not answer within {} seconds",
                    LOOK_UP_TIME.as_secs()
                ))
            })?;
        let mut addresses = definite(v6).map_err(|why| unresolvable(format!("IPv6: {why}")))?;
        addresses.extend(definite(v4).map_err(|why| unresolvable(format!("IPv4: {why}")))?);
        addresses.dedup();
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
        Ok(addresses)
    }
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
    options.cache_size = CACHED_ANSWERS;
    options.positive_max_ttl = Some(MAX_TTL);
    options.negative_max_ttl = Some(MAX_TTL);
}

/// The addresses of one family; none if DNS says for certain that there are none.
fn definite(answer: Result<Lookup, NetError>) -> Result<Vec<IpAddr>, String> {
    match answer {
        Ok(lookup) => Ok(lookup
            .answers()
            .iter()
            .filter_map(|record| record.data.ip_addr())
            .collect()),
        Err(NetError::Dns(DnsError::NoRecordsFound(absent))) => {
            let is_certain = matches!(
                absent.response_code,
                ResponseCode::NoError | ResponseCode::NXDomain
            );
            // Servers of another zone instead of an answer: a referral, which says nothing of the name.
            let is_referral = absent.ns.is_some() && absent.soa.is_none();
            if is_certain && !is_referral {
                Ok(Vec::new())
            } else {
                Err("DNS gave no definite answer".to_owned())
            }
        }
        Err(NetError::Timeout) => Err("DNS did not answer in time".to_owned()),
        Err(NetError::Dns(DnsError::ResponseCode(code))) => Err(format!("DNS answered {code}")),
        Err(other) => Err(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_machine_without_dns_gets_a_resolver_that_says_so() {
        let resolver = Resolver {
            resolver: Err("no nameservers found in config".to_owned()),
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
