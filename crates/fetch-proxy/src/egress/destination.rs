//! Where a request wants to go, read strictly: what two programs could read in two ways is refused.

use http::{Method, StatusCode, Uri};
use outbound::{Rule, Security, Target};
use url::Host;

use super::denial::Denial;

/// Bytes of the longest URI. Package indexes and object stores sign theirs, so that they are longer than a page's.
const URI_BYTES: usize = 8 * 1_024;
/// Bytes of the longest authority: a name of 253, a dot, and a port.
const AUTHORITY_BYTES: usize = 300;
/// The port of an absolute URI that names none.
const HTTP_PORT: u16 = 80;

/// How a request names where it wants to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `CONNECT host:port`.
    Connect,
    /// `GET http://host/path`.
    Absolute,
    /// No form of a proxy's request.
    Other,
}

impl Form {
    /// The word in records.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Absolute => "absolute",
            Self::Other => "other",
        }
    }

    /// The form of a request.
    pub(super) fn of(method: &Method, uri: &Uri) -> Self {
        if *method == Method::CONNECT {
            Self::Connect
        } else if uri.scheme().is_some() {
            Self::Absolute
        } else {
            Self::Other
        }
    }
}

/// The target of a request.
pub(super) fn target(method: &Method, uri: &Uri) -> Result<Target, Denial> {
    match Form::of(method, uri) {
        Form::Connect => of_connect(uri),
        Form::Absolute => of_absolute(uri),
        Form::Other => Err(Denial::new(
            StatusCode::BAD_REQUEST,
            "form",
            "this is an HTTP proxy: ask for http://HOST/PATH, or for a tunnel with CONNECT HOST:PORT",
        )),
    }
}

fn of_connect(uri: &Uri) -> Result<Target, Denial> {
    if uri.scheme().is_some() || uri.path_and_query().is_some() {
        return Err(Denial::malformed(
            "CONNECT takes HOST:PORT and nothing else",
        ));
    }
    let authority = uri.authority().map(http::uri::Authority::as_str);
    of_authority(authority.unwrap_or_default(), None)
}

fn of_absolute(uri: &Uri) -> Result<Target, Denial> {
    if uri.scheme() != Some(&http::uri::Scheme::HTTP) {
        return Err(Denial::new(
            StatusCode::BAD_REQUEST,
            Rule::Scheme.as_str(),
            "only http: URLs are asked for so; what is encrypted goes through a tunnel: CONNECT HOST:443",
        ));
    }
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    if authority.len() + path.len() > URI_BYTES {
        return Err(Denial::new(
            StatusCode::BAD_REQUEST,
            Rule::UrlTooLong.as_str(),
            format!("the URL is longer than {URI_BYTES} bytes"),
        ));
    }
    of_authority(authority, Some(HTTP_PORT))
}

/// The target that an authority names; without a port in it, on the usual one.
fn of_authority(text: &str, usual_port: Option<u16>) -> Result<Target, Denial> {
    if text.len() > AUTHORITY_BYTES {
        return Err(Denial::new(
            StatusCode::BAD_REQUEST,
            Rule::NameTooLong.as_str(),
            "the host is longer than any name",
        ));
    }
    if text.contains('@') {
        return Err(Denial::new(
            StatusCode::BAD_REQUEST,
            Rule::Userinfo.as_str(),
            "leave out what stands before the @",
        ));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('%') {
        return Err(Denial::malformed(
            "a host is written in ASCII and not percent-encoded; other alphabets as xn--…",
        ));
    }
    let (host, port) = split(text).ok_or_else(|| {
        Denial::malformed("the host cannot be read; write HOST:PORT, an IPv6 address in brackets")
    })?;
    let port = match (port, usual_port) {
        (Some(port), _) => parse_port(port)
            .ok_or_else(|| Denial::malformed("the port is no number from 1 to 65535"))?,
        (None, Some(usual)) => usual,
        (None, None) => {
            return Err(Denial::malformed(
                "CONNECT takes HOST:PORT; there is no port",
            ));
        }
    };
    Target::new(Host::Domain(host.to_owned()), port, Security::Plain)
        .map_err(|refusal| Denial::unreadable(&refusal))
}

/// Host, and port if there is a colon for one. Brackets stand around an IPv6 address and nowhere else.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    let (host, port) = if text.starts_with('[') {
        let end = text.find(']')? + 1;
        let (host, rest) = text.split_at(end);
        let inside = &host[1..host.len() - 1];
        inside.parse::<std::net::Ipv6Addr>().ok()?;
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return None,
        }
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let is_plain = text.starts_with('[') || !host.contains(['[', ']']);
    (!host.is_empty() && is_plain).then_some((host, port))
}

/// Digits alone; no sign, nothing that overflows. Zero is the guard's to refuse.
fn parse_port(text: &str) -> Option<u16> {
    let is_plain = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &Method, uri: &str) -> Result<String, (u16, &'static str)> {
        // What cannot even be a URI is refused where heads are read.
        let Ok(uri) = uri.parse() else {
            return Err((400, "malformed"));
        };
        target(method, &uri)
            .map(|target| target.to_string())
            .map_err(|denial| (denial.status.as_u16(), denial.rule))
    }

    #[test]
    fn a_tunnels_destination_is_a_host_and_a_port_in_any_spelling_of_its_address() {
        for (uri, expected) in [
            ("example.com:443", "example.com:443"),
            ("EXAMPLE.com.:443", "example.com:443"),
            ("[2606:4700::1]:443", "[2606:4700::1]:443"),
            ("[::FFFF:127.0.0.1]:443", "[::ffff:7f00:1]:443"),
            ("2130706433:80", "127.0.0.1:80"),
            ("0x7f.1:80", "127.0.0.1:80"),
            ("0177.0.0.01:80", "127.0.0.1:80"),
            ("localhost.:80", "localhost:80"),
        ] {
            assert_eq!(
                read(&Method::CONNECT, uri),
                Ok(expected.to_owned()),
                "{uri}"
            );
        }
    }

    #[test]
    fn bracket_tricks_and_other_oddities_of_an_authority_are_malformed() {
        let long = format!("{}:443", "a".repeat(400));
        for uri in [
            "[[::1]]:443",
            "[localhost]:443",
            "[127.0.0.1]:443",
            "[::1:443",
            "::1]:443",
            "::1:443",
            "[::1]443",
            "[::1]:443]:80",
            "[fe80::1%25eth0]:443",
            "[fe80::1%eth0]:443",
            "[::1%lo]:443",
            "[]:443",
            "[v1.a]:443",
            "a[::1]:443",
            ":443",
            "example.com:",
            "example.com",
            "example.com:443:443",
            "example.com:+443",
            "example.com:0x1bb",
            "example.com:99999",
            "example.com:443443",
            "example.com:44 3",
            "exa mple.com:443",
            "%6cocalhost:443",
            "１２７.0.0.1:443",
            "localhost\u{3002}:443",
            "a..b:443",
            "1.2.3.4.5:443",
            "/path",
            "*",
            "http://example.com:443/",
            "example.com:443/path",
            "example.com:443?x",
            &long,
        ] {
            let refused = read(&Method::CONNECT, uri).expect_err(uri);
            assert_eq!(refused.0, 400, "{uri} {refused:?}");
        }
        assert_eq!(
            read(&Method::CONNECT, "user:pw@example.com:443"),
            Err((400, "userinfo"))
        );
        assert_eq!(read(&Method::CONNECT, "example.com:0"), Err((403, "port")));
        assert_eq!(read(&Method::CONNECT, "example.com:25"), Err((403, "port")));
    }

    #[test]
    fn an_absolute_uri_is_plain_http_and_every_other_form_is_none_of_a_proxy() {
        assert_eq!(
            read(&Method::GET, "http://example.com/a?b"),
            Ok("example.com:80".to_owned())
        );
        assert_eq!(
            read(&Method::POST, "http://[::1]:8080"),
            Ok("[::1]:8080".to_owned())
        );
        for (uri, rule) in [
            ("https://example.com/", "scheme"),
            ("ftp://example.com/", "scheme"),
            ("/path", "form"),
            ("*", "form"),
            ("example.com", "form"),
            ("example.com:80", "form"),
            ("http://user@example.com/", "userinfo"),
            ("http://user:pw@example.com/", "userinfo"),
            ("http://example.com:/", "malformed"),
            ("http://[localhost]/", "malformed"),
            ("http://[[::1]]/", "malformed"),
            ("http:///path", "malformed"),
            ("http://a b/", "malformed"),
            ("http://example.com\\@evil.example/", "malformed"),
        ] {
            assert_eq!(read(&Method::GET, uri), Err((400, rule)), "{uri}");
        }
        let long = format!("http://example.com/{}", "a".repeat(URI_BYTES));
        assert_eq!(read(&Method::GET, &long), Err((400, "url-too-long")));
    }
}
