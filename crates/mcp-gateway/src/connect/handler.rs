//! Answers what servers ask of their client: no, at once. A turn has nobody to ask.
#![expect(
    deprecated,
    reason = "servers of the older era still ask for what the protocol has given up"
)]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
        ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode,
        ErrorData, FormElicitationCapability, Implementation, InputResponses, ListRootsResult,
        ProgressNotificationParam, ProgressToken, ProtocolVersion,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::{clients::Progress, transport::inbound::Inbound};

/// Steps of one call's progress that wait to be told; further ones are left out until there is room.
const QUEUED: usize = 16;
/// Bytes of a step's message that are kept.
const MESSAGE_BYTES: usize = 512;

/// How what servers ask for is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Handling {
    /// Everything is declined, and no capability is declared.
    #[default]
    Decline,
    /// Questions to a person are answered with the defaults that their schema names. For the protocol's conformance suite, and for nothing
    /// else: a server must not take a default for a person's word.
    AnswerWithDefaults,
}

/// Who listens to whose progress.
#[derive(Debug, Clone, Default)]
pub(super) struct Listeners(Arc<Mutex<HashMap<ProgressToken, mpsc::Sender<Progress>>>>);

impl Listeners {
    /// Listens until what is returned is dropped.
    pub(super) fn listen(&self, token: ProgressToken) -> mpsc::Receiver<Progress> {
        let (teller, told) = mpsc::channel(QUEUED);
        self.lock().insert(token, teller);
        told
    }

    pub(super) fn stop(&self, token: &ProgressToken) {
        self.lock().remove(token);
    }

    fn tell(&self, step: ProgressNotificationParam) {
        let teller = self.lock().get(&step.progress_token).cloned();
        let Some(teller) = teller else {
            return;
        };
        let message = step.message.unwrap_or_default();
        let end = kernel::floor_char_boundary(&message, MESSAGE_BYTES);
        let step = Progress {
            done: step.progress,
            total: step.total,
            message: kernel::strip_control(&message[..end]).into_owned(),
        };
        // A listener that is behind hears the next one.
        drop(teller.try_send(step));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ProgressToken, mpsc::Sender<Progress>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client's side of a connection.
#[derive(Debug)]
pub(super) struct Handler {
    pub(super) handling: Handling,
    pub(super) listeners: Listeners,
    pub(super) inbound: Inbound,
}

/// What this client says of itself.
pub(super) fn me(handling: Handling) -> ClientConfig {
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = match handling {
        Handling::Decline => None,
        Handling::AnswerWithDefaults => {
            Some(ElicitationCapability::new().with_form(FormElicitationCapability::new()))
        }
    };
    let info = Implementation::new("AgentsVille", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(capabilities, info)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

fn not_offered(what: &str) -> ErrorData {
    ErrorData::new(
        ErrorCode::METHOD_NOT_FOUND,
        format!("this client does not offer {what}"),
        None,
    )
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        me(self.handling)
    }

    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Err(not_offered("sampling"))
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Err(not_offered("roots"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = ElicitResult::new(ElicitationAction::Decline);
        match (self.handling, request) {
            (
                Handling::AnswerWithDefaults,
                ElicitRequestParams::FormElicitationParams {
                    requested_schema, ..
                },
            ) => {
                let schema = serde_json::to_value(requested_schema).unwrap_or_default();
                let content = defaults(&schema);
                Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
            }
            _ => Ok(declined),
        }
    }

    async fn on_progress(
        &self,
        step: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.listeners.tell(step);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.inbound.note_change();
    }
}

/// The answers to what a server wants to know before it gives a result (2026-07-28, multi round-trip requests); `None` where nobody
/// answers, or where it asks what is not answered.
pub(crate) fn responses(handling: Handling, requests: &Value) -> Option<InputResponses> {
    if handling == Handling::Decline {
        return None;
    }
    let requests = requests.as_object()?.iter();
    requests
        .map(|(name, request)| {
            let is_question = request["method"] == "elicitation/create";
            let content = defaults(&request["params"]["requestedSchema"]);
            is_question.then(|| {
                (
                    name.clone(),
                    json!({"action": "accept", "content": content}),
                )
            })
        })
        .collect()
}

/// The defaults that a schema names.
fn defaults(schema: &Value) -> Value {
    let named = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, property)| Some((name.clone(), property.get("default")?.clone())));
    Value::Object(named.collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    fn step(token: i64, progress: f64) -> ProgressNotificationParam {
        serde_json::from_value(json!({
            "progressToken": token, "progress": progress, "message": "half\u{1b}way"
        }))
        .expect("a step")
    }

    #[test]
    fn no_capability_is_declared_in_production() {
        let me = me(Handling::default());
        assert_eq!(me.capabilities, ClientCapabilities::default());
    }

    #[test]
    fn the_defaults_of_a_schema_are_found() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x"}, "b": {"type": "number"}, "c": {"default": false}
        }});
        assert_eq!(defaults(&schema), json!({"a": "x", "c": false}));
    }

    #[tokio::test]
    async fn a_listener_hears_its_own_call_alone_and_a_flood_fills_no_memory() {
        let listeners = Listeners::default();
        let token = |number| ProgressToken(NumberOrString::Number(number));
        let mut told = listeners.listen(token(1));
        listeners.tell(step(2, 9.0));
        for number in 0..1_000 {
            listeners.tell(step(1, f64::from(number)));
        }
        let first = told.recv().await.expect("a step");
        assert_eq!((first.done, first.message.as_str()), (0.0, "halfway"));
        let mut heard = 1;
        while told.try_recv().is_ok() {
            heard += 1;
        }
        assert_eq!(heard, QUEUED);
        listeners.stop(&token(1));
        assert!(told.recv().await.is_none());
    }
}
