//! A client's connection: TLS if there is any, the first head, then HTTP/1.1 until the end.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{
    Shared,
    denial::Denial,
    destination::Form,
    exchange::Client,
    head::{self, HEAD_BYTES, HEADER_LINES, NoHead},
    pulse::{ClientStream, Pulse},
    report::Record,
};

/// How much longer a silent connection is kept than a request that waits for its answer, so that the client is told.
const TO_BE_TOLD: Duration = Duration::from_secs(5);
/// How long, and for how many bytes, a client that was refused at once may go on talking: closing earlier would take back what it
/// was told.
const FAREWELL: Duration = Duration::from_secs(1);
const FAREWELL_BYTES: u64 = 256 * 1_024;

/// Serves a connection to its end; a tunnel goes on after it.
pub(super) async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    place: OwnedSemaphorePermit,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let Some(tls) = tls else {
        return serve_stream(shared, stream, place).await;
    };
    let soft = shared.lifecycle.soft();
    let shaken = tokio::select! {
        shaken = timeout(shared.config.header, tls.accept(stream)) => shaken,
        () = soft.cancelled() => return,
    };
    match shaken {
        Ok(Ok(stream)) => serve_stream(shared, stream, place).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake of the egress listener failed"),
        Err(_elapsed) => tracing::debug!("a TLS handshake of the egress listener took too long"),
    }
}

async fn serve_stream<S>(shared: Arc<Shared>, stream: S, place: OwnedSemaphorePermit)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let soft = shared.lifecycle.soft();
    let pulse = Pulse::new();
    let mut stream = ClientStream::new(stream, Arc::clone(&pulse));
    let opened = tokio::select! {
        opened = head::read(&mut stream, shared.config.header) => opened,
        () = soft.cancelled() => return,
    };
    match opened {
        Ok(()) => {}
        Err(NoHead::Gone) => return,
        Err(NoHead::Refused(denial)) => {
            Record::begin(Form::Other, None, pulse).denied(&denial);
            return part(stream, &denial).await;
        }
    }
    let config = &shared.config;
    let (header, idle, lifetime) = (config.header, config.idle + TO_BE_TOLD, config.lifetime);
    let client = Client::new(shared, Arc::clone(&pulse), place);
    let service =
        service_fn(move |request: http::Request<Incoming>| Arc::clone(&client).serve(request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADER_LINES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        cut = pulse.stops(idle, lifetime) => return pulse.end(cut),
        () = soft.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                outcome = connection.as_mut() => outcome,
                cut = pulse.stops(idle, lifetime) => return pulse.end(cut),
            }
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(
            error = runtime::status::chain(&error),
            "a connection of the egress listener ended with an error"
        );
    }
}

/// Says why there is nothing to serve, and closes.
async fn part<S>(mut stream: ClientStream<S>, denial: &Denial)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // What was read is not answered, and not read again.
    stream.put_back(Bytes::new());
    let farewell = async {
        stream.write_all(&denial.bytes()).await?;
        stream.shutdown().await?;
        let mut rest = (&mut stream).take(FAREWELL_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // Whether it was heard is the client's business.
    drop(timeout(FAREWELL, farewell).await);
}
