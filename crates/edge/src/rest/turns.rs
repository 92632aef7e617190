//! Stopping turns.

use std::time::Duration;

use axum::{Json, extract::State};
use kernel::ErrorCode;
use proto::turn::v1::{
    AbortTurnRequest, SnapshotFirst, TurnStatus, WatchTurnRequest, WatchTurnResponse,
    abort_turn_request::Target, turn_event::Event, watch_turn_request, watch_turn_response::Item,
};
use serde::Serialize;
use tonic::Streaming;
use utoipa::ToSchema;

use crate::{
    auth::Authenticated,
    body::{Named, quoted},
    problem::{Failure, Problem},
    routes::App,
    ui::turn_status,
};

/// How long to wait for a turn to settle its Parts before saying that it still runs.
const SETTLING: Duration = Duration::from_secs(5);

/// A turn, and how it stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TurnState {
    /// Its id.
    id: String,
    /// `aborted`; or `finished`, `failed`, `interrupted` if it ended otherwise before; or `running` if it takes longer to stop.
    status: &'static str,
}

/// Stops a turn. Every Part is settled before it ends.
#[utoipa::path(post, operation_id = "abortTurn", path = "/v1/turns/{turn}/abort", tag = "Chat", params(("turn" = String, Path, description = "Its id")), responses(
    (status = 200, body = TurnState),
    Failure,
))]
pub(crate) async fn abort(
    State(app): State<App>,
    who: Authenticated,
    Named(turn): Named,
) -> Result<Json<TurnState>, Problem> {
    let request = AbortTurnRequest {
        target: Some(Target::TurnId(turn.clone())),
    };
    let asked = app.turns.turns(&who.caller).abort_turn(request).await;
    asked.map_err(|status| no_such_turn(status.into(), &turn))?;
    let watch = WatchTurnRequest {
        target: Some(watch_turn_request::Target::TurnId(turn.clone())),
        from: Some(watch_turn_request::From::Snapshot(SnapshotFirst {})),
    };
    let mut events = app
        .turns
        .turns(&who.caller)
        .watch_turn(watch)
        .await?
        .into_inner();
    let settled = tokio::time::timeout(SETTLING, end_of(&mut events)).await;
    let status = match settled {
        Ok(status) => status?,
        Err(_elapsed) => TurnStatus::Running,
    };
    Ok(Json(TurnState {
        id: turn,
        status: turn_status(status),
    }))
}

/// A text that is no id names no turn, as it names no Conversation: not found, whatever it looks like.
fn no_such_turn(problem: Problem, turn: &str) -> Problem {
    let is_no_id =
        problem.code == ErrorCode::InvalidArgument && problem.field.as_deref() == Some("turnId");
    if is_no_id {
        let detail = format!("there is no turn {}", quoted(turn));
        return Problem::new(ErrorCode::NotFound, detail);
    }
    problem
}

/// Reads on until the turn has ended.
async fn end_of(events: &mut Streaming<WatchTurnResponse>) -> Result<TurnStatus, Problem> {
    while let Some(response) = events.message().await? {
        let status = match response.item {
            Some(Item::Snapshot(snapshot)) => snapshot.turn.map(|turn| turn.status()),
            Some(Item::Event(event)) => match event.event {
                Some(Event::TurnEnded(ended)) => Some(ended.status()),
                _ => None,
            },
            None => None,
        };
        if let Some(status) = status
            && status != TurnStatus::Running
        {
            return Ok(status);
        }
    }
    Ok(TurnStatus::Running)
}
