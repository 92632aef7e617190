//! The older kind: a stream that names an address, and messages that are posted there.

use std::sync::{Arc, atomic::Ordering};

use http::Response;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    HttpFault, ReplyBody, Session, State, lock,
    replies::reply,
    streams::{Outlet, Piece, events, play},
};

impl State {
    pub(super) fn open_sse(self: &Arc<Self>) -> Response<ReplyBody> {
        if let Some(status) = self.fault(|fault| match fault {
            HttpFault::AnswersGet(status) => Some(status),
            _ => None,
        }) {
            return reply(status, &[], "");
        }
        let number = self.next_session.fetch_add(1, Ordering::SeqCst);
        let id = format!("session-{number}");
        let session = Arc::new(Session::new(&self.script));
        let (outlet, pieces) = mpsc::unbounded_channel();
        let endpoint = self
            .fault(|fault| match fault {
                HttpFault::Endpoint(endpoint) => Some(endpoint),
                _ => None,
            })
            .unwrap_or_else(|| format!("/message?sessionId={id}"));
        if !self.has(&HttpFault::NoEndpoint) {
            outlet.send(Piece::endpoint(&endpoint)).ok();
        }
        *lock(&session.outlet) = Some(outlet);
        lock(&self.sessions).insert(id, session);
        events(pieces, &[], None)
    }

    pub(super) fn post_sse(self: &Arc<Self>, path: &str, message: &Value) -> Response<ReplyBody> {
        let Some(id) = path
            .strip_prefix("/message?sessionId=")
            .map(|rest| rest.split('&').next().unwrap_or_default())
        else {
            return reply(405, &[], "Method Not Allowed");
        };
        let Some(session) = lock(&self.sessions).get(id).cloned() else {
            return reply(404, &[], "Could not find session");
        };
        let acts = session.conversation.receive(message);
        let conversation = Arc::clone(&session.conversation);
        self.tasks
            .spawn(play(acts, conversation, Outlet::Session(session)));
        reply(202, &[], "Accepted")
    }
}
