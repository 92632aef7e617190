//! A server's URL: whole for the vault, masked for everybody else.

use kernel::{Secret, strip_control};
use outbound::{Schemes, Target, URL_BYTES};
use url::{Url, form_urlencoded};

use crate::Error;

/// What stands for a secret value where it is shown.
const MASK: &str = "***";
/// Characters of a query parameter's name that are shown.
const NAME_CHARS: usize = 64;

/// A URL that a server may have, as far as can be said without a look-up.
#[derive(Debug, Clone)]
pub(crate) struct McpUrl {
    /// With everything in it.
    pub(crate) whole: Secret,
    /// With the values of its query masked.
    pub(crate) shown: String,
    /// The names of the query's parameters that have a value.
    pub(crate) query_names: Vec<String>,
    /// Where it leads, to be judged.
    pub(crate) target: Target,
}

impl McpUrl {
    /// Reads a URL. No error shows it: its query may hold a key.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let invalid = |what: &str| Error::invalid("url", what);
        let text = text.trim();
        if text.is_empty() {
            return Err(invalid(
                "it is empty; an http or sse server has a URL, such as https://mcp.example/mcp",
            ));
        }
        if text.len() > URL_BYTES {
            let bytes = text.len();
            return Err(Error::invalid(
                "url",
                format_args!("{bytes} bytes are too many; at most {URL_BYTES} are allowed"),
            ));
        }
        if text.contains(|c: char| c.is_control() || c.is_whitespace()) {
            return Err(invalid(
                "it has spaces or control characters in it; write them as %20 and the like, or leave them out",
            ));
        }
        let mut url = Url::parse(text).map_err(|problem| {
            Error::invalid(
                "url",
                format_args!("that is not a URL: {problem}; write https://host/path"),
            )
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid(
                "it has a user name or a password before the @; put it in a header, such as Authorization: Basic …",
            ));
        }
        if url.fragment().is_some() {
            return Err(invalid(
                "it has a fragment, which is never sent; leave out the # and what follows it",
            ));
        }
        let target = Target::of(&url, Schemes::HttpAndHttps)
            .map_err(|refusal| Error::invalid("url", refusal))?;
        let whole = Secret::new(url.as_str());
        let masked = url.query().map(Masked::of).transpose()?;
        let query_names = match masked {
            Some(masked) => {
                url.set_query(Some(&masked.query));
                masked.names
            }
            None => Vec::new(),
        };
        Ok(Self {
            whole,
            shown: url.into(),
            query_names,
            target,
        })
    }

    /// Whether something of it is not shown.
    pub(crate) fn is_secret(&self) -> bool {
        self.whole.expose() != self.shown
    }
}

/// A query without its values.
struct Masked {
    query: String,
    names: Vec<String>,
}

impl Masked {
    fn of(query: &str) -> Result<Self, Error> {
        let mut names: Vec<String> = Vec::new();
        let mut pieces = Vec::new();
        for piece in query.split('&') {
            match piece.split_once('=') {
                Some((_, "")) => pieces.push(piece.to_owned()),
                Some((raw, value)) => {
                    let name = name(piece);
                    if value == MASK {
                        return Err(placeholder(&format!("the value of {name}")));
                    }
                    pieces.push(format!("{raw}={MASK}"));
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                None if piece.is_empty() => pieces.push(String::new()),
                // Without a name, all of it may be the key.
                None if piece == MASK => return Err(placeholder("its query")),
                None => pieces.push(MASK.to_owned()),
            }
        }
        Ok(Self {
            query: pieces.join("&"),
            names,
        })
    }
}

fn placeholder(what: &str) -> Error {
    Error::invalid(
        "url",
        format_args!(
            "{what} is {MASK}, which only stands for what is not shown; give the whole URL, or leave it out to keep it"
        ),
    )
}

fn name(piece: &str) -> String {
    let decoded = form_urlencoded::parse(piece.as_bytes()).next();
    let decoded = decoded.map(|(name, _)| name).unwrap_or_default();
    strip_control(&decoded)
        .chars()
        .filter(|c| !matches!(c, '\n' | '\t'))
        .take(NAME_CHARS)
        .collect()
}

/// Scheme, host and port of a stored URL: to whom its headers are sent.
pub(crate) fn origin(shown: &str) -> Option<String> {
    let url = Url::parse(shown).ok()?;
    Some(url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_query_are_masked_and_their_names_told() {
        for (whole, shown, names) in [
            ("https://a.example/mcp", "https://a.example/mcp", &[][..]),
            ("https://a.example/mcp?", "https://a.example/mcp?", &[]),
            (
                "https://a.example/mcp?flag=",
                "https://a.example/mcp?flag=",
                &[],
            ),
            (
                "https://a.example/mcp?api_key=s3cret&x=1&&api_key=2",
                "https://a.example/mcp?api_key=***&x=***&&api_key=***",
                &["api_key", "x"],
            ),
            ("https://a.example/?s3cret", "https://a.example/?***", &[]),
            (
                "https://a.example/?a%20b=s=3=cret",
                "https://a.example/?a%20b=***",
                &["a b"],
            ),
            (
                "https://a.example/?=s3cret",
                "https://a.example/?=***",
                &[""],
            ),
            ("HTTPS://A.example:443", "https://a.example/", &[]),
        ] {
            let url = McpUrl::parse(whole).expect(whole);
            assert_eq!(url.shown, shown);
            assert_eq!(url.query_names, names, "{whole}");
            assert_eq!(url.is_secret(), shown.contains("***"), "{whole}");
            assert!(!url.shown.contains("cret"), "{}", url.shown);
            assert!(!format!("{url:?}").contains("s3cret"));
            // What is shown is no URL to save.
            if url.is_secret() {
                McpUrl::parse(&url.shown).expect_err("a placeholder");
            }
        }
    }

    #[test]
    fn what_no_server_can_have_is_refused_in_words_that_show_no_secret() {
        let long = format!("https://a.example/{}", "x".repeat(2_048));
        for (bad, said) in [
            ("", "it is empty"),
            ("mcp.example/s3cret", "that is not a URL"),
            ("https://user:s3cret@a.example/", "put it in a header"),
            ("https://s3cret@a.example/", "put it in a header"),
            ("https://a.example/#s3cret", "it has a fragment"),
            (
                "ftp://a.example/s3cret",
                "only http: and https: are allowed",
            ),
            ("file:///etc/s3cret", "only http: and https: are allowed"),
            (
                "https://a.example/\r\nX: s3cret",
                "spaces or control characters",
            ),
            (
                "https://a.example/a b?s3cret",
                "spaces or control characters",
            ),
            (
                "https://a.example:22/?k=s3cret",
                "belongs to another protocol",
            ),
            (
                "https://a.example/?k=***",
                "only stands for what is not shown",
            ),
            (
                "https://a.example/?***",
                "only stands for what is not shown",
            ),
            (&long, "are too many"),
        ] {
            let error = McpUrl::parse(bad).expect_err(bad);
            assert_eq!(error.field(), Some("url"), "{bad}");
            let sentence = error.to_string();
            assert!(sentence.contains(said), "{bad}: {sentence}");
            assert!(!sentence.contains("s3cret"), "{sentence}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let same = |a: &str, b: &str| origin(a) == origin(b);
        assert!(same("https://a.example/x", "https://a.example:443/y?k=***"));
        for other in [
            "http://a.example/",
            "https://a.example:8443/",
            "https://b.example/",
            "",
        ] {
            assert!(!same("https://a.example/", other), "{other}");
        }
    }
}
