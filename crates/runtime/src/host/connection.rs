//! Connections: accepted within a bound, drained at the soft step.

use std::{io, sync::Arc, time::Duration};

use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;
use tonic::body::Body;
use tower::service_fn;

use super::{Dispatch, Host, preface::Opened};
use crate::{Lifecycle, status};

/// The longest wait for a TLS handshake, and then for the first bytes of HTTP/2.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often an idle connection is asked whether it lives, and how long for an answer.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Bytes of the headers of one call.
const HEADER_BYTES: u32 = 32 * 1_024;
/// The pause after accepting failed, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn accept(host: Host, listener: TcpListener, dispatch: Dispatch) {
    let lifecycle = host.lifecycle;
    let soft = lifecycle.soft();
    let places = Arc::new(Semaphore::new(host.connections));
    let tls = host.tls.map(TlsAcceptor::from);
    loop {
        let accepted = tokio::select! {
            () = soft.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _peer)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!(
                connections = host.connections,
                "a connection was closed: grpc.connections are in use"
            );
            continue;
        };
        let connection = Connection {
            dispatch: dispatch.clone(),
            lifecycle: lifecycle.clone(),
            calls: host.calls_per_connection,
        };
        let tls = tls.clone();
        lifecycle.spawn_request("grpc connection", async move {
            connection.open(stream, tls).await;
            drop(place);
        });
    }
}

struct Connection {
    dispatch: Dispatch,
    lifecycle: Lifecycle,
    calls: u32,
}

impl Connection {
    async fn open(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let Some(tls) = tls else {
            return self.serve(stream).await;
        };
        if let Some(stream) = self.begin("a TLS handshake", tls.accept(stream)).await {
            self.serve(stream).await;
        }
    }

    /// Waits for one of a connection's first steps: for a bounded time, and not when the process stops.
    async fn begin<T>(&self, what: &str, step: impl Future<Output = io::Result<T>>) -> Option<T> {
        let soft = self.lifecycle.soft();
        let done = tokio::select! {
            done = tokio::time::timeout(HANDSHAKE, step) => done,
            () = soft.cancelled() => return None,
        };
        match done {
            Ok(Ok(done)) => return Some(done),
            Ok(Err(error)) => tracing::debug!(%error, "{what} failed"),
            Err(_elapsed) => tracing::debug!("{what} took too long"),
        }
        None
    }

    async fn serve<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Some(stream) = self.begin("an HTTP/2 preface", Opened::read(stream)).await else {
            return;
        };
        let dispatch = self.dispatch;
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            dispatch.clone().call(request.map(Body::new))
        });
        let connection =
            hyper::server::conn::http2::Builder::new(CallTasks(self.lifecycle.clone()))
                .timer(TokioTimer::new())
                .keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(KEEP_ALIVE)
                .max_concurrent_streams(self.calls)
                .max_header_list_size(HEADER_BYTES)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let mut connection = std::pin::pin!(connection);
        let soft = self.lifecycle.soft();
        let outcome = tokio::select! {
            outcome = connection.as_mut() => outcome,
            () = soft.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = outcome {
            tracing::debug!(
                error = status::chain(&error),
                "a gRPC connection ended with an error"
            );
        }
    }
}

/// Runs each call as a task of the lifecycle, so that the end waits for it and can cut it off.
#[derive(Clone)]
struct CallTasks(Lifecycle);

impl<F> hyper::rt::Executor<F> for CallTasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, call: F) {
        // The handle is not needed: the lifecycle keeps the task.
        drop(self.0.spawn_request("grpc call", call));
    }
}
