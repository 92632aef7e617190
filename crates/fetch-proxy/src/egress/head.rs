//! The head of a connection's first request, read before anything is kept for the connection: within its time, within its bytes, and
//! strictly, so that no two programs on the way read it in two ways (RFC 9112 sections 2.2, 5 and 6.3).
//!
//! Later requests of the connection are read by hyper alone, which refuses less and says less, but frames them anew: what is sent on
//! never has the client's own framing.

use std::{io, time::Duration};

use bytes::BytesMut;
use http::{StatusCode, Uri};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::timeout,
};

use super::{denial::Denial, pulse::ClientStream};

/// Bytes of a request's head. A token with a long list of hosts, as a password, is 22 KiB of that.
pub(super) const HEAD_BYTES: usize = 64 * 1_024;
/// Header lines of a request.
pub(super) const HEADER_LINES: usize = 100;

/// Why there is no request.
#[derive(Debug)]
pub(super) enum NoHead {
    /// The client said nothing and left, or broke off.
    Gone,
    /// What it said is refused.
    Refused(Denial),
}

impl From<io::Error> for NoHead {
    fn from(_gone: io::Error) -> Self {
        Self::Gone
    }
}

/// Reads the head, judges it, and puts it back to be read again.
pub(super) async fn read<S>(stream: &mut ClientStream<S>, time: Duration) -> Result<(), NoHead>
where
    S: AsyncRead + Unpin,
{
    let mut head = BytesMut::new();
    let whole = async {
        loop {
            if let Some(end) = end_of(&head) {
                return judge(&head[..end]).map_err(NoHead::Refused);
            }
            if head.len() >= HEAD_BYTES {
                return Err(NoHead::Refused(Denial::new(
                    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                    "head-too-long",
                    format!("the head of the request is longer than {HEAD_BYTES} bytes"),
                )));
            }
            if stream.read_buf(&mut head).await? == 0 {
                return Err(NoHead::Gone);
            }
        }
    };
    match timeout(time, whole).await {
        Ok(judged) => judged?,
        Err(_elapsed) if head.is_empty() => return Err(NoHead::Gone),
        Err(_elapsed) => {
            return Err(NoHead::Refused(Denial::new(
                StatusCode::REQUEST_TIMEOUT,
                "timeout",
                format!(
                    "the head of the request did not come within {} seconds",
                    time.as_secs()
                ),
            )));
        }
    }
    stream.put_back(head.freeze());
    Ok(())
}

/// Where the empty line ends. One that is only half of it counts too, for the sake of a sentence.
fn end_of(head: &[u8]) -> Option<usize> {
    let strict = memchr::memmem::find(head, b"\r\n\r\n").map(|at| at + 4);
    let loose = memchr::memmem::find(head, b"\n\n").map(|at| at + 2);
    let mixed = memchr::memmem::find(head, b"\n\r\n").map(|at| at + 3);
    [strict, loose, mixed].into_iter().flatten().min()
}

/// Judges a head as bytes.
fn judge(head: &[u8]) -> Result<(), Denial> {
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
    judge_request_line(request)?;
    if headers.len() > HEADER_LINES {
        return Err(Denial::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "head-too-long",
            format!("the request has more than {HEADER_LINES} header lines"),
        ));
    }
    judge_headers(headers)
}

fn judge_request_line(line: &[u8]) -> Result<(), Denial> {
    let refuse = |sentence: &str| Err(Denial::malformed(sentence));
    let parts: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let [method, target, version] = parts[..] else {
        return refuse("the first line is METHOD TARGET HTTP/1.1, with one space between each");
    };
    if !matches!(version, b"HTTP/1.1" | b"HTTP/1.0") {
        return refuse("only HTTP/1.1 and HTTP/1.0 are spoken here");
    }
    if http::Method::from_bytes(method).is_err() {
        return refuse("the method is none");
    }
    if !target.iter().all(u8::is_ascii_graphic) {
        return refuse("a target is written in ASCII; a host in another alphabet as xn--…");
    }
    if Uri::try_from(target).is_err() {
        return refuse(
            "the target cannot be read; write http://HOST/PATH, or CONNECT HOST:PORT, an IPv6 address in brackets",
        );
    }
    Ok(())
}

fn judge_headers(lines: &[&[u8]]) -> Result<(), Denial> {
    let refuse = |sentence: &str| Err(Denial::malformed(sentence));
    let (mut lengths, mut codings, mut hosts) = (0_usize, 0_usize, 0_usize);
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
            if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
                return refuse("Content-Length is no number");
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            codings += 1;
            if !value.eq_ignore_ascii_case(b"chunked") {
                return refuse("Transfer-Encoding may be chunked and nothing else");
            }
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::egress::pulse::Pulse;

    async fn told(head: &[u8]) -> Result<(), String> {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        client.write_all(head).await.expect("room");
        drop(client);
        let mut stream = ClientStream::new(server, Pulse::new());
        match read(&mut stream, Duration::from_secs(10)).await {
            Ok(()) => {
                let mut again = Vec::new();
                stream.read_to_end(&mut again).await.expect("bytes");
                assert_eq!(again, head, "nothing is lost");
                Ok(())
            }
            Err(NoHead::Gone) => Err("gone".to_owned()),
            Err(NoHead::Refused(denial)) => Err(denial.rule.to_owned()),
        }
    }

    #[tokio::test]
    async fn a_proper_head_is_read_and_given_back_with_what_came_after_it() {
        for head in [
            "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n",
            "CONNECT [::1]:443 HTTP/1.1\r\n\r\nrest",
            "GET http://a.test/ HTTP/1.0\r\n\r\n",
            "POST http://a.test/ HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
            "POST http://a.test/ HTTP/1.1\r\ntransfer-encoding: CHUNKED\r\n\r\n0\r\n\r\n",
            "GET http://a.test/ HTTP/1.1\r\nX-Empty:\r\n\r\nGET http://a.test/b HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(told(head.as_bytes()).await, Ok(()), "{head:?}");
        }
    }

    #[tokio::test]
    async fn the_shapes_of_smuggled_requests_are_malformed() {
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
        ] {
            assert_eq!(
                told(head.as_bytes()).await,
                Err("malformed".to_owned()),
                "{head:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_head_has_bounds_on_its_bytes_and_lines() {
        let long = format!(
            "GET http://a.test/ HTTP/1.1\r\nX: {}",
            "a".repeat(HEAD_BYTES)
        );
        assert_eq!(told(long.as_bytes()).await, Err("head-too-long".to_owned()));
        let many = format!(
            "GET http://a.test/ HTTP/1.1\r\n{}\r\n",
            "X: a\r\n".repeat(101)
        );
        assert_eq!(told(many.as_bytes()).await, Err("head-too-long".to_owned()));
        assert_eq!(told(b"GET http://a.test/").await, Err("gone".to_owned()));
    }

    #[tokio::test]
    async fn slowloris_is_told_that_its_time_is_up() {
        let (mut client, server) = tokio::io::duplex(64);
        client.write_all(b"GET http").await.expect("room");
        let mut stream = ClientStream::new(server, Pulse::new());
        let read = read(&mut stream, Duration::from_millis(20)).await;
        let Err(NoHead::Refused(denial)) = read else {
            panic!("{read:?}");
        };
        assert_eq!(denial.status, StatusCode::REQUEST_TIMEOUT);
    }
}
