//! A registry that knows tokens.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use kernel::{Act, Caller, ErrorCode, PlayerId, ServiceName, SystemClock, decide};
use proto::registry::v1::{
    AuthenticatePlayerRequest, AuthenticatePlayerResponse, Player, ResolveNpcRequest,
    ResolveNpcResponse,
    resolution_service_server::{ResolutionService, ResolutionServiceServer},
};
use runtime::{GrpcServer, status};
use tonic::{Request, Response, Status};

/// One whom the registry knows.
#[derive(Debug, Clone)]
pub(crate) struct Somebody {
    pub(crate) id: PlayerId,
    pub(crate) token: String,
}

/// Knows tokens, and counts how often it was asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry {
    tokens: Arc<Mutex<HashMap<String, Player>>>,
    asked: Arc<AtomicUsize>,
}

impl Registry {
    pub(crate) fn player(&self, name: &str) -> Somebody {
        self.add(name, false)
    }

    fn add(&self, name: &str, operator: bool) -> Somebody {
        let id = PlayerId::mint(&SystemClock);
        let token = format!("token-of-{name}");
        let player = Player {
            id: id.to_string(),
            name: name.to_owned(),
            slug: name.to_owned(),
            operator,
            created_at_micros: 1,
            revoked_at_micros: 0,
        };
        self.tokens.lock().unwrap().insert(token.clone(), player);
        Somebody { id, token }
    }

    pub(crate) fn revoke(&self, somebody: &Somebody) {
        self.tokens.lock().unwrap().remove(&somebody.token);
    }

    pub(crate) fn times_asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn server(&self) -> GrpcServer {
        GrpcServer::new(ServiceName::ToolRegistry).add(ResolutionServiceServer::new(self.clone()))
    }
}

#[tonic::async_trait]
impl ResolutionService for Registry {
    async fn resolve_npc(
        &self,
        _request: Request<ResolveNpcRequest>,
    ) -> Result<Response<ResolveNpcResponse>, Status> {
        Err(status::new(
            ErrorCode::Internal,
            "the edge does not resolve NPCs",
        ))
    }

    async fn authenticate_player(
        &self,
        request: Request<AuthenticatePlayerRequest>,
    ) -> Result<Response<AuthenticatePlayerResponse>, Status> {
        let caller: Caller = runtime::caller(&request)?;
        assert!(decide(&caller, Act::AuthenticatePlayer).allows());
        self.asked.fetch_add(1, Ordering::SeqCst);
        let token = request.into_inner().token;
        let player = self.tokens.lock().unwrap().get(&token).cloned();
        match player {
            Some(player) => Ok(Response::new(AuthenticatePlayerResponse {
                player: Some(player),
            })),
            None => Err(status::new(
                ErrorCode::Unauthenticated,
                "nobody has this token",
            )),
        }
    }
}
