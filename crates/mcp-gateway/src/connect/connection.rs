//! A connection that came about.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kernel::{floor_char_boundary, strip_control};
use rmcp::{
    RoleClient,
    model::{
        ClientRequest, DiscoverRequest, DiscoverRequestParams, ErrorCode, PingRequest,
        ProgressToken, ServerPeerInfo, SubscriptionFilter,
    },
    service::{Peer, PeerRequestOptions, RunningService, ServiceError, serve_directly_with_ct},
    transport::Transport,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Connecting, Handler, Handling, Opened, handler::Listeners};
use crate::{
    Era, Facts, Failure, StdioEndpoint,
    clients::Progress,
    failure::Redactor,
    transport::{Trouble, answers::Answers, door::Door, inbound::Inbound, stdio},
};

/// How long closing may take, the end of a session included.
const CLOSE_TIME: Duration = Duration::from_secs(6);
/// How long a server may take to answer a ping.
const PING_TIME: Duration = Duration::from_secs(10);
/// Bytes of a server's name and version.
const NAME_BYTES: usize = 200;
/// Bytes of a server's instructions.
const INSTRUCTIONS_BYTES: usize = 16 * 1_024;

/// One connection to one server. Dropping it closes it, sooner or later; [`Connection::close`] waits for that.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Handler>>>,
    facts: Arc<Facts>,
    is_stateful: bool,
    inbound: Inbound,
    trouble: Trouble,
    listeners: Listeners,
    handling: Handling,
    given: Given,
    closed: CancellationToken,
}

/// Who was given the credentials that must not be told on.
#[derive(Debug)]
pub(super) enum Given {
    /// A server on the network.
    ToServer(Arc<Door>),
    /// A command on this host.
    ToCommand(StdioEndpoint),
}

impl Given {
    fn redactor(&self) -> Redactor {
        match self {
            Self::ToServer(door) => door.redactor(),
            Self::ToCommand(endpoint) => stdio::redactor(endpoint),
        }
    }
}

/// The steps of one call, as they come.
#[derive(Debug)]
pub(crate) struct Told {
    listening: Option<(ProgressToken, Listeners, mpsc::Receiver<Progress>)>,
}

impl Told {
    /// The next step; never, if there is nothing to listen to.
    pub(crate) async fn recv(&mut self) -> Option<Progress> {
        match &mut self.listening {
            Some((_, _, told)) => told.recv().await,
            None => None,
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some((token, listeners, _)) = &self.listening {
            listeners.stop(token);
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("facts", &self.facts)
            .field("is_stateful", &self.is_stateful)
            .field("trouble", &self.trouble)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) fn serve<T>(
        opened: Opened<T>,
        is_stateful: bool,
        given: Given,
        inbound: Inbound,
        trouble: Trouble,
        how: &Connecting,
    ) -> Self
    where
        T: Transport<RoleClient, Error = Failure> + Send + 'static,
    {
        let facts = Arc::new(facts(opened.era, &opened.info));
        let tells_changes = opened
            .info
            .capabilities
            .tools
            .as_ref()
            .is_some_and(|tools| tools.list_changed == Some(true));
        let listeners = Listeners::default();
        let handler = Handler {
            handling: how.handling,
            listeners: listeners.clone(),
            inbound: inbound.clone(),
        };
        let closed = CancellationToken::new();
        let service = serve_directly_with_ct(
            handler,
            opened.transport,
            Some(opened.info),
            closed.child_token(),
        );
        let peer = service.peer().clone();
        if opened.era == Era::Modern && tells_changes {
            let listening = hear_changes(peer.clone());
            let listening = closed.clone().run_until_cancelled_owned(listening);
            how.tracker
                .spawn(async move { listening.await.unwrap_or_default() });
        }
        Self {
            peer,
            service: Mutex::new(Some(service)),
            facts,
            is_stateful,
            inbound,
            trouble,
            listeners,
            handling: how.handling,
            given,
            closed,
        }
    }

    /// `rmcp`'s side of it.
    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    /// What the server says of itself.
    pub(crate) fn facts(&self) -> Arc<Facts> {
        Arc::clone(&self.facts)
    }

    /// Whether the server may keep something of this client between its requests.
    pub(crate) fn is_stateful(&self) -> bool {
        self.is_stateful
    }

    /// How often the server said that its list of Tools changed.
    pub(crate) fn list_changes(&self) -> u64 {
        self.inbound.changes()
    }

    /// Answers that pass by `rmcp`'s types.
    pub(crate) fn answers(&self) -> &Answers {
        self.inbound.answers()
    }

    /// How what the server asks for is answered.
    pub(crate) fn handling(&self) -> Handling {
        self.handling
    }

    /// What went wrong last.
    pub(crate) fn trouble(&self) -> &Trouble {
        &self.trouble
    }

    /// Whether it must not be used any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.trouble.last().is_some() || self.peer.is_transport_closed()
    }

    /// Listens to the progress of one request.
    pub(crate) fn progress(&self, token: Option<ProgressToken>) -> Told {
        Told {
            listening: token.map(|token| {
                let told = self.listeners.listen(token.clone());
                (token, self.listeners.clone(), told)
            }),
        }
    }

    /// A server's own words without the credentials that it was given, as one short line.
    pub(crate) fn quote(&self, said: &str) -> String {
        self.given.redactor().quote(said)
    }

    /// Whether the server is still there. Any answer says that it is.
    pub(crate) async fn ping(&self) -> bool {
        let request = match self.facts.era {
            Era::Legacy => ClientRequest::PingRequest(PingRequest::default()),
            Era::Modern => {
                ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {}))
            }
        };
        let options = PeerRequestOptions::with_timeout(PING_TIME);
        let asked = match self.peer.send_request_with_option(request, options).await {
            Ok(asked) => asked.await_response().await,
            Err(error) => Err(error),
        };
        match asked {
            Ok(_) => !self.is_broken(),
            // A server without ping is there.
            Err(ServiceError::McpError(error)) => {
                error.code == ErrorCode::METHOD_NOT_FOUND && !self.is_broken()
            }
            Err(_) => false,
        }
    }

    /// Ends the session and the connection, in bounded time.
    pub(crate) async fn close(&self) {
        let service = self
            .service
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(mut service) = service {
            // Whatever does not end in time ends by being dropped.
            drop(service.close_with_timeout(CLOSE_TIME).await);
        }
        self.closed.cancel();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

/// Asks a server of the modern era to say when its list of Tools changes. What it says is counted where it is heard.
async fn hear_changes(peer: Peer<RoleClient>) {
    let mut filter = SubscriptionFilter::new();
    filter.tools_list_changed = Some(true);
    let Ok(mut subscription) = peer.listen(filter).await else {
        return;
    };
    while let Ok(Some(_)) = subscription.next().await {}
}

fn facts(era: Era, info: &ServerPeerInfo) -> Facts {
    let server_info = info.server_info.as_ref().map_or_else(String::new, |info| {
        format!("{} {}", info.name, info.version)
    });
    Facts {
        era,
        protocol_version: info.protocol_version.as_str().to_owned(),
        server_info: shown(&server_info, NAME_BYTES).trim().replace('\n', " "),
        instructions: shown(
            info.instructions.as_deref().unwrap_or_default(),
            INSTRUCTIONS_BYTES,
        ),
    }
}

fn shown(text: &str, most: usize) -> String {
    let text = &text[..floor_char_boundary(text, most)];
    strip_control(text).replace('\0', "")
}
