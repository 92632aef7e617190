//! What Players do with servers.

use kernel::{Act, Caller, GrantKind, McpServerId, McpTransport, PlayerId, decide};
use outbound::Consumer;
use sea_orm::ConnectionTrait;
use serde::Serialize;

use super::{
    Fields, Holder, McpServer, Pinning, Shown,
    announce::Announcement,
    edit::{Edited, Editor},
    fields::Checked,
};
use crate::{
    Error, Registry,
    audit::Change,
    error::{Thing, allowed},
    grant::Grant,
    name::Reference,
    page::{Page, Paged},
    store::{Lock, grant, mcp_server, npc},
};

/// The key that a taken name violates.
const SLUG_KEY: &str = "mcp_servers_slug";
/// NPCs that are named as having a server.
const MAX_HOLDERS: usize = 1_000;

const STDIO_DENIED: &str = "only the Operator may register, change or delete a stdio server: its command runs as the Village's own user";
const EDIT_DENIED: &str = "only the MCP Server's owner and the Operator may change it";
const DELETE_DENIED: &str = "only the MCP Server's owner and the Operator may delete it";

/// A deleted server, and the Grants that went with it.
#[derive(Serialize)]
struct Deleted<'d> {
    #[serde(flatten)]
    server: &'d McpServer,
    grants: &'d [Grant],
}

impl Registry {
    pub(crate) async fn create_mcp_server(
        &self,
        caller: &Caller,
        fields: Fields,
    ) -> Result<Shown, Error> {
        // Whoever may not register it is told so before anything is said of the fields.
        let transport = fields.transport;
        let act = Act::RegisterMcpServer(transport.unwrap_or(McpTransport::Http));
        let denied = if transport == Some(McpTransport::Stdio) {
            STDIO_DENIED
        } else {
            "only Players register MCP Servers"
        };
        allowed(decide(caller, act), || Error::Denied(denied), denied)?;
        let transport = transport
            .ok_or_else(|| Error::invalid("transport", "say which: stdio, http or sse"))?;
        let name = fields.name.clone().unwrap_or_default();
        let checked = Fields {
            name: Some(name.clone()),
            ..fields
        }
        .check()?;
        self.judge(&checked).await?;
        let (registry, caller) = (self.clone(), caller.clone());
        let created = self.change(async move {
            let store = registry.store.clone();
            store
                .write(move |tx| {
                    Box::pin(async move {
                        // The Player's row is locked, so that two at once do not pass the bound together.
                        let owner = registry.active(tx, &caller, Lock::Exclusive).await?.id;
                        registry.refuse_one_too_many(tx, owner).await?;
                        let editor = Editor {
                            player: owner,
                            vault: &registry.vault,
                        };
                        let blank = registry.blank(owner, transport);
                        let Edited { server, .. } = checked.put_on(&blank, editor)?;
                        let server = McpServer {
                            generation: 1,
                            credentials_generation: 1,
                            ..server
                        };
                        mcp_server::insert(tx, &server).await?;
                        let change = about("mcp_server.create", server.id, None, Some(&server));
                        registry.record(tx, &caller.label(), change).await?;
                        let announcement = changed(&server);
                        Ok((server, Some(announcement)))
                    })
                })
                .await
        });
        let server = created
            .await
            .map_err(|error: Error| error.or_taken(SLUG_KEY, Some(&name)))?;
        Ok(self.show(server))
    }

    /// One server, with the NPCs that have it.
    pub(crate) async fn mcp_server(&self, caller: &Caller, given: &str) -> Result<Shown, Error> {
        let snapshot = self.store.snapshot().await?;
        let server = self
            .visible_server(&snapshot, caller, given, Lock::None)
            .await?;
        let target = server.id.to_string();
        let grants = grant::to_target(&snapshot, GrantKind::Mcp, &target).await?;
        let npcs = npc::all(&snapshot, grants.iter().map(|grant| grant.npc.as_uuid())).await?;
        let mut holders: Vec<Holder> = npcs
            .into_iter()
            .filter(|npc| decide(caller, Act::SeeNpc(npc.facts())).allows())
            .filter_map(|npc| {
                let grant = grants.iter().find(|grant| grant.npc == npc.id)?;
                Some(Holder {
                    npc_id: npc.id.to_string(),
                    npc: npc.name,
                    tools: grant.tools.clone(),
                })
            })
            .collect();
        holders.sort_by(|a, b| (&a.npc, &a.npc_id).cmp(&(&b.npc, &b.npc_id)));
        holders.truncate(MAX_HOLDERS);
        let mut shown = self.show(server);
        hide_details(caller, &mut shown.server);
        shown.holders = holders;
        Ok(shown)
    }

    /// Newest first.
    pub(crate) async fn mcp_servers(
        &self,
        caller: &Caller,
        page: Page,
    ) -> Result<Paged<Shown>, Error> {
        let (Caller::Operator(seen_by) | Caller::Player(seen_by)) = caller else {
            return Err(Error::Denied("only Players list MCP Servers"));
        };
        let Paged { rows, next } = mcp_server::list(self.store.reader(), *seen_by, page).await?;
        let rows = rows.into_iter().map(|mut server| {
            hide_details(caller, &mut server);
            self.show(server)
        });
        Ok(Paged {
            rows: rows.collect(),
            next,
        })
    }

    pub(crate) async fn update_mcp_server(
        &self,
        caller: &Caller,
        given: &str,
        fields: Fields,
    ) -> Result<Shown, Error> {
        // Whoever may not change it is told so before anything is said of the fields.
        let seen = self
            .visible_server(self.store.reader(), caller, given, Lock::None)
            .await?;
        let wanted = fields.transport;
        may_edit(caller, &seen, wanted, given)?;
        let name = fields.name.clone();
        let checked = fields.check()?;
        self.judge(&checked).await?;
        let (registry, caller, given) = (self.clone(), caller.clone(), given.to_owned());
        let updated = self.change(async move {
            let store = registry.store.clone();
            store
                .write(move |tx| {
                    Box::pin(async move {
                        let editor = registry.active(tx, &caller, Lock::Shared).await?.id;
                        let before = registry.locked_server(tx, &given).await?;
                        may_edit(&caller, &before, wanted, &given)?;
                        let editor = Editor {
                            player: editor,
                            vault: &registry.vault,
                        };
                        let Edited { mut server, notice } = checked.put_on(&before, editor)?;
                        if server == before {
                            return Ok(((before, None), None));
                        }
                        server.updated_at = registry.clock.now();
                        mcp_server::update(tx, &server).await?;
                        let change =
                            about("mcp_server.update", server.id, Some(&before), Some(&server));
                        registry.record(tx, &caller.label(), change).await?;
                        let announcement = changed(&server);
                        Ok(((server, notice), Some(announcement)))
                    })
                })
                .await
        });
        let (server, notice) = updated
            .await
            .map_err(|error: Error| error.or_taken(SLUG_KEY, name.as_deref()))?;
        Ok(Shown {
            notice,
            ..self.show(server)
        })
    }

    /// The server's id, and how many Grants went with it. The Operator may delete a private server that it cannot see: the audit log
    /// names it.
    pub(crate) async fn delete_mcp_server(
        &self,
        caller: &Caller,
        given: &str,
    ) -> Result<(McpServerId, usize), Error> {
        let (registry, caller, given) = (self.clone(), caller.clone(), given.to_owned());
        self.change(async move {
            let store = registry.store.clone();
            store
                .write(move |tx| {
                    Box::pin(async move {
                        registry.active(tx, &caller, Lock::Shared).await?;
                        let gone = registry.locked_server(tx, &given).await?;
                        let denied = match gone.transport {
                            McpTransport::Stdio => STDIO_DENIED,
                            McpTransport::Http | McpTransport::Sse => DELETE_DENIED,
                        };
                        let hidden = || Error::not_found(Thing::McpServer, &given);
                        let decision = decide(&caller, Act::DeleteMcpServer(gone.facts()));
                        allowed(decision, hidden, denied)?;
                        let target = gone.id.to_string();
                        let grants = grant::to_target(tx, GrantKind::Mcp, &target).await?;
                        for lost in &grants {
                            grant::delete(tx, lost.id).await?;
                            registry.record(tx, &caller.label(), lost.removed()).await?;
                        }
                        mcp_server::delete(tx, gone.id).await?;
                        let before = Deleted {
                            server: &gone,
                            grants: &grants,
                        };
                        let change = about("mcp_server.delete", gone.id, Some(&before), None);
                        registry.record(tx, &caller.label(), change).await?;
                        let announcement = Announcement {
                            server_id: gone.id,
                            generation: None,
                        };
                        Ok(((gone.id, grants.len()), Some(announcement)))
                    })
                })
                .await
        })
        .await
    }

    /// A server that the caller may see.
    pub(crate) async fn visible_server(
        &self,
        db: &impl ConnectionTrait,
        caller: &Caller,
        given: &str,
        lock: Lock,
    ) -> Result<McpServer, Error> {
        let reference = Reference::parse(given, "server")?;
        let hidden = || Error::not_found(Thing::McpServer, given);
        let found = mcp_server::find(db, &reference, lock).await?;
        let found = found.ok_or_else(hidden)?;
        let decision = decide(caller, Act::SeeMcpServer(found.facts()));
        allowed(decision, hidden, "only Players see MCP Servers")?;
        Ok(found)
    }

    /// A server that is about to be changed. The caller decides on it.
    async fn locked_server(
        &self,
        tx: &store::Transaction,
        given: &str,
    ) -> Result<McpServer, Error> {
        let reference = Reference::parse(given, "server")?;
        mcp_server::find(tx, &reference, Lock::Exclusive)
            .await?
            .ok_or_else(|| Error::not_found(Thing::McpServer, given))
    }

    /// What is shown of a server, besides who has it.
    pub(super) fn show(&self, server: McpServer) -> Shown {
        Shown {
            credentials: server.credentials(&self.vault),
            server,
            notice: None,
            holders: Vec::new(),
        }
    }

    /// Has the guard judge where the URL leads now. It is judged again before every connection.
    async fn judge(&self, checked: &Checked) -> Result<(), Error> {
        let Some(url) = &checked.url else {
            return Ok(());
        };
        self.connector
            .approve(&url.target, Consumer::Mcp)
            .await
            .map(drop)
            .map_err(|refused| Error::invalid("url", refused))
    }

    async fn refuse_one_too_many(
        &self,
        tx: &store::Transaction,
        owner: PlayerId,
    ) -> Result<(), Error> {
        let bound = self.config.mcp_servers_per_player;
        if mcp_server::count_owned(tx, owner).await? >= bound {
            return Err(Error::TooMany(format!(
                "a Player may own {bound} MCP Servers; delete one first, or ask the Operator to raise limits.mcp_servers_per_player"
            )));
        }
        Ok(())
    }

    fn blank(&self, owner: PlayerId, transport: McpTransport) -> McpServer {
        let now = self.clock.now();
        McpServer {
            id: McpServerId::mint(&*self.clock),
            owner,
            name: String::new(),
            slug: String::new(),
            transport,
            url: String::new(),
            query_names: Vec::new(),
            sealed_url: None,
            header_names: Vec::new(),
            sealed_headers: None,
            command: String::new(),
            arguments: Vec::new(),
            working_directory: String::new(),
            environment_names: Vec::new(),
            sealed_environment: None,
            private: false,
            enabled: true,
            pinning: Pinning::default(),
            era: None,
            preset: String::new(),
            last_test: None,
            generation: 0,
            credentials_generation: 0,
            created_at: now,
            updated_at: now,
        }
    }
}

/// A row of the audit log.
const fn about<'c, T>(
    action: &'static str,
    id: McpServerId,
    before: Option<&'c T>,
    after: Option<&'c T>,
) -> Change<'c, T> {
    Change {
        action,
        subject_kind: "mcp_server",
        subject_id: id.as_uuid(),
        before,
        after,
    }
}

const fn changed(server: &McpServer) -> Announcement {
    Announcement {
        server_id: server.id,
        generation: Some(server.generation),
    }
}

fn may_edit(
    caller: &Caller,
    server: &McpServer,
    wanted: Option<McpTransport>,
    given: &str,
) -> Result<(), Error> {
    let wanted = wanted.unwrap_or(server.transport);
    let denied = if [server.transport, wanted].contains(&McpTransport::Stdio) {
        STDIO_DENIED
    } else {
        EDIT_DENIED
    };
    allowed(
        decide(caller, Act::EditMcpServer(server.facts(), wanted)),
        || Error::not_found(Thing::McpServer, given),
        denied,
    )
}

/// Arguments often hold addresses with passwords, and a folder tells of the host: both are for whoever may change them.
fn hide_details(caller: &Caller, server: &mut McpServer) {
    let act = Act::EditMcpServer(server.facts(), server.transport);
    if !decide(caller, act).allows() {
        server.arguments.clear();
        server.working_directory.clear();
    }
}
