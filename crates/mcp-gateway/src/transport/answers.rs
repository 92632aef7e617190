//! Answers to `tools/list` and `tools/call` as they came, past `rmcp`'s types.
//!
//! `rmcp` reads every result into its own types: one bad Tool fails a whole list, an unknown kind of content a whole result, and integers past
//! 64 bits are rounded. So every transport hands its messages through here before `rmcp` reads them. What is read elsewhere is kept beside: of a
//! Tool's result `rmcp` gets a word in its place, of a list the Tools that it can read, since it needs their schemas for headers.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use kernel::JsonText;
use rmcp::{
    RoleClient,
    model::{ClientRequest, JsonRpcMessage, NumberOrString, RequestId, ServerResult, Tool},
    service::TxJsonRpcMessage,
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What `rmcp` gets in a result's place. It tries one type after the other and writes what it found instead into an error each time, so that
/// it is short.
const KEPT: &str = "true";
/// Requests whose answers are waited for; those beyond are read by `rmcp` alone.
const MAX_WAITING: usize = 16_384;

/// The requests of one connection whose answers are kept as they come. Cheap to clone; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    calls: HashSet<RequestId>,
    lists: HashSet<RequestId>,
    kept: HashMap<RequestId, String>,
}

/// A response, as far as it must be looked into.
#[derive(Debug, Deserialize)]
struct Response<'m> {
    #[serde(borrow)]
    id: Option<&'m RawValue>,
    #[serde(borrow)]
    result: Option<&'m RawValue>,
}

impl Answers {
    /// Notes a message that is about to be sent.
    pub(crate) fn sent(&self, message: &TxJsonRpcMessage<RoleClient>) {
        let JsonRpcMessage::Request(request) = message else {
            return;
        };
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.calls.len() + waiting.lists.len() >= MAX_WAITING {
            return;
        }
        if let ClientRequest::CallToolRequest(_) = &request.request {
            waiting.calls.insert(request.id.clone());
        } else if let ClientRequest::ListToolsRequest(_) = &request.request {
            waiting.lists.insert(request.id.clone());
        }
    }

    /// A message as `rmcp` shall read it.
    pub(crate) fn received<'m>(&self, message: &'m str) -> Cow<'m, str> {
        self.rewritten(message)
            .map_or(Cow::Borrowed(message), Cow::Owned)
    }

    /// The whole answer to a list request, once.
    pub(crate) fn take_list(&self, id: &RequestId) -> Option<JsonText> {
        JsonText::parse(&self.take(id)?).ok()
    }

    /// The result of a call as it came, once. `read` is what `rmcp` made of it.
    pub(crate) fn take_call(&self, id: &RequestId, read: &ServerResult) -> Option<JsonText> {
        match self.take(id) {
            Some(text) => JsonText::parse(&text).ok(),
            // More than can be waited for was sent at once: what `rmcp` made of it is what there is.
            None => Some(JsonText::of(read)),
        }
    }

    fn take(&self, id: &RequestId) -> Option<String> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.kept.remove(id)
    }

    /// Forgets a request that nobody waits for any more.
    pub(crate) fn forget(&self, id: &RequestId) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.calls.remove(id);
        waiting.lists.remove(id);
        waiting.kept.remove(id);
    }

    fn rewritten(&self, message: &str) -> Option<String> {
        // Most messages of a quiet connection are answers; a look costs less than `rmcp`'s own reading.
        let response: Response<'_> = serde_json::from_str(message).ok()?;
        let result = response.result?.get();
        let id = id(response.id?)?;
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = if waiting.calls.remove(&id) {
            waiting.kept.insert(id, result.to_owned());
            KEPT.to_owned()
        } else if waiting.lists.remove(&id) {
            waiting.kept.insert(id, result.to_owned());
            drop(waiting);
            readable(result)
        } else {
            return None;
        };
        Some(format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
            response.id?.get()
        ))
    }
}

/// An id as it was sent. Servers that answer a number with the same number as text exist, and `rmcp` does not find their requests either.
fn id(raw: &RawValue) -> Option<RequestId> {
    let text = raw.get();
    if text.starts_with('"') {
        let text: String = serde_json::from_str(text).ok()?;
        return Some(NumberOrString::String(text.into()));
    }
    text.parse().ok().map(NumberOrString::Number)
}

/// The Tools of a page that `rmcp` can read, and nothing else of it.
fn readable(page: &str) -> String {
    #[derive(Deserialize)]
    struct Page<'p> {
        #[serde(borrow, default)]
        tools: Vec<&'p RawValue>,
    }
    let tools: Vec<&RawValue> = serde_json::from_str::<Page<'_>>(page)
        .map(|page| page.tools)
        .unwrap_or_default()
        .into_iter()
        .filter(|tool| serde_json::from_str::<Tool>(tool.get()).is_ok())
        .collect();
    serde_json::to_string(&tools).map_or_else(
        |_never| r#"{"tools":[]}"#.to_owned(),
        |tools| format!(r#"{{"tools":{tools}}}"#),
    )
}

#[cfg(test)]
mod tests {
    use rmcp::{
        model::{
            CallToolRequest, CallToolRequestParams, JsonRpcRequest, JsonRpcVersion2_0,
            ListToolsRequest,
        },
        service::RxJsonRpcMessage,
    };

    use super::*;

    fn request(id: i64, request: ClientRequest) -> TxJsonRpcMessage<RoleClient> {
        JsonRpcMessage::Request(JsonRpcRequest {
            jsonrpc: JsonRpcVersion2_0,
            id: NumberOrString::Number(id),
            request,
        })
    }

    fn call() -> ClientRequest {
        ClientRequest::CallToolRequest(CallToolRequest::new(CallToolRequestParams::new("echo")))
    }

    fn result(message: &str) -> ServerResult {
        let message = serde_json::from_str::<RxJsonRpcMessage<RoleClient>>(message).unwrap();
        let JsonRpcMessage::Response(response) = message else {
            panic!("{message:?}");
        };
        response.result
    }

    #[test]
    fn a_result_travels_through_as_it_came() {
        let answers = Answers::default();
        answers.sent(&request(7, call()));
        let message = r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"hologram"}],"structuredContent":{"n":123456789012345678901}}}"#;
        let through = result(&answers.received(message));
        let id = NumberOrString::Number(7);
        assert_eq!(
            answers.take_call(&id, &through).unwrap().as_str(),
            r#"{"content":[{"type":"hologram"}],"structuredContent":{"n":123456789012345678901}}"#
        );
        // It is an answer once.
        assert!(matches!(answers.received(message), Cow::Borrowed(_)));
    }

    #[test]
    fn a_long_result_is_not_long_for_rmcp() {
        let answers = Answers::default();
        answers.sent(&request(7, call()));
        let text = "x".repeat(1_000_000);
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
        );
        let through = answers.received(&message).into_owned();
        assert!(through.len() < 100, "{through}");
        let read = result(&through);
        let id = NumberOrString::Number(7);
        assert!(answers.take_call(&id, &read).unwrap().as_str().len() > text.len());
    }

    #[test]
    fn a_result_that_nobody_takes_is_not_kept() {
        let answers = Answers::default();
        answers.sent(&request(7, call()));
        let read = result(&answers.received(r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#));
        let id = NumberOrString::Number(7);
        answers.forget(&id);
        assert_eq!(answers.take_call(&id, &read).unwrap().as_str(), "true");
    }

    #[test]
    fn a_list_is_kept_whole_and_rmcp_gets_what_it_can_read() {
        let answers = Answers::default();
        answers.sent(&request(
            1,
            ClientRequest::ListToolsRequest(ListToolsRequest::default()),
        ));
        let page = r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","inputSchema":null}],"nextCursor":"2"}"#;
        let message = format!(r#"{{"id":1,"result":{page},"jsonrpc":"2.0"}}"#);
        let ServerResult::ListToolsResult(list) = result(&answers.received(&message)) else {
            panic!("a list");
        };
        assert_eq!(list.tools.len(), 1);
        let id = NumberOrString::Number(1);
        assert_eq!(answers.take_list(&id).unwrap().as_str(), page);
        assert_eq!(answers.take_list(&id), None);
    }

    #[test]
    fn other_messages_are_left_alone() {
        let answers = Answers::default();
        answers.sent(&request(7, call()));
        for message in [
            r#"{"jsonrpc":"2.0","id":8,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
            "not JSON",
            "[]",
        ] {
            assert!(
                matches!(answers.received(message), Cow::Borrowed(_)),
                "{message}"
            );
        }
    }

    #[test]
    fn a_request_that_nobody_waits_for_is_forgotten() {
        let answers = Answers::default();
        answers.sent(&request(7, call()));
        answers.forget(&NumberOrString::Number(7));
        assert!(matches!(
            answers.received(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#),
            Cow::Borrowed(_)
        ));
    }
}
