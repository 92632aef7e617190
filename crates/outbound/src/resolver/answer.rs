//! What one answer of DNS says.

use std::{net::IpAddr, time::Duration};

use hickory_resolver::{
    lookup::Lookup,
    net::{DnsError, NetError},
    proto::{
        op::ResponseCode,
        rr::{DNSClass, Name, RData, Record, RecordType},
    },
};

use crate::error::heard;

/// Aliases that are followed, one from another.
const MAX_ALIASES: usize = 8;

/// The addresses of one family, and how long they may be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definite {
    /// None if DNS says for certain that there are none. Those of more than one record may repeat.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) ttl: Duration,
}

/// What the answer says for certain, or why it does not.
pub(super) fn definite(
    name: &Name,
    family: RecordType,
    answer: Result<Lookup, NetError>,
) -> Result<Definite, String> {
    match answer {
        Ok(lookup) => {
            let found = owned(name, lookup.answers(), family);
            if found.addresses.is_empty() {
                Err("DNS answered with records of another name or kind".to_owned())
            } else {
                Ok(found)
            }
        }
        Err(NetError::Dns(DnsError::NoRecordsFound(absent))) => {
            let is_certain = matches!(
                absent.response_code,
                ResponseCode::NoError | ResponseCode::NXDomain
            );
            // Servers of another zone instead of an answer: a referral, which says nothing of the name.
            let is_referral = absent.ns.is_some() && absent.soa.is_none();
            if is_certain && !is_referral {
                Ok(Definite {
                    addresses: Vec::new(),
                    ttl: seconds(absent.negative_ttl.unwrap_or(u32::MAX)),
                })
            } else {
                Err("DNS gave no definite answer".to_owned())
            }
        }
        Err(NetError::Timeout) => Err("DNS did not answer in time".to_owned()),
        Err(NetError::Dns(DnsError::ResponseCode(code))) => Err(format!("DNS answered {code}")),
        Err(other) => Err(heard(other)),
    }
}

/// The addresses that a name has in an answer, itself or by its aliases. What else stands there was not asked for: addresses of
/// other names, of the other family, in other classes.
fn owned(name: &Name, answers: &[Record], family: RecordType) -> Definite {
    let mut owner = name;
    let mut ttl = u32::MAX;
    for _ in 0..MAX_ALIASES {
        let alias = of(answers, owner, RecordType::CNAME).find_map(|record| {
            if let RData::CNAME(target) = &record.data {
                Some((&target.0, record.ttl))
            } else {
                None
            }
        });
        let Some((target, alias_ttl)) = alias else {
            break;
        };
        owner = target;
        ttl = ttl.min(alias_ttl);
    }
    let mut addresses = Vec::new();
    for record in of(answers, owner, family) {
        addresses.extend(record.data.ip_addr());
        ttl = ttl.min(record.ttl);
    }
    Definite {
        addresses,
        ttl: seconds(ttl),
    }
}

fn of<'a>(
    answers: &'a [Record],
    owner: &'a Name,
    kind: RecordType,
) -> impl Iterator<Item = &'a Record> {
    answers.iter().filter(move |record| {
        record.dns_class == DNSClass::IN && record.record_type() == kind && record.name == *owner
    })
}

fn seconds(ttl: u32) -> Duration {
    Duration::from_secs(u64::from(ttl))
}
