//! An orchestrator whose turns a test writes.

mod fold;

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use kernel::{Caller, ErrorCode, ServiceName};
use proto::turn::v1::{
    AbortTurnRequest, AbortTurnResponse, Conversation, DeleteConversationRequest,
    DeleteConversationResponse, DeleteMessageRequest, DeleteMessageResponse, DescribeToolsRequest,
    DescribeToolsResponse, FinishReason, GetConversationRequest, GetConversationResponse,
    GetMediaRequest, GetMediaResponse, GetMessageRequest, GetMessageResponse,
    ListConversationsRequest, ListConversationsResponse, ListMessagesRequest, ListMessagesResponse,
    MediaReference, Message, Part, Role, StartTurnRequest, StartTurnResponse, TextPart, TurnEnded,
    TurnEvent, TurnStatus, Usage, WatchTurnRequest, WatchTurnResponse, abort_turn_request,
    conversation_service_server::{ConversationService, ConversationServiceServer},
    part::Content,
    start_turn_request::Trigger,
    turn_event::Event,
    turn_service_server::{TurnService, TurnServiceServer},
    watch_turn_request::{From, Target},
    watch_turn_response::Item,
};
use runtime::{GrpcServer, status};
use tokio::sync::watch;
use tonic::{Request, Response, Status};

pub(crate) use fold::say;
use fold::snapshot;

/// What one turn does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    /// Events after `TurnStarted`.
    pub(crate) events: Vec<Event>,
    /// How many of all events are told before the test lets go on; none: all of them.
    pub(crate) hold_after: Option<usize>,
    /// The first watch breaks after this many events.
    pub(crate) break_after: Option<usize>,
    /// Watches skip this event once.
    pub(crate) skip: Option<u64>,
}

#[derive(Debug, Clone)]
struct Running {
    turn_id: String,
    conversation_id: String,
    client_id: String,
    message_id: String,
    question: Message,
    events: Arc<Mutex<Vec<TurnEvent>>>,
    told: watch::Sender<usize>,
    script: Arc<Mutex<Script>>,
    owner: Caller,
}

/// The orchestrator.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns {
    scripts: Arc<Mutex<HashMap<String, Script>>>,
    running: Arc<Mutex<Vec<Running>>>,
    asked: Arc<Mutex<Vec<StartTurnRequest>>>,
    watches: Arc<Mutex<usize>>,
    media: Arc<Mutex<Vec<GetMediaResponse>>>,
}

impl Turns {
    /// Something that a Tool gave, for whoever asks.
    pub(crate) fn keep(&self, id: &str, media_type: &str, data: &[u8]) {
        self.media.lock().unwrap().push(GetMediaResponse {
            media: Some(MediaReference {
                id: id.to_owned(),
                kind: "image".to_owned(),
                media_type: media_type.to_owned(),
                bytes: data.len() as u64,
            }),
            data: Bytes::copy_from_slice(data),
        });
    }

    /// What turns with this NPC do.
    pub(crate) fn script(&self, npc: &str, script: Script) {
        self.scripts.lock().unwrap().insert(npc.to_owned(), script);
    }

    /// Lets every turn go on to its end.
    pub(crate) fn release(&self) {
        for turn in self.running.lock().unwrap().iter() {
            turn.told.send_replace(turn.count());
        }
    }

    /// What the edge asked for.
    pub(crate) fn asked(&self) -> Vec<StartTurnRequest> {
        self.asked.lock().unwrap().clone()
    }

    /// Watches that are open now.
    pub(crate) fn open_watches(&self) -> usize {
        *self.watches.lock().unwrap()
    }

    pub(crate) fn server(&self) -> GrpcServer {
        GrpcServer::new(ServiceName::TurnOrchestrator)
            .add(TurnServiceServer::new(self.clone()))
            .add(ConversationServiceServer::new(self.clone()))
    }

    fn find(&self, wanted: impl Fn(&Running) -> bool) -> Option<Running> {
        let running = self.running.lock().unwrap();
        running.iter().rev().find(|turn| wanted(turn)).cloned()
    }
}

impl Running {
    fn count(&self) -> usize {
        self.events.lock().unwrap().len()
    }

    fn told_events(&self) -> Vec<TurnEvent> {
        let mut events = self.events.lock().unwrap().clone();
        events.truncate(*self.told.borrow());
        events
    }

    fn has_ended(&self) -> bool {
        *self.told.borrow() == self.count()
    }
}

fn nothing(what: &str) -> Status {
    status::new(ErrorCode::NotFound, &format!("there is no {what}"))
}

fn started(turn: &Running, already_started: bool) -> Response<StartTurnResponse> {
    Response::new(StartTurnResponse {
        turn_id: turn.turn_id.clone(),
        conversation_id: turn.conversation_id.clone(),
        message_id: turn.message_id.clone(),
        already_started,
    })
}

type Watched = Pin<Box<dyn Stream<Item = Result<WatchTurnResponse, Status>> + Send>>;

struct OpenWatch(Arc<Mutex<usize>>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        *self.0.lock().unwrap() -= 1;
    }
}

#[tonic::async_trait]
impl TurnService for Turns {
    type WatchTurnStream = Watched;

    async fn start_turn(
        &self,
        request: Request<StartTurnRequest>,
    ) -> Result<Response<StartTurnResponse>, Status> {
        let owner = runtime::caller(&request)?;
        let request = request.into_inner();
        self.asked.lock().unwrap().push(request.clone());
        let number = self.asked.lock().unwrap().len();
        let script = self.scripts.lock().unwrap().get(&request.npc).cloned();
        let script = script.ok_or_else(|| nothing("NPC of that name"))?;
        let turn_id = format!(
            "turn-{}-{}",
            request.conversation_client_id, request.request_id
        );
        if let Some(turn) = self.find(|turn| turn.turn_id == turn_id) {
            return Ok(started(&turn, true));
        }
        let (question_id, text) = match request.trigger {
            Some(Trigger::Submit(submit)) => (submit.client_id, submit.text),
            Some(Trigger::Regenerate(_)) | None => ("again".to_owned(), "again".to_owned()),
        };
        let mut turn = Running {
            turn_id: turn_id.clone(),
            conversation_id: format!("conversation-{}", request.conversation_client_id),
            client_id: request.conversation_client_id,
            message_id: format!("message-{number}"),
            question: Message {
                id: format!("question-{number}"),
                client_id: question_id,
                role: Role::User.into(),
                parts: vec![Part {
                    position: 0,
                    step: 0,
                    content: Some(Content::Text(TextPart {
                        text,
                        streaming: false,
                    })),
                }],
                ..Message::default()
            },
            events: Arc::default(),
            told: watch::Sender::new(0),
            script: Arc::new(Mutex::new(script.clone())),
            owner,
        };
        let first = Event::TurnStarted(proto::turn::v1::TurnStarted {
            turn_id,
            conversation_id: turn.conversation_id.clone(),
            message_id: turn.message_id.clone(),
        });
        let events: Vec<_> = std::iter::once(first)
            .chain(script.events)
            .zip(1..)
            .map(|(event, number)| TurnEvent {
                number,
                event: Some(event),
            })
            .collect();
        let told = script.hold_after.unwrap_or(events.len());
        turn.told.send_replace(told);
        turn.events = Arc::new(Mutex::new(events));
        let answer = started(&turn, false);
        self.running.lock().unwrap().push(turn);
        Ok(answer)
    }

    async fn watch_turn(
        &self,
        request: Request<WatchTurnRequest>,
    ) -> Result<Response<Watched>, Status> {
        let caller = runtime::caller(&request)?;
        let WatchTurnRequest { target, from } = request.into_inner();
        let turn = match target {
            Some(Target::TurnId(id)) => self.find(|turn| turn.turn_id == id),
            Some(Target::Conversation(id)) => self.find(|turn| {
                (turn.client_id == id || turn.conversation_id == id)
                    && turn.owner == caller
                    && !turn.has_ended()
            }),
            None => None,
        };
        let turn = turn.ok_or_else(|| nothing("such turn"))?;
        let (first, after) = match from {
            Some(From::Snapshot(_)) => {
                let (first, number) = snapshot(
                    &turn.turn_id,
                    &turn.conversation_id,
                    &turn.message_id,
                    &turn.told_events(),
                );
                (Some(Item::Snapshot(first)), number)
            }
            Some(From::After(after)) => (None, after),
            None => (None, 0),
        };
        let break_after = turn.script.lock().unwrap().break_after.take();
        let skip = turn.script.lock().unwrap().skip.take();
        *self.watches.lock().unwrap() += 1;
        let open = OpenWatch(Arc::clone(&self.watches));
        let first = stream::iter(first.map(|item| Ok(WatchTurnResponse { item: Some(item) })));
        let events = stream::unfold((turn, after, open), move |(turn, after, open)| async move {
            let mut told = turn.told.subscribe();
            let next = usize::try_from(after).unwrap();
            if next >= turn.count() {
                return None;
            }
            if break_after.is_some_and(|most| next >= most) {
                let broken = status::new(ErrorCode::Unavailable, "the service restarts");
                return Some((Err(broken), (turn, u64::MAX / 2, open)));
            }
            told.wait_for(|&told| told > next).await.unwrap();
            let event = turn.events.lock().unwrap()[next].clone();
            Some((
                Ok(WatchTurnResponse {
                    item: Some(Item::Event(event)),
                }),
                (turn, after + 1, open),
            ))
        });
        let events = events.filter(move |item| {
            let skipped = matches!(item, Ok(WatchTurnResponse { item: Some(Item::Event(event)) }) if Some(event.number) == skip);
            std::future::ready(!skipped)
        });
        Ok(Response::new(Box::pin(first.chain(events))))
    }

    async fn abort_turn(
        &self,
        request: Request<AbortTurnRequest>,
    ) -> Result<Response<AbortTurnResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let Some(abort_turn_request::Target::TurnId(id)) = request.into_inner().target else {
            return Err(nothing("such turn"));
        };
        let running = self.running.lock().unwrap();
        let turn = running
            .iter()
            .find(|turn| turn.turn_id == id && turn.owner == caller)
            .ok_or_else(|| nothing("such turn"))?;
        if turn.has_ended() {
            return Ok(Response::new(AbortTurnResponse::default()));
        }
        let told = *turn.told.borrow();
        let end = Event::TurnEnded(TurnEnded {
            status: TurnStatus::Aborted.into(),
            finish_reason: FinishReason::Other.into(),
            sentence: "The Player stopped the turn.".to_owned(),
            limits: Vec::new(),
            usage: Some(Usage::default()),
            steps: 1,
        });
        {
            let mut events = turn.events.lock().unwrap();
            events.truncate(told);
            events.push(TurnEvent {
                number: told as u64 + 1,
                event: Some(end),
            });
        }
        turn.told.send_replace(told + 1);
        Ok(Response::new(AbortTurnResponse { turn_ids: vec![id] }))
    }

    async fn describe_tools(
        &self,
        _request: Request<DescribeToolsRequest>,
    ) -> Result<Response<DescribeToolsResponse>, Status> {
        Err(nothing("NPC of that name"))
    }
}

#[tonic::async_trait]
impl ConversationService for Turns {
    async fn get_media(
        &self,
        request: Request<GetMediaRequest>,
    ) -> Result<Response<GetMediaResponse>, Status> {
        let id = request.into_inner().media_id;
        let kept = self.media.lock().unwrap();
        let found = kept
            .iter()
            .find(|kept| kept.media.as_ref().is_some_and(|media| media.id == id));
        found
            .cloned()
            .map(Response::new)
            .ok_or_else(|| nothing("such media"))
    }

    async fn get_conversation(
        &self,
        request: Request<GetConversationRequest>,
    ) -> Result<Response<GetConversationResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let id = request.into_inner().conversation;
        let running = self.running.lock().unwrap();
        let turns: Vec<&Running> = running
            .iter()
            .filter(|turn| {
                turn.owner == caller && (turn.client_id == id || turn.conversation_id == id)
            })
            .collect();
        let newest = turns.last().ok_or_else(|| nothing("such Conversation"))?;
        let active = (!newest.has_ended()).then(|| newest.turn_id.clone());
        let messages = turns.iter().flat_map(|turn| {
            let (answer, _number) = snapshot(
                &turn.turn_id,
                &turn.conversation_id,
                &turn.message_id,
                &turn.told_events(),
            );
            [turn.question.clone(), answer.message.unwrap()]
        });
        Ok(Response::new(GetConversationResponse {
            conversation: Some(Conversation {
                id: newest.conversation_id.clone(),
                client_id: newest.client_id.clone(),
                active_turn_id: active.unwrap_or_default(),
                ..Conversation::default()
            }),
            messages: messages.collect(),
        }))
    }

    async fn list_conversations(
        &self,
        _request: Request<ListConversationsRequest>,
    ) -> Result<Response<ListConversationsResponse>, Status> {
        Ok(Response::new(ListConversationsResponse::default()))
    }

    async fn delete_conversation(
        &self,
        _request: Request<DeleteConversationRequest>,
    ) -> Result<Response<DeleteConversationResponse>, Status> {
        Err(nothing("such Conversation"))
    }

    async fn get_message(
        &self,
        _request: Request<GetMessageRequest>,
    ) -> Result<Response<GetMessageResponse>, Status> {
        Err(nothing("such Message"))
    }

    async fn list_messages(
        &self,
        _request: Request<ListMessagesRequest>,
    ) -> Result<Response<ListMessagesResponse>, Status> {
        Ok(Response::new(ListMessagesResponse::default()))
    }

    async fn delete_message(
        &self,
        _request: Request<DeleteMessageRequest>,
    ) -> Result<Response<DeleteMessageResponse>, Status> {
        Err(nothing("such Message"))
    }
}
