//! A small HTTP client that sends exactly what a test says.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpStream, task::JoinSet};

/// A request to be.
#[derive(Debug)]
pub(crate) struct Ask {
    address: SocketAddr,
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// A response that is read piece by piece. Dropping it closes the connection.
pub(crate) struct Reader {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    read: String,
    _connection: JoinSet<()>,
}

impl Ask {
    pub(crate) fn new(address: SocketAddr, method: Method, path: &str) -> Self {
        Self {
            address,
            method,
            path: path.to_owned(),
            headers: vec![("host".to_owned(), address.to_string())],
            body: Bytes::new(),
        }
    }

    /// Sets a header, in the place of one that was set before.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(set, _)| set != name);
        self.also(name, value)
    }

    /// Adds a header beside one of the same name.
    pub(crate) fn also(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        let mut ask = self.header("content-type", "application/json");
        ask.body = Bytes::from(body.to_string());
        ask
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) async fn read(self) -> Reader {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { drop(connection.await) });
        let mut request = Request::builder().method(self.method).uri(self.path);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(self.body)).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let (parts, body) = response.into_parts();
        Reader {
            status: parts.status,
            headers: parts.headers,
            body,
            read: String::new(),
            _connection: tasks,
        }
    }

    pub(crate) async fn send(self) -> Answer {
        let mut reader = self.read().await;
        while reader.more().await {}
        Answer {
            status: reader.status,
            headers: reader.headers,
            body: reader.read,
        }
    }
}

impl Reader {
    /// Reads one piece more; false at the end.
    pub(crate) async fn more(&mut self) -> bool {
        match self.body.frame().await {
            None => false,
            Some(frame) => {
                let data = frame.unwrap().into_data().unwrap_or_default();
                self.read.push_str(std::str::from_utf8(&data).unwrap());
                true
            }
        }
    }

    /// Reads until a text was seen.
    pub(crate) async fn until(&mut self, text: &str) {
        while !self.read.contains(text) {
            assert!(self.more().await, "{text:?} is not in {:?}", self.read);
        }
    }

    /// Reads to the end, and gives everything.
    pub(crate) async fn rest(mut self) -> String {
        while self.more().await {}
        self.read
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.body))
    }

    /// The sentence of a failure, which must be problem details with this status.
    pub(crate) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        assert_eq!(
            self.headers[header::CONTENT_TYPE],
            "application/problem+json"
        );
        let body = self.json();
        assert_eq!(body["type"], "about:blank");
        assert_eq!(body["status"], status);
        assert!(
            body["code"].is_string() && body["title"].is_string(),
            "{body}"
        );
        body["detail"].as_str().unwrap().to_owned()
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap().to_owned()
    }
}

/// The chunks of a stream, without the last line, which must be `[DONE]`.
pub(crate) fn chunks(stream: &str) -> Vec<Value> {
    let mut lines: Vec<&str> = stream
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("data: "))
        .collect();
    assert_eq!(lines.pop(), Some("[DONE]"), "{stream}");
    lines
        .into_iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The types of chunks, in order.
pub(crate) fn kinds(chunks: &[Value]) -> Vec<&str> {
    chunks
        .iter()
        .map(|chunk| chunk["type"].as_str().unwrap())
        .collect()
}
