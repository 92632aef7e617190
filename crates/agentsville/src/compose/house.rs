//! Where services live: in this process, or where `peers` says.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use kernel::{Clock, ServiceName};
use runtime::{
    BoxError, GrpcServer, GrpcService, Host, Issuer, Lifecycle, Peer, ServerLayers, Settings,
    SigningKey, Transport, Trust,
    host::{HostError, Keys},
    token::default_mints,
};

use super::Sections;
use crate::failure::Failure;

/// The services of this process and the ways to the others.
pub(super) struct House<'s> {
    settings: &'s Settings,
    sections: &'s Sections,
    lifecycle: Lifecycle,
    clock: Arc<dyn Clock>,
    key: SigningKey,
    origin: Keys,
    layers: ServerLayers,
    services: Vec<GrpcService>,
}

impl<'s> House<'s> {
    /// An empty house. One process is one domain of trust: its services share a key, which is the set one, so that peers elsewhere
    /// know it, or made now.
    pub(super) fn new(
        settings: &'s Settings,
        sections: &'s Sections,
        lifecycle: &Lifecycle,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, Failure> {
        let (key, origin) = sections.keys.signing_key().map_err(Failure::precondition)?;
        let trust = Trust::new(Arc::clone(clock));
        sections
            .keys
            .add_to(&trust)
            .map_err(Failure::precondition)?;
        Ok(Self {
            settings,
            sections,
            lifecycle: lifecycle.clone(),
            clock: Arc::clone(clock),
            key,
            origin,
            layers: ServerLayers {
                trust: Arc::new(trust),
                longest_call: Duration::from_secs(sections.grpc.longest_call_seconds),
            },
            services: Vec::new(),
        })
    }

    /// The way to a service: to where `peers` says, else to the one that `build` makes, which this process then hosts.
    pub(super) async fn at<B>(
        &mut self,
        service: ServiceName,
        build: impl FnOnce() -> B,
    ) -> Result<Transport, Failure>
    where
        B: Future<Output = Result<GrpcServer, BoxError>>,
    {
        let elsewhere = self.settings.peer(service).map_err(Failure::precondition)?;
        if let Some(url) = elsewhere {
            if self.origin == Keys::MadeAtStart {
                return Err(Failure::precondition(format!(
                    "peers names {service} at {url}, and keys.private is not set: what is made at the start nobody there would trust; set it (`agentsville keys` prints one)"
                )));
            }
            let tls = self.sections.tls.client().map_err(Failure::precondition)?;
            return Transport::remote(&url, tls.as_ref()).map_err(Failure::precondition);
        }
        let server = build().await.map_err(Failure::precondition)?;
        let layered = server.layered(self.layers.clone());
        let way = Transport::in_process(&layered);
        self.services.push(layered);
        Ok(way)
    }

    /// A service as `caller` sees it: calls carry tokens that `caller` mints, and that everybody in the house believes.
    pub(super) fn peer(
        &self,
        caller: ServiceName,
        service: ServiceName,
        way: &Transport,
    ) -> Result<Peer, Failure> {
        let issuer = Issuer::new(caller, self.key.clone(), Arc::clone(&self.clock));
        let mints = default_mints(issuer.name());
        self.layers
            .trust
            .add(issuer.name(), &issuer.public_key(), mints)
            .map_err(Failure::precondition)?;
        Ok(Peer::new(way.clone(), Arc::new(issuer), service))
    }

    /// Whether a service runs in this process.
    pub(super) fn hosts(&self, service: ServiceName) -> bool {
        self.services.iter().any(|hosted| hosted.name() == service)
    }

    /// Whom everybody in the house believes.
    pub(super) fn trust(&self) -> Arc<Trust> {
        Arc::clone(&self.layers.trust)
    }

    /// Where the key of the house comes from.
    pub(super) fn keys(&self) -> Keys {
        self.origin
    }

    /// Opens the gRPC listener for what lives here.
    pub(super) async fn listen(self) -> Result<SocketAddr, Failure> {
        let tls = self.sections.tls.server().map_err(Failure::precondition)?;
        let host = Host::new(self.lifecycle, self.origin)
            .with_settings(&self.sections.grpc)
            .with_tls(tls);
        self.services
            .into_iter()
            .fold(host, Host::add)
            .listen(self.sections.grpc_listen)
            .await
            .map_err(|error| not_listening("GRPC", error))
    }
}

/// A listener that cannot start, with what to do about it.
pub(super) fn not_listening(section: &str, error: HostError) -> Failure {
    let taken = match &error {
        HostError::Bind { source, .. } => source.kind() == io::ErrorKind::AddrInUse,
        HostError::InvalidAddress { .. }
        | HostError::Exposed(_)
        | HostError::KeysNotSet { .. }
        | HostError::Reflection(_) => false,
    };
    if !taken {
        return Failure::precondition(error);
    }
    Failure::precondition(format!(
        "{error}; is a Village served already? choose another port with AGENTSVILLE__{section}__LISTEN"
    ))
}
