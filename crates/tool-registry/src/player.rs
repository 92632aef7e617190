//! Players, the Operator among them, and their bearer tokens.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use kernel::{Act, Caller, PlayerId, Secret, Timestamp, decide};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use store::{Micros, Transaction};

use crate::{
    Error, Registry,
    audit::{self, Change},
    error::{Thing, allowed},
    name::{Name, Reference},
    page::{Page, Paged},
    store::{
        Lock,
        player::{self, Model},
    },
};

/// Bytes of the longest bearer token that is looked at.
const TOKEN_BYTES: usize = 512;
/// What the Operator is called at first.
const OPERATOR_NAME: &str = "Operator";
/// The key that a taken name violates.
const SLUG_KEY: &str = "players_slug";
/// The key that a token in use violates.
const TOKEN_KEY: &str = "players_token_hash";

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Player {
    pub(crate) id: PlayerId,
    pub(crate) name: String,
    pub(crate) slug: String,
    pub(crate) operator: bool,
    #[serde(serialize_with = "audit::time")]
    pub(crate) created_at: Timestamp,
    #[serde(
        serialize_with = "audit::time_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) revoked_at: Option<Timestamp>,
}

/// What is to change of a Player.
#[derive(Debug, Clone)]
pub(crate) struct Edit {
    pub(crate) name: Option<Name>,
    pub(crate) token: TokenEdit,
}

/// Whether a Player gets a new token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenEdit {
    Keep,
    Renew,
}

/// A token as it is stored: SHA-256, in base64url. Tokens are random, so neither salt nor a slow hash would add anything.
fn hash(token: &Secret) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(token.expose()))
}

fn administer(caller: &Caller) -> Result<(), Error> {
    let denied = "only the Operator may see and change Players";
    allowed(
        decide(caller, Act::Administer),
        || Error::Denied(denied),
        denied,
    )
}

impl Registry {
    /// Makes sure that there is an Operator with the token of the settings. Several processes may do it at once.
    pub(crate) async fn ensure_operator(&self) -> Result<PlayerId, Error> {
        let token = &self.config.operator_token;
        if token.expose().len() < vault::SECRET_BYTES {
            return Err(Error::ShortOperatorToken(token.expose().len()));
        }
        let row = Model {
            id: PlayerId::mint(&*self.clock).as_uuid(),
            name: OPERATOR_NAME.into(),
            slug: OPERATOR_NAME.to_ascii_lowercase(),
            kind: player::OPERATOR.to_owned(),
            token_hash: Some(hash(token)),
            created_at: Micros::now(&*self.clock),
            revoked_at: None,
        };
        match self.put_operator(row.clone()).await {
            // Another process was faster.
            Err(Error::Store(error)) if error.is_taken(SLUG_KEY) || error.is_taken(TOKEN_KEY) => {
                self.put_operator(row).await
            }
            done => done,
        }
    }

    async fn put_operator(&self, fresh: Model) -> Result<PlayerId, Error> {
        let registry = self.clone();
        self.store
            .write(move |tx| {
                Box::pin(async move {
                    let Some(known) = player::operator(tx, Lock::Exclusive).await? else {
                        let id = PlayerId::from_uuid(fresh.id);
                        player::insert(tx, fresh.clone()).await?;
                        let change = Change {
                            action: "player.create",
                            subject_kind: "player",
                            subject_id: fresh.id,
                            before: None,
                            after: Some(&Player::from(fresh)),
                        };
                        registry.record(tx, "service:tool-registry", change).await?;
                        return Ok(id);
                    };
                    let id = PlayerId::from_uuid(known.id);
                    if known.token_hash != fresh.token_hash {
                        let changed = Model {
                            token_hash: fresh.token_hash,
                            ..known
                        };
                        player::update(tx, changed.clone()).await?;
                        let after = Player::from(changed);
                        let change = Change {
                            action: "player.new_token",
                            subject_kind: "player",
                            subject_id: id.as_uuid(),
                            before: None,
                            after: Some(&after),
                        };
                        registry.record(tx, "service:tool-registry", change).await?;
                    }
                    Ok(id)
                })
            })
            .await
    }

    /// The caller's row, locked, if it may still act. A key that mints Players may go on doing so for one who was revoked.
    pub(crate) async fn active(
        &self,
        tx: &Transaction,
        caller: &Caller,
        lock: Lock,
    ) -> Result<Player, Error> {
        let Some(id) = caller.player() else {
            return Err(Error::Denied("only Players can do this"));
        };
        match player::by_id(tx, id, lock).await?.map(Player::from) {
            Some(player) if player.revoked_at.is_none() => Ok(player),
            Some(_) => Err(Error::Denied("this Player was revoked")),
            None => Err(Error::Denied(
                "this Player is not known here; the Operator creates Players",
            )),
        }
    }

    pub(crate) async fn create_player(
        &self,
        caller: &Caller,
        name: Name,
    ) -> Result<(Player, Secret), Error> {
        administer(caller)?;
        let token = vault::random_secret();
        let row = Model {
            id: PlayerId::mint(&*self.clock).as_uuid(),
            name: name.text.as_str().into(),
            slug: name.slug.to_string(),
            kind: player::PLAYER.to_owned(),
            token_hash: Some(hash(&token)),
            created_at: Micros::now(&*self.clock),
            revoked_at: None,
        };
        let (registry, actor) = (self.clone(), caller.label());
        let created: Result<Player, Error> = self
            .store
            .write(move |tx| {
                Box::pin(async move {
                    player::insert(tx, row.clone()).await?;
                    let player = Player::from(row);
                    let change = Change {
                        action: "player.create",
                        subject_kind: "player",
                        subject_id: player.id.as_uuid(),
                        before: None,
                        after: Some(&player),
                    };
                    registry.record(tx, &actor, change).await?;
                    Ok(player)
                })
            })
            .await;
        let player = created.map_err(|error: Error| error.or_taken(SLUG_KEY, Some(&name.text)))?;
        Ok((player, token))
    }

    pub(crate) async fn player(&self, caller: &Caller, given: &str) -> Result<Player, Error> {
        administer(caller)?;
        let reference = Reference::parse(given, "player")?;
        let found = player::find(self.store.reader(), &reference, Lock::None).await?;
        found
            .map(Player::from)
            .ok_or_else(|| Error::not_found(Thing::Player, given))
    }

    pub(crate) async fn players(
        &self,
        caller: &Caller,
        page: Page,
    ) -> Result<Paged<Player>, Error> {
        administer(caller)?;
        player::list(self.store.reader(), page).await
    }

    /// The new token comes with it, if one was asked for.
    pub(crate) async fn update_player(
        &self,
        caller: &Caller,
        given: &str,
        edit: Edit,
    ) -> Result<(Player, Option<Secret>), Error> {
        administer(caller)?;
        let reference = Reference::parse(given, "player")?;
        let token = (edit.token == TokenEdit::Renew).then(vault::random_secret);
        let token_hash = token.as_ref().map(hash);
        let (registry, actor, given) = (self.clone(), caller.label(), given.to_owned());
        let name = edit.name.clone();
        let updated: Result<Player, Error> = self
            .store
            .write(move |tx| {
                Box::pin(async move {
                    let found = player::find(tx, &reference, Lock::Exclusive).await?;
                    let mut row = found.ok_or_else(|| Error::not_found(Thing::Player, &given))?;
                    let before = Player::from(row.clone());
                    if let Some(name) = name {
                        row.name = name.text.into();
                        row.slug = name.slug.to_string();
                    }
                    let action = if token_hash.is_some() {
                        may_renew(&before)?;
                        row.token_hash = token_hash;
                        "player.new_token"
                    } else {
                        "player.update"
                    };
                    player::update(tx, row.clone()).await?;
                    let after = Player::from(row);
                    let change = Change {
                        action,
                        subject_kind: "player",
                        subject_id: after.id.as_uuid(),
                        before: Some(&before),
                        after: Some(&after),
                    };
                    registry.record(tx, &actor, change).await?;
                    Ok(after)
                })
            })
            .await;
        let name = edit.name.map(|name| name.text);
        let player = updated.map_err(|error: Error| error.or_taken(SLUG_KEY, name.as_deref()))?;
        Ok((player, token))
    }

    /// Takes the token away. Doing it again changes nothing.
    pub(crate) async fn revoke_player(
        &self,
        caller: &Caller,
        given: &str,
    ) -> Result<Player, Error> {
        administer(caller)?;
        let reference = Reference::parse(given, "player")?;
        let (registry, actor, given) = (self.clone(), caller.label(), given.to_owned());
        let now = Micros::now(&*self.clock);
        self.store
            .write(move |tx| {
                Box::pin(async move {
                    let found = player::find(tx, &reference, Lock::Exclusive).await?;
                    let mut row = found.ok_or_else(|| Error::not_found(Thing::Player, &given))?;
                    let before = Player::from(row.clone());
                    if before.operator {
                        return Err(Error::NotNow("the Operator cannot be revoked".to_owned()));
                    }
                    if before.revoked_at.is_some() {
                        return Ok(before);
                    }
                    row.token_hash = None;
                    row.revoked_at = Some(now);
                    player::update(tx, row.clone()).await?;
                    let after = Player::from(row);
                    let change = Change {
                        action: "player.revoke",
                        subject_kind: "player",
                        subject_id: after.id.as_uuid(),
                        before: Some(&before),
                        after: Some(&after),
                    };
                    registry.record(tx, &actor, change).await?;
                    Ok(after)
                })
            })
            .await
    }

    /// Who holds a token. For the edge.
    pub(crate) async fn authenticate(
        &self,
        caller: &Caller,
        token: &Secret,
    ) -> Result<Player, Error> {
        let denied = "only the edge asks who holds a token";
        allowed(
            decide(caller, Act::AuthenticatePlayer),
            || Error::Denied(denied),
            denied,
        )?;
        if token.is_empty() || token.expose().len() > TOKEN_BYTES {
            return Err(Error::UnknownToken);
        }
        let found = player::by_token_hash(self.store.reader(), &hash(token)).await?;
        found.map(Player::from).ok_or(Error::UnknownToken)
    }
}

fn may_renew(player: &Player) -> Result<(), Error> {
    if player.operator {
        return Err(Error::NotNow(
            "the Operator's token is a setting; change operator_token, or operator.token in the data directory, and start again"
                .to_owned(),
        ));
    }
    if player.revoked_at.is_some() {
        return Err(Error::NotNow(format!(
            "the Player {:?} was revoked for good; create a new one",
            player.name
        )));
    }
    Ok(())
}
