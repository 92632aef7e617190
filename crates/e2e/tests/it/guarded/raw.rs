//! Servers that say, byte by byte, what libraries would not.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, UdpSocket},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

/// Record types (RFC 1035 section 3.2.2, RFC 9460 section 14).
const A: u16 = 1;
const HTTPS: u16 = 65;
/// A name that is the question's (RFC 1035 section 4.1.4).
const SAME_NAME: [u8; 2] = [0xc0, 0x0c];
/// Bytes of a query's header.
const HEADER: usize = 12;

/// An HTTP/1.1 server that answers every request with these bytes. It ends when what it returns is dropped.
pub(super) async fn https_server(
    mut tls: rustls::ServerConfig,
    at: SocketAddr,
    answer: impl AsRef<[u8]> + Send + 'static,
) -> JoinSet<()> {
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind(at).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok((stream, _peer)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut request = [0; 4_096];
            if stream.read(&mut request).await.is_ok() {
                stream.write_all(answer.as_ref()).await.ok();
                stream.shutdown().await.ok();
            }
        }
    });
    tasks
}

/// A DNS server for which every name has this address, and a service binding (RFC 9460) that hints at another: as the answer to
/// who asks for it, and unasked beside the address. It ends when what it returns is dropped.
pub(super) async fn dns_with_a_hint(
    at: SocketAddr,
    address: Ipv4Addr,
    hint: Ipv4Addr,
) -> JoinSet<()> {
    let socket = UdpSocket::bind(at).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut buffer = [0; 1_500];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
            if let Some(answer) = answer(&buffer[..length], address, hint) {
                socket.send_to(&answer, peer).await.ok();
            }
        }
    });
    tasks
}

fn answer(query: &[u8], address: Ipv4Addr, hint: Ipv4Addr) -> Option<Vec<u8>> {
    let after_name = query.get(HEADER..)?.iter().position(|byte| *byte == 0)? + HEADER + 1;
    let question = query.get(HEADER..after_name + 4)?;
    let asked = u16::from_be_bytes(query.get(after_name..after_name + 2)?.try_into().ok()?);
    let binding = {
        // Priority 1, target the name itself, parameter 4 (ipv4hint) with one address.
        let mut data = vec![0, 1, 0, 0, 4, 0, 4];
        data.extend(hint.octets());
        record(HTTPS, &data)
    };
    let (answers, beside) = match asked {
        A => (vec![record(A, &address.octets())], vec![binding]),
        HTTPS => (vec![binding], Vec::new()),
        _ => (Vec::new(), Vec::new()),
    };
    let mut message = query.get(..2)?.to_vec();
    // A response to a recursive query, without error; one question.
    message.extend([0x81, 0x80, 0, 1]);
    for count in [answers.len(), 0, beside.len()] {
        message.extend(u16::try_from(count).ok()?.to_be_bytes());
    }
    message.extend(question);
    message.extend(answers.concat());
    message.extend(beside.concat());
    Some(message)
}

/// A record of the name that was asked for, class IN, TTL 0.
fn record(kind: u16, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap();
    [
        &SAME_NAME[..],
        &kind.to_be_bytes(),
        &[0, 1, 0, 0, 0, 0],
        &length.to_be_bytes(),
        data,
    ]
    .concat()
}
