//! The first bytes of a tunnel whose pass leads to some hosts only: the name in a TLS hello must be the tunnel's.
//!
//! Without this, a tunnel to an allowed host on a shared address asks for any other host there. What comes after the hello is
//! opaque.

use std::time::Duration;

use outbound::Target;
use rustls::server::Acceptor;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::timeout,
};

use super::report::End;

/// Bytes of the longest hello that is read. Browsers send two.
const HELLO_BYTES: usize = 16 * 1_024;
/// Time for a hello that has begun.
const HELLO_TIME: Duration = Duration::from_secs(10);
/// What a TLS record with a handshake begins with (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;
/// The port where nothing but TLS is spoken.
const TLS_PORT: u16 = 443;
/// A fatal alert, `unrecognized_name` (RFC 6066 section 3), in a record of its own.
pub(super) const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Reads until it is certain what the client began with, and gives what was read. Waiting for the first byte has no time of its own:
/// on other ports than 443 the server may speak first.
pub(super) async fn read<R>(client: &mut R, target: &Target) -> Result<Vec<u8>, End>
where
    R: AsyncRead + Unpin,
{
    let mut read = Vec::with_capacity(2 * 1_024);
    if client
        .read_buf(&mut read)
        .await
        .map_err(|_gone| End::Broken)?
        == 0
    {
        return Ok(read);
    }
    if read.first() != Some(&HANDSHAKE) {
        return if target.port() == TLS_PORT {
            Err(End::NotTls)
        } else {
            Ok(read)
        };
    }
    match timeout(HELLO_TIME, judge(client, &mut read, target)).await {
        Ok(judged) => judged.map(|()| read),
        Err(_elapsed) => Err(End::NotTls),
    }
}

async fn judge<R>(client: &mut R, read: &mut Vec<u8>, target: &Target) -> Result<(), End>
where
    R: AsyncRead + Unpin,
{
    let mut acceptor = Acceptor::default();
    let mut fed = 0;
    loop {
        let mut more = &read[fed..];
        while !more.is_empty() {
            let taken = acceptor.read_tls(&mut more).map_err(|_full| End::NotTls)?;
            if taken == 0 {
                break;
            }
        }
        fed = read.len();
        match acceptor.accept() {
            Ok(Some(hello)) => return compare(hello.client_hello().server_name(), target),
            Ok(None) if read.len() >= HELLO_BYTES => return Err(End::NotTls),
            Ok(None) => {}
            Err(_no_hello) => return Err(End::NotTls),
        }
        let count = client.read_buf(read).await.map_err(|_gone| End::Broken)?;
        if count == 0 {
            return Err(End::NotTls);
        }
    }
}

fn compare(name: Option<&str>, target: &Target) -> Result<(), End> {
    let Some(name) = name else {
        return Ok(());
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    if target
        .name()
        .is_some_and(|host| host.eq_ignore_ascii_case(name))
    {
        Ok(())
    } else {
        Err(End::SniMismatch)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use outbound::Security;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, crypto::ring};
    use tokio::io::AsyncWriteExt as _;
    use url::Host;

    use super::*;

    fn hello(name: &str) -> Vec<u8> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = name.to_owned().try_into().expect("a name");
        let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).expect("a hello");
        bytes
    }

    async fn judged(bytes: &[u8], piece: usize, host: &str, port: u16) -> Result<Vec<u8>, End> {
        let target =
            Target::new(Host::Domain(host.to_owned()), port, Security::Plain).expect("a target");
        let (mut client, mut server) = tokio::io::duplex(piece);
        let (said, ()) = tokio::join!(read(&mut server, &target), async move {
            // A reader that has heard enough does not read the rest.
            drop(client.write_all(bytes).await);
        });
        said
    }

    #[tokio::test]
    async fn a_hello_for_the_tunnels_own_host_passes_whole_in_pieces_and_without_a_name() {
        let bytes = hello("Allowed.test");
        for piece in [1, 7, 100_000] {
            let said = judged(&bytes, piece, "allowed.test.", 443).await;
            assert_eq!(said.as_deref(), Ok(&bytes[..]), "{piece}");
        }
        let without_name = hello("192.0.2.1");
        let said = judged(&without_name, 1_000, "allowed.test", 443).await;
        assert_eq!(said.as_deref(), Ok(&without_name[..]));
        assert_eq!(judged(b"", 10, "allowed.test", 443).await, Ok(Vec::new()));
    }

    #[tokio::test]
    async fn a_hello_for_another_host_behind_the_same_address_is_a_mismatch() {
        for host in ["allowed.test", "other.allowed.test", "192.0.2.1"] {
            assert_eq!(
                judged(&hello("hidden.test"), 1_000, host, 443).await,
                Err(End::SniMismatch),
                "{host}"
            );
        }
        let elsewhere = judged(&hello("hidden.test"), 1_000, "allowed.test", 8_443).await;
        assert_eq!(elsewhere, Err(End::SniMismatch), "on an exempt port too");
    }

    #[tokio::test]
    async fn what_is_no_hello_passes_on_no_tls_port_and_never_fills_memory() {
        assert_eq!(
            judged(b"GET / HTTP/1.1\r\n", 100, "allowed.test", 443).await,
            Err(End::NotTls)
        );
        assert_eq!(
            judged(b"GET /", 100, "allowed.test", 80).await.as_deref(),
            Ok(&b"GET /"[..])
        );
        // A handshake that says it is as long as one can be, and goes on for ever in empty promises.
        let mut endless = vec![22, 3, 1, 0x3f, 0xff, 1, 0, 0xff, 0xff];
        endless.resize(60_000, 0);
        assert_eq!(
            judged(&endless, 100_000, "allowed.test", 443).await,
            Err(End::NotTls)
        );
        let mut garbage = hello("allowed.test");
        garbage[9..40].fill(0xff);
        garbage.truncate(60);
        assert_eq!(
            judged(&garbage, 1_000, "allowed.test", 443).await,
            Err(End::NotTls)
        );
    }
}
