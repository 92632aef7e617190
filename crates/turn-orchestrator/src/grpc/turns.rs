//! `TurnService`.

use std::{pin::Pin, sync::Arc};

use futures::{Stream, StreamExt as _};
use proto::turn::v1::{
    AbortTurnRequest, AbortTurnResponse, DescribeToolsRequest, DescribeToolsResponse,
    StartTurnRequest, StartTurnResponse, WatchTurnRequest, WatchTurnResponse,
    abort_turn_request::Target as AbortTarget,
    start_turn_request::Trigger as WireTrigger,
    turn_service_server::TurnService,
    watch_turn_request::{From as WireFrom, Target},
    watch_turn_response::Item,
};
use tonic::{Request, Response, Status};

use super::{id, render};
use crate::{
    Error,
    service::{Service, Start},
    store::Trigger,
    watch::{self, From, Seen},
};

pub(super) struct Turns(pub(super) Arc<Service>);

#[tonic::async_trait]
impl TurnService for Turns {
    type WatchTurnStream =
        Pin<Box<dyn Stream<Item = Result<WatchTurnResponse, Status>> + Send + 'static>>;

    async fn start_turn(
        &self,
        request: Request<StartTurnRequest>,
    ) -> Result<Response<StartTurnResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let trigger = match request.trigger {
            Some(WireTrigger::Submit(submit)) if submit.edits => Trigger::Edit {
                client_id: submit.client_id,
                text: clean(submit.text),
            },
            Some(WireTrigger::Submit(submit)) => Trigger::Submit {
                client_id: submit.client_id,
                text: clean(submit.text),
            },
            Some(WireTrigger::Regenerate(again)) => Trigger::Regenerate {
                message: Some(again.message_id).filter(|id| !id.is_empty()),
            },
            None => {
                return Err(missing(
                    "trigger",
                    "say what to answer: submit or regenerate",
                ));
            }
        };
        let started = self
            .0
            .start(
                &caller,
                Start {
                    conversation: request.conversation_client_id,
                    npc: request.npc,
                    request: request.request_id,
                    trigger,
                },
            )
            .await?;
        Ok(Response::new(StartTurnResponse {
            turn_id: started.turn.to_string(),
            conversation_id: started.conversation.to_string(),
            message_id: started.message.to_string(),
            already_started: started.already,
        }))
    }

    async fn watch_turn(
        &self,
        request: Request<WatchTurnRequest>,
    ) -> Result<Response<Self::WatchTurnStream>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let turn = match request.target {
            Some(Target::TurnId(turn)) => self.0.watchable(&caller, id("turn_id", &turn)?).await?,
            Some(Target::Conversation(conversation)) => {
                self.0.watchable_of(&caller, &conversation).await?
            }
            None => {
                return Err(missing(
                    "target",
                    "say what to watch: turn_id or conversation",
                ));
            }
        };
        let from = match request.from {
            Some(WireFrom::After(after)) => From::After(after),
            Some(WireFrom::Snapshot(_)) | None => From::Snapshot,
        };
        let seen = watch::watch(Arc::clone(&self.0), &turn, from).await;
        let items = seen.map(|seen| {
            let item = match seen? {
                Seen::Snapshot(snapshot) => Item::Snapshot(render::snapshot(*snapshot)),
                Seen::Event(told) => Item::Event(told.0),
            };
            Ok(WatchTurnResponse { item: Some(item) })
        });
        Ok(Response::new(Box::pin(items)))
    }

    async fn abort_turn(
        &self,
        request: Request<AbortTurnRequest>,
    ) -> Result<Response<AbortTurnResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let stopped = match request.into_inner().target {
            Some(AbortTarget::TurnId(turn)) => self.0.abort(&caller, id("turn_id", &turn)?).await?,
            Some(AbortTarget::NpcId(npc)) => self.0.abort_npc(&caller, id("npc_id", &npc)?).await?,
            None => return Err(missing("target", "say what to stop: turn_id or npc_id")),
        };
        Ok(Response::new(AbortTurnResponse {
            turn_ids: stopped.iter().map(ToString::to_string).collect(),
        }))
    }

    async fn describe_tools(
        &self,
        request: Request<DescribeToolsRequest>,
    ) -> Result<Response<DescribeToolsResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let tools = self.0.describe(&caller, &request.into_inner().npc).await?;
        Ok(Response::new(render::tools(&tools)))
    }
}

/// A Player's text as it is stored and as the model reads it: one text, on every database.
fn clean(text: String) -> String {
    if text.contains('\0') {
        kernel::clean_text(&text).into_owned()
    } else {
        text
    }
}

fn missing(field: &'static str, sentence: &str) -> Status {
    Error::Invalid {
        field,
        sentence: sentence.to_owned(),
    }
    .into()
}
