//! Connects to a server, in whichever era of the protocol it speaks.
//!
//! Servers of the modern era answer `server/discover`; older ones want `initialize`. The era that was spoken last is tried first.
//! Otherwise the modern one is, and whatever is no answer of the modern era leads to `initialize`: how an old server says no differs
//! from server to server. One that says nothing is asked in the old way beside, so that its silence costs [`PROBE_TIME`] and no more.

mod connection;
mod handler;
mod handshake;
#[cfg(test)]
mod tests;

use std::{future::Future, path::PathBuf, pin::pin, sync::Arc, time::Duration};

use outbound::Connector;
use rmcp::{RoleClient, model::ServerPeerInfo, transport::Transport};
use tokio_util::task::TaskTracker;

use crate::{
    Config, Endpoint, Era, Failure, FailureCode, RemoteEndpoint, StdioEndpoint,
    transport::{
        Trouble, door::Door, http::HttpTransport, inbound::Inbound, sse, sse::SseTransport, stdio,
    },
};
pub(crate) use connection::Connection;
use connection::Given;
pub use handler::Handling;
pub(crate) use handler::responses;
use handler::{Handler, me};
use handshake::{Refused, discover, either, initialize};

/// How long a server may take to answer in the modern era before it is asked in the old way, too.
const PROBE_TIME: Duration = Duration::from_secs(2);
/// How long a server that refuses one HTTP transport is asked whether it speaks the other.
const HINT_TIME: Duration = Duration::from_secs(3);

/// What connecting works with.
#[derive(Debug)]
pub(crate) struct Connecting {
    /// The way out, guarded.
    pub(crate) connector: Connector,
    /// The settings.
    pub(crate) config: Arc<Config>,
    /// The program that starts commands.
    pub(crate) program: PathBuf,
    /// Where tasks run.
    pub(crate) tracker: TaskTracker,
    /// How what servers ask for is answered.
    pub(crate) handling: Handling,
}

/// A handshake that came about.
struct Opened<T> {
    transport: T,
    info: ServerPeerInfo,
    era: Era,
}

/// Connects. The caller bounds the wait; dropping the future closes what was begun.
///
/// # Errors
/// Why there is no connection.
pub(crate) async fn connect(
    endpoint: &Endpoint,
    how: &Connecting,
    era: Option<Era>,
) -> Result<Connection, Failure> {
    match endpoint {
        Endpoint::Http(remote) => connect_http(remote, how, era).await,
        Endpoint::Sse(remote) => connect_sse(remote, how).await,
        Endpoint::Stdio(stdio) => connect_stdio(stdio, how, era).await,
    }
}

async fn connect_http(
    endpoint: &RemoteEndpoint,
    how: &Connecting,
    era: Option<Era>,
) -> Result<Connection, Failure> {
    let door = door(endpoint, how);
    let inbound = Inbound::default();
    let trouble = Trouble::default();
    // What failed in one era is no trouble of a connection in the other.
    let legacy_trouble = Trouble::default();
    let start = |trouble: &Trouble| {
        HttpTransport::start(&door, &inbound, trouble, &how.config, &how.tracker)
    };
    let opened = in_either_era(
        era,
        || async { modern(start(&trouble), how).await },
        || async { legacy(start(&legacy_trouble), how).await },
    );
    match opened.await {
        Ok(opened) => {
            let trouble = match opened.era {
                Era::Modern => trouble,
                Era::Legacy => legacy_trouble,
            };
            let is_stateful = opened.transport.has_session() || opened.era == Era::Legacy;
            let given = Given::ToServer(door);
            Ok(Connection::serve(
                opened,
                is_stateful,
                given,
                inbound,
                trouble,
                how,
            ))
        }
        Err(refused) => {
            let failure = refused.into_failure(&door.redactor());
            if may_be_the_other_kind(&failure)
                && sse::is_spoken(&door, how.config.answer_bytes, HINT_TIME).await
            {
                return Err(Failure::new(
                    FailureCode::IsSse,
                    "This is a server of the older kind, HTTP with server-sent events (SSE).",
                    "Choose the transport sse for this URL.",
                ));
            }
            Err(failure)
        }
    }
}

async fn connect_sse(endpoint: &RemoteEndpoint, how: &Connecting) -> Result<Connection, Failure> {
    let door = door(endpoint, how);
    let inbound = Inbound::default();
    let trouble = Trouble::default();
    let started = SseTransport::start(&door, &inbound, &trouble, &how.config, &how.tracker).await;
    let transport = match started {
        Ok(transport) => transport,
        Err(failure) => {
            if may_be_the_other_kind(&failure) && is_streamable(&door, how).await {
                return Err(Failure::new(
                    FailureCode::IsStreamableHttp,
                    "This is a server of streamable HTTP.",
                    "Choose the transport http for this URL.",
                ));
            }
            return Err(failure);
        }
    };
    let opened = legacy(transport, how).await;
    let opened = opened.map_err(|refused| {
        // The transport knows best why nothing came.
        match (refused, trouble.last()) {
            (Refused::Closed, Some(failure)) => failure,
            (refused, _) => refused.into_failure(&door.redactor()),
        }
    })?;
    Ok(Connection::serve(
        opened,
        true,
        Given::ToServer(door),
        inbound,
        trouble,
        how,
    ))
}

/// A server that ends when it is asked in the modern era is started once more and asked in the old way: some take an unknown question for
/// a reason to.
async fn connect_stdio(
    endpoint: &StdioEndpoint,
    how: &Connecting,
    era: Option<Era>,
) -> Result<Connection, Failure> {
    let first = match begin_stdio(endpoint, how, era).await {
        Err(failure) if failure.code == FailureCode::Exited && era.is_none() => failure,
        outcome => return outcome,
    };
    let second = begin_stdio(endpoint, how, Some(Era::Legacy)).await;
    second.map_err(|second| {
        if second.code == FailureCode::Exited {
            first
        } else {
            second
        }
    })
}

async fn begin_stdio(
    endpoint: &StdioEndpoint,
    how: &Connecting,
    era: Option<Era>,
) -> Result<Connection, Failure> {
    let inbound = Inbound::default();
    let trouble = Trouble::default();
    let with = stdio::Start {
        program: &how.program,
        config: &how.config,
        inbound: &inbound,
        trouble: &trouble,
        tracker: &how.tracker,
    };
    let mut transport = stdio::start(endpoint, with).await?;
    let me = me(how.handling);
    let begun = match era {
        Some(Era::Legacy) => initialize(&mut transport, &me)
            .await
            .map(|info| (info, Era::Legacy)),
        Some(Era::Modern) | None => either(&mut transport, &me, PROBE_TIME).await,
    };
    match begun {
        Ok((info, era)) => {
            let opened = Opened {
                transport,
                info,
                era,
            };
            let given = Given::ToCommand(endpoint.clone());
            Ok(Connection::serve(
                opened, true, given, inbound, trouble, how,
            ))
        }
        // The transport knows best why nothing came: the command ended, and why.
        Err(refused) => Err(match (refused, trouble.last()) {
            (Refused::Closed | Refused::Failed(_), Some(failure)) => failure,
            (refused, _) => refused.into_failure(&stdio::redactor(endpoint)),
        }),
    }
}

fn door(endpoint: &RemoteEndpoint, how: &Connecting) -> Arc<Door> {
    Arc::new(Door::new(&how.connector, endpoint, how.config.connect()))
}

async fn modern<T>(mut transport: T, how: &Connecting) -> Result<Opened<T>, Refused>
where
    T: Transport<RoleClient, Error = Failure>,
{
    let info = discover(&mut transport, &me(how.handling)).await?;
    Ok(Opened {
        transport,
        info,
        era: Era::Modern,
    })
}

async fn legacy<T>(mut transport: T, how: &Connecting) -> Result<Opened<T>, Refused>
where
    T: Transport<RoleClient, Error = Failure>,
{
    let info = initialize(&mut transport, &me(how.handling)).await?;
    let era = if info.protocol_version.has_initialize() {
        Era::Legacy
    } else {
        Era::Modern
    };
    Ok(Opened {
        transport,
        info,
        era,
    })
}

/// Tries both eras, each with a transport of its own: first the one that was spoken last, else the modern one.
async fn in_either_era<T, M, L>(
    era: Option<Era>,
    modern: impl Fn() -> M,
    legacy: impl Fn() -> L,
) -> Result<Opened<T>, Refused>
where
    M: Future<Output = Result<Opened<T>, Refused>>,
    L: Future<Output = Result<Opened<T>, Refused>>,
{
    if era == Some(Era::Legacy) {
        let first = match legacy().await {
            Err(refused) if !refused.is_final() => refused,
            outcome => return outcome,
        };
        return modern().await.map_err(|second| first.or(second));
    }
    let mut probe = pin!(modern());
    match tokio::time::timeout(PROBE_TIME, &mut probe).await {
        Ok(Err(refused)) if !refused.is_final() => {
            legacy().await.map_err(|second| second.or(refused))
        }
        Ok(outcome) => outcome,
        Err(_silent) => {
            let mut beside = pin!(legacy());
            tokio::select! {
                outcome = &mut probe => match outcome {
                    Err(refused) if !refused.is_final() => {
                        beside.await.map_err(|second| second.or(refused))
                    }
                    outcome => outcome,
                },
                outcome = &mut beside => match outcome {
                    Err(refused) if !refused.is_final() => {
                        probe.await.map_err(|second| refused.or(second))
                    }
                    outcome => outcome,
                },
            }
        }
    }
}

/// Whether a refusal looks like that of a server that speaks the other HTTP transport.
fn may_be_the_other_kind(failure: &Failure) -> bool {
    matches!(
        failure.code,
        FailureCode::HttpError | FailureCode::ProtocolError | FailureCode::Html
    )
}

async fn is_streamable(door: &Arc<Door>, how: &Connecting) -> bool {
    let (inbound, trouble) = (Inbound::default(), Trouble::default());
    let start = || HttpTransport::start(door, &inbound, &trouble, &how.config, &how.tracker);
    let asked = in_either_era(
        None,
        || async { modern(start(), how).await },
        || async { legacy(start(), how).await },
    );
    let Ok(Ok(mut opened)) = tokio::time::timeout(HINT_TIME, asked).await else {
        return false;
    };
    // It ends the session; one that cannot be ended ends by itself.
    drop(opened.transport.close().await);
    true
}
