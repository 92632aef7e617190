//! The schema on both databases: the same columns, the same keys, the same consequences.

#![expect(
    clippy::expect_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use sea_orm::{ConnectionTrait as _, Statement};
use store::{Engine, Error, Store};
use testkit::on_every_database;

/// Every table of ours, with its columns in order; `?` marks those that may be null.
const TABLES: [(&str, &str); 11] = [
    (
        "audit",
        "id at actor action subject_kind subject_id before? after?",
    ),
    (
        "conversations",
        "id player_id npc_id client_id title? active_turn_id? created_at updated_at",
    ),
    (
        "grants",
        "id npc_id kind target tools? created_at pinned_at?",
    ),
    (
        "mcp_servers",
        "id owner name slug transport url query_names sealed_url? command arguments working_directory header_names sealed_headers? environment_names sealed_environment? private enabled pinning era? preset last_test? generation credentials_generation created_at updated_at",
    ),
    (
        "media",
        "id message_id call_id position kind media_type bytes data created_at",
    ),
    (
        "messages",
        "id conversation_id client_id revision role parent_id? replaced_by? turn_id? status metadata? created_at",
    ),
    (
        "npcs",
        "id owner name slug persona model private fetch_hosts sandbox_scope sandbox_network sandbox_hosts generation created_at updated_at",
    ),
    (
        "parts",
        "message_id position step kind state text call_id? wire_call_id? tool_name? input? output? error? outcome? provider_meta? started_at ended_at? last_event",
    ),
    (
        "players",
        "id name slug kind token_hash? created_at revoked_at?",
    ),
    (
        "tool_pins",
        "grant_id tool_name definition_hash definition?",
    ),
    (
        "turns",
        "id conversation_id message_id npc_id player_id request_id status owner lease_until step last_event limits usage? finish_reason? error? started_at ended_at?",
    ),
];

const PLAYER: &str = "'00000000-0000-7000-8000-000000000001'";
const NPC: &str = "'00000000-0000-7000-8000-000000000002'";
const CONVERSATION: &str = "'00000000-0000-7000-8000-000000000003'";
const MESSAGE: &str = "'00000000-0000-7000-8000-000000000004'";
const TURN: &str = "'00000000-0000-7000-8000-000000000005'";
const OTHER: &str = "'00000000-0000-7000-8000-000000000006'";

async fn texts(store: &Store, sql: String) -> Vec<String> {
    let backend = store.reader().get_database_backend();
    let rows = store
        .reader()
        .query_all_raw(Statement::from_string(backend, sql))
        .await;
    rows.expect("a read")
        .iter()
        .map(|row| row.try_get_by_index::<String>(0).expect("a text"))
        .collect()
}

async fn run(store: &Store, statements: Vec<String>) -> Result<(), Error> {
    store
        .write(move |tx| {
            Box::pin(async move {
                for statement in statements {
                    tx.execute_unprepared(&statement).await?;
                }
                Ok(())
            })
        })
        .await
}

fn player(id: &str, slug: &str) -> String {
    format!(
        "INSERT INTO players (id, name, slug, kind, created_at) VALUES ({id}, 'n', '{slug}', 'player', 0)"
    )
}

fn npc(id: &str, slug: &str) -> String {
    format!(
        "INSERT INTO npcs (id, owner, name, slug, persona, model, private, fetch_hosts, sandbox_scope, sandbox_network, sandbox_hosts, generation, created_at, updated_at) \
         VALUES ({id}, {PLAYER}, 'n', '{slug}', '', '', false, '[]', 'npc', 'off', '[]', 1, 0, 0)"
    )
}

fn grant(id: &str) -> String {
    format!(
        "INSERT INTO grants (id, npc_id, kind, target, created_at) VALUES ({id}, {NPC}, 'tool', 'fetch_url', 0)"
    )
}

fn server(id: &str, owner: &str, slug: &str) -> String {
    format!(
        "INSERT INTO mcp_servers (id, owner, name, slug, transport, url, query_names, command, arguments, working_directory, header_names, environment_names, private, enabled, pinning, preset, generation, credentials_generation, created_at, updated_at) \
         VALUES ({id}, {owner}, 'n', '{slug}', 'http', '', '[]', '', '[]', '', '[]', '[]', false, true, 'strict', '', 1, 1, 0, 0)"
    )
}

/// A pin of the Grant that [`fill`] makes.
fn pin(tool: &str) -> String {
    format!(
        "INSERT INTO tool_pins (grant_id, tool_name, definition_hash) VALUES ({TURN}, '{tool}', 'h')"
    )
}

fn media(id: &str) -> String {
    format!(
        "INSERT INTO media (id, message_id, call_id, position, kind, media_type, bytes, data, created_at) \
         VALUES ({id}, {MESSAGE}, {TURN}, 0, 'image', 'image/png', 1, CAST('x' AS {{blob}}), 0)"
    )
}

fn conversation(id: &str) -> String {
    format!(
        "INSERT INTO conversations (id, player_id, npc_id, client_id, created_at, updated_at) VALUES ({id}, {PLAYER}, {NPC}, 'c', 0, 0)"
    )
}

fn message(id: &str) -> String {
    format!(
        "INSERT INTO messages (id, conversation_id, client_id, revision, role, status, created_at) \
         VALUES ({id}, {CONVERSATION}, 'm', 0, 'user', 'complete', 0)"
    )
}

fn part(position: u32, call: &str) -> String {
    format!(
        "INSERT INTO parts (message_id, position, step, kind, state, call_id, started_at) \
         VALUES ({MESSAGE}, {position}, 1, 'tool', 'running', {call}, 0)"
    )
}

fn turn(id: &str) -> String {
    format!(
        "INSERT INTO turns (id, conversation_id, message_id, npc_id, player_id, request_id, status, owner, lease_until, limits, started_at) \
         VALUES ({id}, {CONVERSATION}, {MESSAGE}, {NPC}, {PLAYER}, 'r', 'running', 'o', 0, '{{}}', 0)"
    )
}

async fn fill(store: &Store) {
    let blob = match store.engine() {
        Engine::Sqlite => "BLOB",
        Engine::Postgres => "BYTEA",
    };
    let rows = vec![
        player(PLAYER, "p"),
        npc(NPC, "n"),
        server(NPC, PLAYER, "s"),
        grant(TURN),
        pin("a"),
        pin("b"),
        conversation(CONVERSATION),
        message(MESSAGE),
        part(0, TURN),
        turn(TURN),
        media(TURN).replace("{blob}", blob),
    ];
    run(store, rows).await.expect("the rows are written");
}

async fn counts(store: &Store, tables: &[&str]) -> Vec<usize> {
    let mut counts = Vec::new();
    for table in tables {
        counts.push(
            texts(store, format!("SELECT 'row' FROM {table}"))
                .await
                .len(),
        );
    }
    counts
}

on_every_database! {
    async fn every_table_has_the_same_columns(store: Store) {
        for (table, expected) in TABLES {
            let sql = match store.engine() {
                Engine::Sqlite => format!("SELECT name || CASE WHEN \"notnull\" = 0 THEN '?' ELSE '' END FROM pragma_table_info('{table}') ORDER BY cid"),
                Engine::Postgres => format!("SELECT column_name || CASE WHEN is_nullable = 'YES' THEN '?' ELSE '' END FROM information_schema.columns WHERE table_name = '{table}' ORDER BY ordinal_position"),
            };
            assert_eq!(texts(&store, sql).await.join(" "), expected, "{table}");
        }
    }

    async fn a_taken_key_has_one_name(store: Store) {
        fill(&store).await;
        for (again, key) in [
            (player(OTHER, "p"), "players_slug"),
            (npc(OTHER, "n"), "npcs_slug"),
            (server(OTHER, PLAYER, "s"), "mcp_servers_slug"),
            (grant(OTHER), "grants_npc_id_kind_target"),
            (conversation(OTHER), "conversations_player_id_client_id"),
            (message(OTHER), "messages_conversation_id_client_id_revision"),
            (part(1, TURN), "parts_call_id"),
            (turn(OTHER), "turns_conversation_id_request_id"),
        ] {
            let error = run(&store, vec![again]).await.expect_err(key);
            assert!(error.is_taken(key), "{key}: {error:?}");
        }
    }

    async fn what_hangs_on_a_conversation_goes_with_it(store: Store) {
        fill(&store).await;
        run(&store, vec!["DELETE FROM conversations".to_owned()]).await.expect("it is deleted");
        assert_eq!(counts(&store, &["messages", "parts", "turns", "media", "npcs", "grants"]).await, [0, 0, 0, 0, 1, 1]);
    }

    async fn what_hangs_on_an_npc_goes_with_it_and_transcripts_stay(store: Store) {
        fill(&store).await;
        run(&store, vec!["DELETE FROM npcs".to_owned()]).await.expect("it is deleted");
        assert_eq!(counts(&store, &["grants", "tool_pins", "conversations", "messages"]).await, [0, 0, 1, 1]);
    }

    async fn pins_go_with_their_grant(store: Store) {
        fill(&store).await;
        run(&store, vec!["DELETE FROM grants".to_owned()]).await.expect("it is deleted");
        assert_eq!(counts(&store, &["tool_pins", "mcp_servers"]).await, [0, 1]);
    }

    async fn a_player_who_owns_something_cannot_be_deleted(store: Store) {
        fill(&store).await;
        let error = run(&store, vec!["DELETE FROM players".to_owned()]).await.expect_err("an NPC is there");
        assert!(matches!(error, Error::ForeignKey), "{error:?}");
    }

    async fn a_player_who_owns_an_mcp_server_cannot_be_deleted(store: Store) {
        run(&store, vec![player(PLAYER, "p"), server(NPC, PLAYER, "s")]).await.expect("they are written");
        let error = run(&store, vec!["DELETE FROM players".to_owned()]).await.expect_err("a server is there");
        assert!(matches!(error, Error::ForeignKey), "{error:?}");
    }
}
