//! Bytes that a test says to a proxy, and answers as they come.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Long enough that only a fault reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a proxy.
pub(super) struct Wire {
    stream: TcpStream,
    heard: Vec<u8>,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// As connections do whose all was said.
    Closed,
    /// Broken off.
    Reset,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// The value of a header, by its name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Status and rule: what programs read of a refusal.
    pub(super) fn facts(&self) -> (u16, &str) {
        (
            self.status,
            self.header("x-agentsville-refusal").unwrap_or_default(),
        )
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Wire {
    pub(super) async fn to(proxy: SocketAddr) -> Self {
        let stream = TcpStream::connect(proxy).await.expect("a connection");
        Self {
            stream,
            heard: Vec::new(),
        }
    }

    pub(super) async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        let said = self.stream.write_all(bytes.as_ref());
        within(said).await.expect("it takes what is said");
    }

    /// The next answer; its body by Content-Length, or by chunks, or none.
    pub(super) async fn answer(&mut self) -> Answer {
        self.answer_to(Body::AsSaid).await
    }

    /// The next answer, to a request whose answer has no body whatever it says of one.
    pub(super) async fn head_answer(&mut self) -> Answer {
        self.answer_to(Body::None).await
    }

    async fn answer_to(&mut self, body: Body) -> Answer {
        let end = loop {
            if let Some(at) = self.heard.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.hear().await, "it ended after {:?}", self.so_far());
        };
        let head: Vec<u8> = self.heard.drain(..end).collect();
        let head = String::from_utf8(head).expect("a head in ASCII");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("no status in {head}"));
        let mut answer = Answer {
            status,
            head,
            body: Vec::new(),
        };
        if body == Body::None || matches!(status, 204 | 304) {
            return answer;
        }
        if answer
            .header("transfer-encoding")
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
        {
            answer.body = self.chunks().await;
        } else if let Some(length) = answer.header("content-length") {
            let length = length.parse().expect("a length");
            answer.body = self.take(length).await;
        }
        answer
    }

    async fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(at) = self.heard.windows(2).position(|two| two == b"\r\n") {
                    break at;
                }
                assert!(self.hear().await, "it ended in {:?}", self.so_far());
            };
            let line: Vec<u8> = self.heard.drain(..end + 2).collect();
            let size = String::from_utf8_lossy(&line[..end]).into_owned();
            let size = usize::from_str_radix(size.trim(), 16).expect("a size");
            let piece = self.take(size + 2).await;
            if size == 0 {
                return body;
            }
            body.extend_from_slice(&piece[..size]);
        }
    }

    /// So many bytes.
    pub(super) async fn take(&mut self, count: usize) -> Vec<u8> {
        while self.heard.len() < count {
            assert!(self.hear().await, "it ended after {:?}", self.so_far());
        }
        self.heard.drain(..count).collect()
    }

    /// All until the other side closes or breaks off.
    pub(super) async fn rest(&mut self) -> Vec<u8> {
        while self.hear().await {}
        std::mem::take(&mut self.heard)
    }

    /// All until the connection is closed or reset, and which it was.
    pub(super) async fn end(&mut self) -> (Vec<u8>, End) {
        loop {
            match within(self.stream.read_buf(&mut self.heard)).await {
                Ok(0) => return (std::mem::take(&mut self.heard), End::Closed),
                Ok(_) => {}
                Err(_reset) => return (std::mem::take(&mut self.heard), End::Reset),
            }
        }
    }

    /// Says that no more will be said.
    pub(super) async fn close_half(&mut self) {
        self.stream.shutdown().await.expect("it is open");
    }

    async fn hear(&mut self) -> bool {
        matches!(within(self.stream.read_buf(&mut self.heard)).await, Ok(1..))
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.heard).into_owned()
    }

    pub(super) fn into_stream(self) -> TcpStream {
        assert!(self.heard.is_empty(), "nothing came ahead of its time");
        self.stream
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    AsSaid,
    None,
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("it does not hang")
}

/// One request over a connection of its own.
pub(super) async fn ask(proxy: SocketAddr, bytes: impl AsRef<[u8]>) -> Answer {
    let mut wire = Wire::to(proxy).await;
    wire.say(bytes).await;
    wire.answer().await
}

/// A request for a tunnel.
pub(super) fn connect(authority: &str, token: &str) -> String {
    format!(
        "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nProxy-Authorization: Bearer {token}\r\n\r\n"
    )
}

/// A request in absolute form.
pub(super) fn get(url: &str, token: &str) -> String {
    get_with(url, token, "")
}

/// The same with more header lines, each with its end.
pub(super) fn get_with(url: &str, token: &str, headers: &str) -> String {
    format!("GET {url} HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Bearer {token}\r\n{headers}\r\n")
}
