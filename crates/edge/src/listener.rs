//! The socket: how many connections, how long a request's head may take, how it ends.

mod patience;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{Router, body::Body};
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use runtime::Lifecycle;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tower::ServiceExt as _;

use crate::{
    config::{Config, Timeouts},
    error::Error,
    guard::{ClientAddress, HEAD_BYTES},
};

use patience::Patient;

/// Connections at the same time; further ones wait in the kernel's queue.
const CONNECTIONS: usize = 4_096;
/// How long to wait after `accept` failed, which happens when the process has no file descriptors left.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

pub(crate) async fn listen(
    router: Router,
    config: &Config,
    lifecycle: &Lifecycle,
) -> Result<SocketAddr, Error> {
    let asked = config.listen;
    let refused = |reason| Error::Listen {
        address: asked,
        reason,
    };
    let listener = TcpListener::bind(asked).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    lifecycle.listens_on(address);
    tracing::info!(%address, "HTTP listens");
    let accepting = accept(listener, router, config.timeouts, lifecycle.clone());
    // The handle is not needed: the lifecycle waits for the task, and stops the process when it panics.
    drop(lifecycle.spawn("edge-listener", accepting));
    Ok(address)
}

async fn accept(listener: TcpListener, router: Router, timeouts: Timeouts, lifecycle: Lifecycle) {
    let soft = lifecycle.soft();
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let permit = tokio::select! {
            () = soft.cancelled() => return,
            permit = Arc::clone(&room).acquire_owned() => permit,
        };
        // The semaphore is never closed.
        let Ok(permit) = permit else { return };
        let accepted = tokio::select! {
            () = soft.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, from)) => {
                let connection =
                    connection(stream, from, router.clone(), timeouts, lifecycle.clone());
                let task = async move {
                    connection.await;
                    drop(permit);
                };
                drop(lifecycle.spawn_request("edge-connection", task));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    from: SocketAddr,
    router: Router,
    timeouts: Timeouts,
    lifecycle: Lifecycle,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let asked = Arc::new(AtomicBool::new(false));
    let asks = Arc::clone(&asked);
    let service = service_fn(move |request: Request<Incoming>| {
        asks.store(true, Ordering::Relaxed);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ClientAddress(from.ip()));
        router.clone().oneshot(request)
    });
    // HTTP/1.1 alone: it is what browsers speak without TLS, and its head has a deadline from the first byte on.
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(timeouts.head)
        // The guard refuses at HEAD_BYTES in words; past this hyper does so without.
        .max_buf_size(4 * HEAD_BYTES)
        .serve_connection(TokioIo::new(Patient::new(stream, timeouts.write)), service);
    tokio::pin!(connection);
    let soft = lifecycle.soft();
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        // hyper would wait for the first request of a client that never sends one.
        () = soft.cancelled() => {
            // hyper would wait for the first request of a client that never sends one.
            if !asked.load(Ordering::Relaxed) {
                return;
            }
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        // Clients that go away, dawdle or speak something else: nothing that an Operator can mend.
        tracing::debug!(%error, "a connection ended");
    }
}
