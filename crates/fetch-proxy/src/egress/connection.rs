//! A client's connection: TLS if there is any, then HTTP/1.1 until the end.

use std::{sync::Arc, time::Duration};

use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    sync::OwnedSemaphorePermit,
    time::{sleep_until, timeout},
};
use tokio_rustls::TlsAcceptor;

use super::{
    Shared,
    destination::Form,
    exchange::Client,
    head::{HEAD_BYTES, HEADER_LINES},
    pulse::Pulse,
    report::Record,
    stream::{ClientStream, Socket, Talk},
};

/// How much longer a silent connection is kept than a request that waits for its answer, so that the client is told.
const TO_BE_TOLD: Duration = Duration::from_secs(5);
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
    S: Socket + Send + 'static,
{
    let soft = shared.lifecycle.soft();
    let (pulse, talk) = (Pulse::new(), Talk::new());
    let stream = ClientStream::new(stream, Arc::clone(&pulse), Arc::clone(&talk));
    let config = &shared.config;
    let (header, idle) = (config.header, config.idle + TO_BE_TOLD);
    let old = pulse.grown(config.lifetime);
    let client = Client::new(shared, Arc::clone(&pulse), place);
    let service =
        service_fn(move |request: http::Request<Incoming>| Arc::clone(&client).serve(request));
    let connection = http1::Builder::new()
        // Heads are timed where they are read.
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADER_LINES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let mut refused = std::pin::pin!(talk.refused(header));
    let mut silent = std::pin::pin!(pulse.is_silent(idle));
    // What is being served is served to its end, whose bounds are its own.
    let mut ending = Ending::NotYet;
    let outcome = loop {
        tokio::select! {
            outcome = connection.as_mut() => break outcome,
            cut = silent.as_mut() => return pulse.end(cut),
            denial = refused.as_mut(), if ending != Ending::Refused => {
                let Some(denial) = denial else {
                    return;
                };
                Record::begin(Form::Other, None, Arc::clone(&pulse)).denied(&denial);
                talk.say_farewell(&denial);
                connection.as_mut().graceful_shutdown();
                ending = Ending::Refused;
            }
            () = soft.cancelled(), if ending == Ending::NotYet => {
                connection.as_mut().graceful_shutdown();
                ending = Ending::Begun;
            }
            () = sleep_until(old), if ending == Ending::NotYet => {
                connection.as_mut().graceful_shutdown();
                ending = Ending::Begun;
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

/// Whether a connection takes more requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    NotYet,
    Begun,
    /// A head was refused, and is answered last.
    Refused,
}
