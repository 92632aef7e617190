//! What mcp-gateway asks and tells.

use kernel::{Act, Caller, McpServerId, ServiceName, decide, strip_control};
use uuid::Uuid;

use super::{Era, McpServer, Shown, TestResult, transport_of};
use crate::{
    Error, Registry,
    error::{Thing, allowed},
    name::Reference,
    store::{Lock, mcp_server},
};

const DENIED: &str = "only mcp-gateway asks for this";
/// Characters of a sentence about a test.
const SENTENCE_CHARS: usize = 1_024;
/// Characters of a word or a version in it.
const WORD_CHARS: usize = 64;

/// Which state of a server was observed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observed {
    id: McpServerId,
    generation: i64,
}

impl Observed {
    pub(crate) fn parse(server_id: &str, generation: u64) -> Result<Self, Error> {
        let id: Uuid = server_id
            .parse()
            .map_err(|_source| Error::invalid("server_id", "it is not an id"))?;
        Ok(Self {
            id: McpServerId::from_uuid(id),
            generation: i64::try_from(generation)
                .map_err(|_source| Error::invalid("generation", "it is no generation"))?,
        })
    }
}

impl Registry {
    /// All that mcp-gateway needs to reach a server, its secrets sealed: on behalf of a Player who may use it, or of nobody.
    pub(crate) async fn resolve_mcp_server(
        &self,
        caller: &Caller,
        given: &str,
    ) -> Result<Shown, Error> {
        only_the_gateway(caller)?;
        let reference = Reference::parse(given, "server")?;
        let hidden = || Error::not_found(Thing::McpServer, given);
        let found = mcp_server::find(self.store.reader(), &reference, Lock::None).await?;
        let server: McpServer = found.ok_or_else(hidden)?;
        let decision = decide(caller, Act::UseMcpServer(server.facts()));
        allowed(decision, hidden, DENIED)?;
        Ok(self.show(server))
    }

    /// Keeps how a test went. That of another generation is dropped, and so is that of a server that is gone.
    pub(crate) async fn save_test_result(
        &self,
        caller: &Caller,
        of: Observed,
        test: TestResult,
    ) -> Result<(), Error> {
        only_the_gateway(caller)?;
        let test = TestResult {
            code: plain(&test.code, WORD_CHARS),
            sentence: plain(&test.sentence, SENTENCE_CHARS),
            next_step: plain(&test.next_step, SENTENCE_CHARS),
            protocol_version: plain(&test.protocol_version, WORD_CHARS),
            transport: transport_of(&test.transport).map_or_else(String::new, |_| test.transport),
            at_micros: if test.at_micros > 0 {
                test.at_micros
            } else {
                self.clock.now().as_micros()
            },
            ..test
        };
        self.store
            .write(move |tx| {
                Box::pin(async move {
                    Ok(mcp_server::save_test(tx, of.id, of.generation, &test).await?)
                })
            })
            .await
    }

    /// Keeps the era in which a server was spoken to. That of another generation is dropped.
    pub(crate) async fn save_era(
        &self,
        caller: &Caller,
        of: Observed,
        era: Option<Era>,
    ) -> Result<(), Error> {
        only_the_gateway(caller)?;
        self.store
            .write(move |tx| {
                Box::pin(
                    async move { Ok(mcp_server::save_era(tx, of.id, of.generation, era).await?) },
                )
            })
            .await
    }
}

fn only_the_gateway(caller: &Caller) -> Result<(), Error> {
    match caller {
        Caller::Service {
            name: ServiceName::McpGateway,
            ..
        } => Ok(()),
        Caller::Operator(_) | Caller::Player(_) | Caller::Npc { .. } | Caller::Service { .. } => {
            Err(Error::Denied(DENIED))
        }
    }
}

/// One line without control characters: parts of it may be a server's words.
fn plain(text: &str, most: usize) -> String {
    strip_control(text)
        .chars()
        .map(|c| if c == '\n' || c == '\t' { ' ' } else { c })
        .take(most)
        .collect()
}
