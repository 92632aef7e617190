//! The table `mcp_servers`.

use kernel::{JsonText, McpServerId, PlayerId};
use sea_orm::{
    Condition, ConnectionTrait, IntoActiveModel, PaginatorTrait as _, QueryOrder as _,
    QuerySelect as _, entity::prelude::*,
};
use store::{Json, Micros, Text};

use super::{Lock, SUGGESTED_FROM, list as stored_list, paged, read_list};
use crate::{
    Error,
    mcp_server::{Era, McpServer, TestResult, sealed::SealedText, transport_as_str, transport_of},
    name::Reference,
    page::{Page, Paged},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "mcp_servers")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: Uuid,
    pub(crate) owner: Uuid,
    pub(crate) name: Text,
    pub(crate) slug: String,
    pub(crate) transport: String,
    pub(crate) url: Text,
    pub(crate) query_names: Json,
    pub(crate) sealed_url: Option<String>,
    pub(crate) command: Text,
    pub(crate) arguments: Json,
    pub(crate) working_directory: Text,
    pub(crate) header_names: Json,
    pub(crate) sealed_headers: Option<String>,
    pub(crate) environment_names: Json,
    pub(crate) sealed_environment: Option<String>,
    pub(crate) private: bool,
    pub(crate) enabled: bool,
    pub(crate) pinning: String,
    pub(crate) era: Option<String>,
    pub(crate) preset: String,
    pub(crate) last_test: Option<Json>,
    pub(crate) generation: i64,
    pub(crate) credentials_generation: i64,
    pub(crate) created_at: Micros,
    pub(crate) updated_at: Micros,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// About how long it is in an answer.
    fn bytes(&self) -> usize {
        let lists = [
            &self.query_names,
            &self.arguments,
            &self.header_names,
            &self.environment_names,
        ];
        let lists: usize = lists.iter().map(|list| list.0.as_str().len()).sum();
        let test = self.last_test.as_ref();
        let texts = [
            &self.name,
            &self.url,
            &self.command,
            &self.working_directory,
        ];
        let texts: usize = texts.iter().map(|text| text.as_str().len()).sum();
        texts + lists + test.map_or(0, |test| test.0.as_str().len())
    }
}

impl From<&McpServer> for Model {
    fn from(server: &McpServer) -> Self {
        let sealed = |text: &Option<SealedText>| text.as_ref().map(|text| text.as_str().to_owned());
        Self {
            id: server.id.as_uuid(),
            owner: server.owner.as_uuid(),
            name: server.name.as_str().into(),
            slug: server.slug.clone(),
            transport: transport_as_str(server.transport).to_owned(),
            url: server.url.as_str().into(),
            query_names: stored_list(&server.query_names),
            sealed_url: sealed(&server.sealed_url),
            command: server.command.as_str().into(),
            arguments: stored_list(&server.arguments),
            working_directory: server.working_directory.as_str().into(),
            header_names: stored_list(&server.header_names),
            sealed_headers: sealed(&server.sealed_headers),
            environment_names: stored_list(&server.environment_names),
            sealed_environment: sealed(&server.sealed_environment),
            private: server.private,
            enabled: server.enabled,
            pinning: server.pinning.as_str().to_owned(),
            era: server.era.map(|era| era.as_str().to_owned()),
            preset: server.preset.clone(),
            last_test: server.last_test.as_ref().map(stored_test),
            generation: server.generation,
            credentials_generation: server.credentials_generation,
            created_at: server.created_at.into(),
            updated_at: server.updated_at.into(),
        }
    }
}

impl TryFrom<Model> for McpServer {
    type Error = Error;

    fn try_from(row: Model) -> Result<Self, Error> {
        let damaged = || Error::Damaged {
            table: "mcp_servers",
            id: row.id.to_string(),
        };
        let list = |json: &Json| read_list(json).map_err(|_source| damaged());
        let era = row.era.as_deref().map(str::parse::<Era>).transpose();
        Ok(Self {
            id: McpServerId::from_uuid(row.id),
            owner: PlayerId::from_uuid(row.owner),
            transport: transport_of(&row.transport).ok_or_else(damaged)?,
            query_names: list(&row.query_names)?,
            arguments: list(&row.arguments)?,
            header_names: list(&row.header_names)?,
            environment_names: list(&row.environment_names)?,
            pinning: row.pinning.parse().map_err(|()| damaged())?,
            era: era.map_err(|()| damaged())?,
            // A test of another release that cannot be read any more is no test.
            last_test: row
                .last_test
                .and_then(|test| serde_json::from_str(test.0.as_str()).ok()),
            sealed_url: row.sealed_url.map(SealedText::from),
            sealed_headers: row.sealed_headers.map(SealedText::from),
            sealed_environment: row.sealed_environment.map(SealedText::from),
            name: row.name.into_string(),
            slug: row.slug,
            url: row.url.into_string(),
            command: row.command.into_string(),
            working_directory: row.working_directory.into_string(),
            private: row.private,
            enabled: row.enabled,
            preset: row.preset,
            generation: row.generation,
            credentials_generation: row.credentials_generation,
            created_at: row.created_at.timestamp(),
            updated_at: row.updated_at.timestamp(),
        })
    }
}

fn stored_test(test: &TestResult) -> Json {
    Json(JsonText::of(test))
}

pub(crate) async fn find(
    db: &impl ConnectionTrait,
    reference: &Reference,
    lock: Lock,
) -> Result<Option<McpServer>, Error> {
    let select = match reference {
        Reference::Id(id) => Entity::find_by_id(*id),
        Reference::Slug(slug) => Entity::find().filter(Column::Slug.eq(slug)),
        Reference::Nothing => return Ok(None),
    };
    let row = lock.on(select).one(db).await?;
    row.map(McpServer::try_from).transpose()
}

/// Those of these ids that exist.
pub(crate) async fn all(
    db: &impl ConnectionTrait,
    ids: impl IntoIterator<Item = Uuid>,
) -> Result<Vec<McpServer>, Error> {
    let ids: Vec<Uuid> = ids.into_iter().collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = Entity::find().filter(Column::Id.is_in(ids)).all(db).await?;
    rows.into_iter().map(McpServer::try_from).collect()
}

/// What this Player may see, and the Operator no more: its own and what is not private.
fn visible(seen_by: PlayerId) -> Condition {
    Condition::any()
        .add(Column::Private.eq(false))
        .add(Column::Owner.eq(seen_by.as_uuid()))
}

/// The newest names that this Player may see, for suggestions.
pub(crate) async fn names(
    db: &impl ConnectionTrait,
    seen_by: PlayerId,
) -> Result<Vec<String>, DbErr> {
    let select = Entity::find()
        .select_only()
        .column(Column::Name)
        .filter(visible(seen_by));
    select
        .order_by_desc(Column::Id)
        .limit(SUGGESTED_FROM)
        .into_tuple()
        .all(db)
        .await
}

/// Newest first; only what this Player may see.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    seen_by: PlayerId,
    page: Page,
) -> Result<Paged<McpServer>, Error> {
    let select = Entity::find().filter(visible(seen_by));
    let rows = paged(select, Column::Id, page).all(db).await?;
    let Paged { rows, next } = page.cut(rows, |row| row.id, Model::bytes);
    Ok(Paged {
        rows: rows
            .into_iter()
            .map(McpServer::try_from)
            .collect::<Result<_, _>>()?,
        next,
    })
}

/// Rows with something sealed, in the order of their ids.
pub(crate) async fn sealed(
    db: &impl ConnectionTrait,
    above: Option<McpServerId>,
    rows: u64,
) -> Result<Vec<McpServer>, Error> {
    let sealed = Condition::any()
        .add(Column::SealedUrl.is_not_null())
        .add(Column::SealedHeaders.is_not_null())
        .add(Column::SealedEnvironment.is_not_null());
    let mut select = Entity::find().filter(sealed);
    if let Some(above) = above {
        select = select.filter(Column::Id.gt(above.as_uuid()));
    }
    let rows = select.order_by_asc(Column::Id).limit(rows).all(db).await?;
    rows.into_iter().map(McpServer::try_from).collect()
}

pub(crate) async fn count_owned(db: &impl ConnectionTrait, owner: PlayerId) -> Result<u64, DbErr> {
    Entity::find()
        .filter(Column::Owner.eq(owner.as_uuid()))
        .count(db)
        .await
}

pub(crate) async fn insert(db: &impl ConnectionTrait, server: &McpServer) -> Result<(), DbErr> {
    Entity::insert(Model::from(server).into_active_model().reset_all())
        .exec_without_returning(db)
        .await?;
    Ok(())
}

pub(crate) async fn update(db: &impl ConnectionTrait, server: &McpServer) -> Result<(), DbErr> {
    let row = Model::from(server).into_active_model().reset_all();
    row.update(db).await?;
    Ok(())
}

/// Keeps what a test found, if the server is still of this generation.
pub(crate) async fn save_test(
    db: &impl ConnectionTrait,
    id: McpServerId,
    generation: i64,
    test: &TestResult,
) -> Result<(), DbErr> {
    Entity::update_many()
        .col_expr(Column::LastTest, Expr::value(stored_test(test)))
        .filter(Column::Id.eq(id.as_uuid()))
        .filter(Column::Generation.eq(generation))
        .exec(db)
        .await?;
    Ok(())
}

/// Keeps an era, if the server is still of this generation.
pub(crate) async fn save_era(
    db: &impl ConnectionTrait,
    id: McpServerId,
    generation: i64,
    era: Option<Era>,
) -> Result<(), DbErr> {
    let era = era.map(|era| era.as_str().to_owned());
    Entity::update_many()
        .col_expr(Column::Era, Expr::value(era))
        .filter(Column::Id.eq(id.as_uuid()))
        .filter(Column::Generation.eq(generation))
        .exec(db)
        .await?;
    Ok(())
}

pub(crate) async fn delete(db: &impl ConnectionTrait, id: McpServerId) -> Result<(), DbErr> {
    Entity::delete_by_id(id.as_uuid()).exec(db).await?;
    Ok(())
}
