//! "Did you mean …?" for names that were not found.

use kernel::{Caller, PlayerId, nearest};

use crate::{
    Error, Registry,
    error::Thing,
    store::{mcp_server, npc, player},
};

impl Registry {
    /// Names the nearest of what the caller may see where an error says that a name was not found. A thing that is hidden and
    /// one that does not exist stay alike: neither is among the names.
    pub(crate) async fn suggesting<T>(
        &self,
        caller: &Caller,
        result: Result<T, Error>,
    ) -> Result<T, Error> {
        match result {
            Err(Error::NotFound {
                what,
                name,
                nearest: None,
            }) => {
                let names = self.names(caller, what).await?;
                let nearest = nearest(&name, names.iter().map(String::as_str)).map(str::to_owned);
                Err(Error::NotFound {
                    what,
                    name,
                    nearest,
                })
            }
            other => other,
        }
    }

    /// The newest names of these things that the caller may see.
    async fn names(&self, caller: &Caller, what: Thing) -> Result<Vec<String>, Error> {
        let db = self.store.reader();
        let seen_by: Option<PlayerId> = match (what, caller) {
            (Thing::Player, Caller::Operator(_)) => return Ok(player::names(db).await?),
            (Thing::McpServer, Caller::Operator(player) | Caller::Player(player)) => {
                return Ok(mcp_server::names(db, *player).await?);
            }
            (Thing::Npc, Caller::Operator(_)) => None,
            (Thing::Npc, Caller::Player(player)) => Some(*player),
            (Thing::Npc, Caller::Service { .. }) => match self.turn_of(db, caller).await? {
                Caller::Operator(_) => None,
                Caller::Player(player) => Some(player),
                Caller::Npc { .. } | Caller::Service { .. } => return Ok(Vec::new()),
            },
            _ => return Ok(Vec::new()),
        };
        Ok(npc::names(db, seen_by).await?)
    }
}
