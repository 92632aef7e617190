//! Lists of hosts, in the form that fetch-proxy reads.

use url::Host;

use crate::{Error, error::shown};

/// Entries of one list.
const MAX_HOSTS: usize = 64;

/// Reads a list: `example.org` for one host, `*.example.org` for all below it. Names come out in lower case and ASCII.
pub(crate) fn parse(field: &'static str, entries: &[String]) -> Result<Vec<String>, Error> {
    if entries.len() > MAX_HOSTS {
        let count = entries.len();
        return Err(Error::invalid(
            field,
            format_args!("{count} hosts are too many; at most {MAX_HOSTS} are allowed"),
        ));
    }
    let mut hosts = Vec::with_capacity(entries.len());
    for entry in entries {
        let host = host(entry).ok_or_else(|| {
            let entry = shown(entry);
            Error::invalid(
                field,
                format_args!(
                    "{entry:?} is not a host; write example.org, or *.example.org for all hosts below it"
                ),
            )
        })?;
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    Ok(hosts)
}

fn host(entry: &str) -> Option<String> {
    let (prefix, name) = match entry.strip_prefix("*.") {
        Some(name) => ("*.", name),
        None => ("", entry),
    };
    if name.contains(['*', '/', '@', ' ']) {
        return None;
    }
    match Host::parse(name).ok()? {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(&name);
            let is_name = name.len() <= 253 && !name.split('.').any(str::is_empty);
            is_name.then(|| format!("{prefix}{name}"))
        }
        address @ (Host::Ipv4(_) | Host::Ipv6(_)) => prefix.is_empty().then(|| address.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: &[&str]) -> Result<Vec<String>, Error> {
        let entries: Vec<String> = entries.iter().map(|&entry| entry.to_owned()).collect();
        parse("fetch_hosts", &entries)
    }

    #[test]
    fn hosts_are_kept_as_they_are_compared() {
        assert_eq!(
            read(&[
                "Example.ORG.",
                "*.docs.example",
                "example.org",
                "münchen.de",
                "93.184.216.34"
            ])
            .expect("hosts"),
            [
                "example.org",
                "*.docs.example",
                "xn--mnchen-3ya.de",
                "93.184.216.34"
            ]
        );
    }

    #[test]
    fn what_is_more_than_a_host_is_refused_with_the_field() {
        for bad in [
            "",
            "*",
            "*.",
            "a.*.b",
            "https://a.example",
            "a.example:443",
            "*.1.2.3.4",
            "a b",
            &"x".repeat(300),
        ] {
            let error = read(&[bad]).expect_err(bad);
            assert_eq!(error.field(), Some("fetch_hosts"));
        }
        assert!(read(&["a.example"; 65]).is_err());
    }
}
