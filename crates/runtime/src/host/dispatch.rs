//! Which service answers a call: those of the host, health, reflection.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::{Status, body::Body, server::NamedService};
use tonic_health::{ServingStatus, server::HealthReporter};
use tower::ServiceExt as _;

use super::{Host, HostError, Reflection};
use crate::{Lifecycle, exposure, server::Erased};

/// Bytes of one question to the health service: a service's name, and room.
const HEALTH_BYTES: usize = 1_024;

/// Which service a path belongs to.
#[derive(Clone)]
pub(super) struct Dispatch(Arc<HashMap<String, Erased>>);

impl Dispatch {
    pub(super) async fn new(host: &Host, address: SocketAddr) -> Result<Self, HostError> {
        let mut by_name = HashMap::new();
        for service in &host.services {
            for name in service.names() {
                by_name.insert((*name).to_owned(), service.erased());
            }
        }
        let (reporter, health) = tonic_health::server::health_reporter();
        // Whoever reaches the listener may ask, without a token: what is kept of a question is bounded tightly.
        let health = health.max_decoding_message_size(HEALTH_BYTES);
        let names: Vec<String> = by_name.keys().cloned().collect();
        report(&reporter, &names, ServingStatus::NotServing).await;
        host.lifecycle.spawn_background(
            "grpc health",
            follow_readiness(reporter, names, host.lifecycle.clone()),
        );
        by_name.insert(name_of(&health).to_owned(), erase(health, &host.lifecycle));
        if host.reflection == Reflection::OnLoopback && exposure::is_loopback(address) {
            let reflection =
                reflection(host).map_err(|error| HostError::Reflection(error.to_string()))?;
            by_name.insert(
                name_of(&reflection).to_owned(),
                erase(reflection, &host.lifecycle),
            );
        }
        Ok(Self(Arc::new(by_name)))
    }

    pub(super) async fn call(
        self,
        request: http::Request<Body>,
    ) -> Result<Response<Body>, Infallible> {
        let name = request
            .uri()
            .path()
            .trim_start_matches('/')
            .split('/')
            .next()
            .unwrap_or_default();
        if let Some(service) = self.0.get(name) {
            service.clone().oneshot(request).await
        } else {
            Ok(Status::unimplemented("this process has no such gRPC service").into_http())
        }
    }
}

fn name_of<S: NamedService>(_service: &S) -> &'static str {
    S::NAME
}

/// Erases a service of the host's own, whose streams end at the soft step: watchers of health would hold up the end otherwise.
fn erase<S>(service: S, lifecycle: &Lifecycle) -> Erased
where
    S: tower::Service<http::Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    let soft = lifecycle.soft();
    Erased::new(service.map_response(move |response: Response<Body>| {
        let soft = Box::pin(soft.cancelled_owned());
        response.map(|inner| Body::new(UntilSoft { inner, soft }))
    }))
}

/// A body that ends with a status at the soft step.
struct UntilSoft {
    inner: Body,
    soft: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl http_body::Body for UntilSoft {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Pending => {}
            ready @ Poll::Ready(_) => return ready,
        }
        match self.soft.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                self.inner = Body::empty();
                Poll::Ready(Some(Err(Status::unavailable("the process is stopping"))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn reflection(
    host: &Host,
) -> Result<
    tonic_reflection::server::v1::ServerReflectionServer<
        impl tonic_reflection::server::v1::ServerReflection,
    >,
    tonic_reflection::server::Error,
> {
    let mut builder = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
    let mut known = HashSet::new();
    for service in &host.services {
        for descriptors in service.descriptors() {
            // Services of one process share one set.
            if known.insert(descriptors.as_ptr()) {
                builder = builder.register_encoded_file_descriptor_set(descriptors);
            }
        }
        for name in service.names() {
            builder = builder.with_service_name(*name);
        }
    }
    builder
        .with_service_name("grpc.health.v1.Health")
        .build_v1()
}

/// Tells the health service what the lifecycle's readiness says.
async fn follow_readiness(reporter: HealthReporter, names: Vec<String>, lifecycle: Lifecycle) {
    let mut changes = lifecycle.readiness().watch();
    loop {
        let status = if changes.borrow_and_update().is_ready() {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        report(&reporter, &names, status).await;
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn report(reporter: &HealthReporter, names: &[String], status: ServingStatus) {
    reporter.set_service_status("", status).await;
    for name in names {
        reporter.set_service_status(name, status).await;
    }
}
