//! Players: the users of the Village.

use axum::{Json, extract::State};
use http::StatusCode;
use proto::registry::v1::{
    self as registry, CreatePlayerRequest, ListPlayersRequest, RevokePlayerRequest,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Page, PageParams, required, time};
use crate::{
    auth::Authenticated,
    body::{Named, Query, Strict},
    problem::{Failure, Problem},
    routes::App,
};

/// A user.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Player {
    /// The Player's id.
    id: String,
    /// The Player's name.
    name: String,
    /// Whether this is the Operator.
    operator: bool,
    /// When the Player was created (RFC 3339, UTC).
    created_at: String,
    /// When the token was taken away; absent if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
}

impl From<registry::Player> for Player {
    fn from(player: registry::Player) -> Self {
        Self {
            id: player.id,
            name: player.name,
            operator: player.operator,
            created_at: time(player.created_at_micros),
            revoked_at: Some(player.revoked_at_micros)
                .filter(|&micros| micros != 0)
                .map(time),
        }
    }
}

/// A Player and the token, which is shown only here.
#[derive(Serialize, ToSchema)]
pub(crate) struct PlayerWithToken {
    /// The Player.
    #[serde(flatten)]
    player: Player,
    /// The bearer token. It is stored hashed and cannot be read again.
    token: String,
}

/// A new Player.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewPlayer {
    /// 1 to 64 characters with at least one letter or digit.
    name: String,
}

/// Creates a Player and a token, which is shown only here. The Operator's.
#[utoipa::path(post, operation_id = "createPlayer", path = "/v1/players", tag = "Players", request_body = NewPlayer, responses(
    (status = 201, body = PlayerWithToken),
    Failure,
))]
pub(crate) async fn create(
    State(app): State<App>,
    who: Authenticated,
    Strict(new): Strict<NewPlayer>,
) -> Result<(StatusCode, Json<PlayerWithToken>), Problem> {
    let mut players = app.registry.players(&who.caller);
    let answer = players
        .create_player(CreatePlayerRequest { name: new.name })
        .await?
        .into_inner();
    Ok((
        StatusCode::CREATED,
        Json(PlayerWithToken {
            player: required(answer.player, "player")?.into(),
            token: answer.token,
        }),
    ))
}

/// Lists Players, newest first. The Operator's.
#[utoipa::path(get, operation_id = "listPlayers", path = "/v1/players", tag = "Players", params(PageParams), responses(
    (status = 200, body = Page<Player>),
    Failure,
))]
pub(crate) async fn list(
    State(app): State<App>,
    who: Authenticated,
    query: Query,
) -> Result<Json<Page<Player>>, Problem> {
    let page = query.page()?;
    let request = ListPlayersRequest {
        page_size: page.size,
        page_token: page.token,
    };
    let mut players = app.registry.players(&who.caller);
    let answer = players.list_players(request).await?.into_inner();
    Ok(Json(Page::of(
        answer.players,
        answer.next_page_token,
        Player::from,
    )))
}

/// Takes a Player's token away for good. What the Player made stays. The Operator's.
#[utoipa::path(post, operation_id = "revokePlayer", path = "/v1/players/{player}/revoke", tag = "Players", params(("player" = String, Path, description = "Name or id")),
    responses(
    (status = 200, body = Player),
    Failure,
))]
pub(crate) async fn revoke(
    State(app): State<App>,
    who: Authenticated,
    Named(player): Named,
) -> Result<Json<Player>, Problem> {
    let mut players = app.registry.players(&who.caller);
    let answer = players
        .revoke_player(RevokePlayerRequest { player })
        .await?
        .into_inner();
    let player = required(answer.player, "player")?;
    app.authenticator.forget(&player.id);
    Ok(Json(player.into()))
}

/// Who the caller is.
#[utoipa::path(get, operation_id = "getMe", path = "/v1/me", tag = "Players", responses(
    (status = 200, body = Player),
    Failure,
))]
pub(crate) async fn me(who: Authenticated) -> Json<Player> {
    Json(registry::Player::clone(&who.player).into())
}
