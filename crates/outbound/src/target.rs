//! Where a connection is to go, read from a URL.

use std::{fmt, net::IpAddr};

use url::{Host, Url};

use crate::{Refusal, Rule, name};

/// The longest URL, in bytes as it is sent. Longer ones are for smuggling data out rather than for naming a page.
pub const URL_BYTES: usize = 2_048;

/// The ports that the Fetch Standard refuses ("bad port", fetch.spec.whatwg.org section 2.9), because a request would be
/// understood by the protocol that lives there.
pub(crate) const BAD_PORTS: [u16; 83] = [
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101,
    102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427,
    465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990,
    993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667,
    6668, 6669, 6679, 6697, 10080,
];

/// Whether the connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Security {
    /// TLS, with the host's name checked.
    Tls,
    /// Nothing.
    Plain,
}

/// Which URL schemes a caller takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schemes {
    /// `https` alone: `fetch_url`.
    Https,
    /// `http` and `https`: MCP Servers, which live inside networks too.
    HttpAndHttps,
}

/// A host and a port to connect to. The host is an address, or a name that DNS can have, in lower case, in ASCII and without the
/// dot of the root. It has not been judged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    host: Host<String>,
    port: u16,
    security: Security,
}

impl Target {
    /// Reads a URL as a person, a model or a server wrote it.
    pub fn parse(text: &str, schemes: Schemes) -> Result<(Url, Self), Refusal> {
        // Before parsing: the parser's work grows with the text.
        if text.len() > URL_BYTES {
            return Err(too_long(text.len()));
        }
        let url = Url::parse(text).map_err(|problem| Refusal::malformed(&problem.to_string()))?;
        let target = Self::of(&url, schemes)?;
        Ok((url, target))
    }

    /// The target of a parsed URL, for instance one that a redirect led to.
    pub fn of(url: &Url, schemes: Schemes) -> Result<Self, Refusal> {
        // First as in `parse`, so that a text and what it is written out as are refused by the same rule.
        let length = url.as_str().len();
        if length > URL_BYTES {
            return Err(too_long(length));
        }
        let security = match (url.scheme(), schemes) {
            ("https", Schemes::Https | Schemes::HttpAndHttps) => Security::Tls,
            ("http", Schemes::HttpAndHttps) => Security::Plain,
            (other, _) => return Err(refuse_scheme(other, schemes)),
        };
        let Some(host) = url.host() else {
            return Err(Refusal::malformed("it names no host"));
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::new(
                Rule::Userinfo,
                host.to_string(),
                "the URL has a user name or a password in it; leave out what stands before the @",
            ));
        }
        let port = url.port_or_known_default().unwrap_or(match security {
            Security::Tls => 443,
            Security::Plain => 80,
        });
        Self::new(host.to_owned(), port, security)
    }

    /// A target that did not come from a URL, for instance a proxy's `CONNECT`. A name is read as the host of a URL once more, so
    /// that an address in any spelling is an address, whatever the caller took it for.
    pub fn new(host: Host<String>, port: u16, security: Security) -> Result<Self, Refusal> {
        let host = match host {
            Host::Domain(name) => match Host::parse(&name) {
                Ok(Host::Domain(name)) => Host::Domain(checked_name(&name)?),
                Ok(address @ (Host::Ipv4(_) | Host::Ipv6(_))) => address,
                Err(problem) => return Err(Refusal::malformed(&problem.to_string())),
            },
            address @ (Host::Ipv4(_) | Host::Ipv6(_)) => address,
        };
        if BAD_PORTS.contains(&port) {
            return Err(Refusal::new(
                Rule::Port,
                host.to_string(),
                format!(
                    "port {port} belongs to another protocol, and no client connects to it for HTTP; use another"
                ),
            ));
        }
        Ok(Self {
            host,
            port,
            security,
        })
    }

    /// The host.
    pub fn host(&self) -> &Host<String> {
        &self.host
    }

    /// The host's name, unless it is an address.
    pub fn name(&self) -> Option<&str> {
        match &self.host {
            Host::Domain(name) => Some(name),
            Host::Ipv4(_) | Host::Ipv6(_) => None,
        }
    }

    /// The host's address, unless it is a name.
    pub fn address(&self) -> Option<IpAddr> {
        match &self.host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(IpAddr::V4(*address)),
            Host::Ipv6(address) => Some(IpAddr::V6(*address)),
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the connection is encrypted.
    pub fn security(&self) -> Security {
        self.security
    }
}

impl fmt::Display for Target {
    /// `host:port`, as the `Host` header and a tunnel's `CONNECT` have it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The name without the dot of the root, if DNS can have it.
fn checked_name(name: &str) -> Result<String, Refusal> {
    let lower = name.to_ascii_lowercase();
    let name = lower.strip_suffix('.').unwrap_or(&lower);
    match name::fault(name) {
        None => Ok(name.to_owned()),
        Some(rule) => Err(Refusal::new(
            rule,
            name.to_owned(),
            "it is not a name that DNS can have: labels have 1 to 63 bytes, and a name at most 253",
        )),
    }
}

fn refuse_scheme(scheme: &str, schemes: Schemes) -> Refusal {
    let allowed = match schemes {
        Schemes::Https => "only https: is allowed",
        Schemes::HttpAndHttps => "only http: and https: are allowed",
    };
    let shown: String = scheme.chars().take(32).collect();
    Refusal::without_host(
        Rule::Scheme,
        format!("the URL's scheme is {shown:?}, and {allowed}"),
    )
}

fn too_long(length: usize) -> Refusal {
    Refusal::without_host(
        Rule::UrlTooLong,
        format!("the URL is {length} bytes long, and at most {URL_BYTES} are allowed"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Result<String, Rule> {
        Target::new(Host::Domain(name.to_owned()), 443, Security::Tls)
            .map(|target| target.host().to_string())
            .map_err(|refusal| refusal.rule)
    }

    #[test]
    fn a_host_that_is_handed_in_as_a_name_is_read_as_a_url_reads_it() {
        for (name, read) in [
            ("Example.COM.", Ok("example.com")),
            ("münchen.de", Ok("xn--mnchen-3ya.de")),
            ("127.0.0.1", Ok("127.0.0.1")),
            ("0x7f.1", Ok("127.0.0.1")),
            ("2130706433.", Ok("127.0.0.1")),
            ("１２７.0.0.1", Ok("127.0.0.1")),
            ("[::ffff:127.0.0.1]", Ok("[::ffff:7f00:1]")),
            ("%6c%6fcalhost", Ok("localhost")),
            ("127.0.0.1..", Err(Rule::EmptyLabel)),
            ("a..b", Err(Rule::EmptyLabel)),
            ("a b", Err(Rule::Malformed)),
            ("a%00b", Err(Rule::Malformed)),
            ("a/b", Err(Rule::Malformed)),
            ("user@b", Err(Rule::Malformed)),
            ("[[::1]]", Err(Rule::Malformed)),
            ("[localhost]", Err(Rule::Malformed)),
            ("[fe80::1%eth0]", Err(Rule::Malformed)),
            ("1.2.3.4.5", Err(Rule::Malformed)),
            ("", Err(Rule::Malformed)),
        ] {
            assert_eq!(host(name), read.map(str::to_owned), "{name}");
        }
    }

    #[test]
    fn a_refusal_of_userinfo_does_not_repeat_it() {
        let url = "https://somebody:secret@example.com/";
        let refusal = Target::parse(url, Schemes::Https).expect_err("it is refused");
        let told = format!("{refusal} {refusal:?}");
        assert!(
            !told.contains("secret") && !told.contains("somebody"),
            "{told}"
        );
    }

    #[test]
    fn the_bound_on_a_url_counts_bytes_as_it_came_and_as_it_is_sent() {
        let length =
            |text: &str| Target::parse(text, Schemes::Https).map_err(|refusal| refusal.rule);
        let base = "https://example.com/";
        let fits = format!("{base}{}", "a".repeat(URL_BYTES - base.len()));
        assert!(length(&fits).is_ok());
        assert_eq!(length(&format!("{fits}a")).err(), Some(Rule::UrlTooLong));
        // Each of these is six bytes as it is sent.
        let encoded = format!("{base}{}", "ä".repeat(400));
        assert_eq!(length(&encoded).err(), Some(Rule::UrlTooLong));
    }
}
