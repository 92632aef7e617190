//! `PlayerService`.

use proto::registry::v1::{
    CreatePlayerRequest, CreatePlayerResponse, GetPlayerRequest, GetPlayerResponse,
    ListPlayersRequest, ListPlayersResponse, Player as WirePlayer, RevokePlayerRequest,
    RevokePlayerResponse, UpdatePlayerRequest, UpdatePlayerResponse,
    player_service_server::PlayerService,
};
use tonic::{Request, Response, Status};

use crate::{
    Registry,
    name::Name,
    page::Page,
    player::{Edit, Player, TokenEdit},
};

#[derive(Debug)]
pub(super) struct Players(pub(super) Registry);

#[async_trait::async_trait]
impl PlayerService for Players {
    async fn create_player(
        &self,
        request: Request<CreatePlayerRequest>,
    ) -> Result<Response<CreatePlayerResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let name = Name::parse(&request.into_inner().name)?;
        let (player, token) = self.0.create_player(&caller, name).await?;
        Ok(Response::new(CreatePlayerResponse {
            player: Some(render(player)),
            token: token.expose().to_owned(),
        }))
    }

    async fn get_player(
        &self,
        request: Request<GetPlayerRequest>,
    ) -> Result<Response<GetPlayerResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let result = self.0.player(&caller, &request.into_inner().player).await;
        let player = self.0.suggesting(&caller, result).await?;
        Ok(Response::new(GetPlayerResponse {
            player: Some(render(player)),
        }))
    }

    async fn list_players(
        &self,
        request: Request<ListPlayersRequest>,
    ) -> Result<Response<ListPlayersResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let page = Page::parse(request.page_size, &request.page_token)?;
        let paged = self.0.players(&caller, page).await?;
        Ok(Response::new(ListPlayersResponse {
            players: paged.rows.into_iter().map(render).collect(),
            next_page_token: paged.next,
        }))
    }

    async fn update_player(
        &self,
        request: Request<UpdatePlayerRequest>,
    ) -> Result<Response<UpdatePlayerResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let request = request.into_inner();
        let edit = Edit {
            name: request.name.as_deref().map(Name::parse).transpose()?,
            token: if request.new_token {
                TokenEdit::Renew
            } else {
                TokenEdit::Keep
            },
        };
        let result = self.0.update_player(&caller, &request.player, edit).await;
        let (player, token) = self.0.suggesting(&caller, result).await?;
        Ok(Response::new(UpdatePlayerResponse {
            player: Some(render(player)),
            token: token
                .map(|token| token.expose().to_owned())
                .unwrap_or_default(),
        }))
    }

    async fn revoke_player(
        &self,
        request: Request<RevokePlayerRequest>,
    ) -> Result<Response<RevokePlayerResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let given = request.into_inner().player;
        let result = self.0.revoke_player(&caller, &given).await;
        let player = self.0.suggesting(&caller, result).await?;
        Ok(Response::new(RevokePlayerResponse {
            player: Some(render(player)),
        }))
    }
}

pub(super) fn render(player: Player) -> WirePlayer {
    WirePlayer {
        id: player.id.to_string(),
        name: player.name,
        slug: player.slug,
        operator: player.operator,
        created_at_micros: player.created_at.as_micros(),
        revoked_at_micros: player.revoked_at.map_or(0, kernel::Timestamp::as_micros),
    }
}
