//! The heads of a client's requests, judged as bytes: within bounds, and strictly, so that no two programs on the way read one in two
//! ways (RFC 9112 sections 2.2, 5 and 6.3).

use http::{Method, StatusCode, Uri};

use super::denial::Denial;

/// Bytes of a request's head. A token with a long list of hosts, as a password, is 22 KiB of that.
pub(super) const HEAD_BYTES: usize = 64 * 1_024;
/// Header lines of a request.
pub(super) const HEADER_LINES: usize = 100;

/// Where the body of a request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyLength {
    /// After so many bytes.
    Known(u64),
    /// After the last chunk.
    Chunks,
    /// There is none, and what follows is for the tunnel.
    Tunnel,
}

/// Refuses a head that is too long already, or that cannot become one.
pub(super) fn judge_so_far(head: &[u8]) -> Result<(), Denial> {
    if head.len() > HEAD_BYTES {
        return Err(Denial::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "head-too-long",
            format!("the head of the request is longer than {HEAD_BYTES} bytes"),
        ));
    }
    if head.first().is_some_and(|first| !is_token(*first)) {
        return Err(Denial::malformed("this is not HTTP"));
    }
    Ok(())
}

/// Whether a method can begin so.
fn is_token(byte: u8) -> bool {
    Method::from_bytes(&[byte]).is_ok()
}

/// Where the empty line ends. One that is only half of it counts too, for the sake of a sentence.
pub(super) fn end_of(head: &[u8]) -> Option<usize> {
    let strict = memchr::memmem::find(head, b"\r\n\r\n").map(|at| at + 4);
    let loose = memchr::memmem::find(head, b"\n\n").map(|at| at + 2);
    let mixed = memchr::memmem::find(head, b"\n\r\n").map(|at| at + 3);
    [strict, loose, mixed].into_iter().flatten().min()
}

/// Judges a head, and says where the body ends.
pub(super) fn judge(head: &[u8]) -> Result<BodyLength, Denial> {
    judge_so_far(head)?;
    let refuse = |sentence: &str| Err(Denial::malformed(sentence));
    let Some(head) = head.strip_suffix(b"\r\n\r\n") else {
        return refuse("the lines of a head end in CR LF");
    };
    let mut lines = Vec::new();
    for line in head.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r");
        lines.push(line);
    }
    // The last line lost its end above.
    if let Some(last) = lines.last_mut()
        && last.is_none()
    {
        *last = head.rsplit(|&byte| byte == b'\n').next();
    }
    let Some(lines) = lines.into_iter().collect::<Option<Vec<&[u8]>>>() else {
        return refuse("the lines of a head end in CR LF");
    };
    if lines
        .iter()
        .any(|line| line.contains(&b'\r') || line.contains(&0))
    {
        return refuse("a head holds no CR and no NUL inside its lines");
    }
    let [request, headers @ ..] = &lines[..] else {
        return refuse("there is no request");
    };
    let method = judge_request_line(request)?;
    if headers.len() > HEADER_LINES {
        return Err(Denial::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "head-too-long",
            format!("the request has more than {HEADER_LINES} header lines"),
        ));
    }
    let length = judge_headers(headers)?;
    if method != Method::CONNECT {
        return Ok(length);
    }
    // It would be a body to some, and the tunnel's first bytes to others (RFC 9110 section 9.3.6).
    if length != BodyLength::Known(0) {
        return refuse("CONNECT has no body");
    }
    Ok(BodyLength::Tunnel)
}

fn judge_request_line(line: &[u8]) -> Result<Method, Denial> {
    let refuse = |sentence: &str| Err(Denial::malformed(sentence));
    let parts: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let [method, target, version] = parts[..] else {
        return refuse("the first line is METHOD TARGET HTTP/1.1, with one space between each");
    };
    if !matches!(version, b"HTTP/1.1" | b"HTTP/1.0") {
        return refuse("only HTTP/1.1 and HTTP/1.0 are spoken here");
    }
    let Ok(method) = Method::from_bytes(method) else {
        return refuse("the method is none");
    };
    if !target.iter().all(u8::is_ascii_graphic) {
        return refuse("a target is written in ASCII; a host in another alphabet as xn--…");
    }
    if Uri::try_from(target).is_err() {
        return refuse(
            "the target cannot be read; write http://HOST/PATH, or CONNECT HOST:PORT, an IPv6 address in brackets",
        );
    }
    Ok(method)
}

fn judge_headers(lines: &[&[u8]]) -> Result<BodyLength, Denial> {
    let refuse = |sentence: &str| Err(Denial::malformed(sentence));
    let (mut lengths, mut codings, mut hosts) = (0_usize, 0_usize, 0_usize);
    let mut body = BodyLength::Known(0);
    for line in lines {
        if line
            .first()
            .is_some_and(|first| matches!(first, b' ' | b'\t'))
        {
            return refuse("header lines are not folded");
        }
        let Some(colon) = memchr::memchr(b':', line) else {
            return refuse("a header line has no colon");
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if http::HeaderName::from_bytes(name).is_err() {
            return refuse("a header's name is none; no space stands before the colon");
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            lengths += 1;
            let Some(length) = parse_length(value) else {
                return refuse("Content-Length is no number");
            };
            body = BodyLength::Known(length);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            codings += 1;
            if !value.eq_ignore_ascii_case(b"chunked") {
                return refuse("Transfer-Encoding may be chunked and nothing else");
            }
            body = BodyLength::Chunks;
        } else if name.eq_ignore_ascii_case(b"host") {
            hosts += 1;
        }
    }
    if hosts > 1 {
        return refuse("there is more than one Host");
    }
    if lengths + codings > 1 {
        return refuse("the length of the body is said more than once");
    }
    Ok(body)
}

/// Digits alone.
fn parse_length(value: &[u8]) -> Option<u64> {
    let is_plain = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = is_plain
        .then(|| std::str::from_utf8(value).ok())
        .flatten()?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(head: &[u8]) -> Result<BodyLength, &'static str> {
        let end = end_of(head).unwrap_or(head.len());
        judge(&head[..end]).map_err(|denial| denial.rule)
    }

    #[test]
    fn a_proper_head_says_where_its_body_ends() {
        for (head, length) in [
            (
                "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n",
                BodyLength::Tunnel,
            ),
            ("CONNECT [::1]:443 HTTP/1.1\r\n\r\nrest", BodyLength::Tunnel),
            ("GET http://a.test/ HTTP/1.0\r\n\r\n", BodyLength::Known(0)),
            (
                "POST http://a.test/ HTTP/1.1\r\nContent-Length: 003 \r\n\r\nabc",
                BodyLength::Known(3),
            ),
            (
                "POST http://a.test/ HTTP/1.1\r\ntransfer-encoding: CHUNKED\r\n\r\n0\r\n\r\n",
                BodyLength::Chunks,
            ),
            (
                "GET http://a.test/ HTTP/1.1\r\nX-Empty:\r\n\r\nGET",
                BodyLength::Known(0),
            ),
        ] {
            assert_eq!(told(head.as_bytes()), Ok(length), "{head:?}");
        }
    }

    #[test]
    fn the_shapes_of_smuggled_requests_are_malformed() {
        for head in [
            "GET http://a.test/ HTTP/1.1\nHost: a.test\n\n",
            "GET http://a.test/ HTTP/1.1\r\nHost: a.test\nX: y\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nX: a\rb\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nX: a\0b\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\n X: a\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nContent-Length : 3\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nContent-Length: +3\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nContent-Length: 3, 3\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nno colon\r\n\r\n",
            "GET  http://a.test/ HTTP/1.1\r\n\r\n",
            "GET http://a.test/ HTTP/2.0\r\n\r\n",
            "GET http://a.test/ HTTP/1.1 \r\n\r\n",
            "GET http://a.test/\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "\r\nGET http://a.test/ HTTP/1.1\r\n\r\n",
            "CONNECT [[::1]]:443 HTTP/1.1\r\n\r\n",
            "CONNECT a\u{feff}b:443 HTTP/1.1\r\n\r\n",
            "CONNECT １２７.0.0.1:443 HTTP/1.1\r\n\r\n",
            "\u{16}\u{3}\u{1}\r\n\r\n",
            "CONNECT a.test:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\n",
            "CONNECT a.test:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert_eq!(told(head.as_bytes()), Err("malformed"), "{head:?}");
        }
    }

    #[test]
    fn a_head_has_bounds_on_its_bytes_and_lines() {
        let long = format!(
            "GET http://a.test/ HTTP/1.1\r\nX: {}\r\n\r\n",
            "a".repeat(HEAD_BYTES)
        );
        assert_eq!(told(long.as_bytes()), Err("head-too-long"));
        let many = format!(
            "GET http://a.test/ HTTP/1.1\r\n{}\r\n",
            "X: a\r\n".repeat(101)
        );
        assert_eq!(told(many.as_bytes()), Err("head-too-long"));
        let huge = "POST http://a.test/ HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n";
        assert_eq!(told(huge.as_bytes()), Err("malformed"));
    }
}
