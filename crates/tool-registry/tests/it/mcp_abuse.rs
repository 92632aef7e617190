//! What somebody with access to one thing tries to make of it.

use kernel::ServiceName;
use proto::registry::v1::*;
use sea_orm::{ConnectionTrait as _, DbBackend, Statement};
use store::Store;
use testkit::{
    database::{Schema, TestDatabase},
    events, on_every_database,
};

use crate::support::{HOST, Setup, http, secret, service, stdio};

/// Parts of every secret that is planted, none of which may show anywhere.
const PLANTED: [&str; 4] = [
    "planted-header",
    "planted-query",
    "planted-variable",
    "planted-password",
];

/// Registers, changes and fails to register servers with planted secrets, and collects all that is said.
async fn plant(setup: &Setup) -> String {
    let mut said = Vec::new();
    let request = CreateMcpServerRequest {
        url: format!("https://{HOST}/mcp?api_key=planted-query"),
        headers: secret("Authorization", "Bearer planted-header"),
        ..http("Docs")
    };
    said.push(format!("{request:?}"));
    let docs = setup.server(&setup.owner, request).await;
    let command = CreateMcpServerRequest {
        environment: secret("TOKEN", "planted-variable"),
        ..stdio("Files")
    };
    let files = setup.server(&setup.operator, command).await;
    said.push(format!("{docs:?}{files:?}"));
    let bad = [
        CreateMcpServerRequest {
            url: format!("https://ada:planted-password@{HOST}/"),
            ..http("Bad")
        },
        CreateMcpServerRequest {
            url: "http://127.0.0.1/?api_key=planted-query".to_owned(),
            ..http("Bad")
        },
        CreateMcpServerRequest {
            headers: secret("Authorization", "planted-header\r\nX: 1"),
            ..http("Bad")
        },
        CreateMcpServerRequest {
            environment: secret("LD_PRELOAD", "planted-variable"),
            ..stdio("Bad")
        },
        CreateMcpServerRequest {
            headers: secret("Authorization", "planted-header"),
            ..http("Docs")
        },
    ];
    for request in bad {
        let refused = setup
            .servers(&setup.operator)
            .create_mcp_server(request)
            .await;
        said.push(format!("{:?}", refused.expect_err("it is refused")));
    }
    let edit = UpdateMcpServerRequest {
        server: docs.id.clone(),
        url: Some(format!("https://{HOST}/mcp?token=planted-query")),
        headers: Some(NamedSecretList {
            secrets: secret("X-Key", "planted-header"),
        }),
        ..UpdateMcpServerRequest::default()
    };
    said.push(format!("{edit:?}"));
    let edited = setup.servers(&setup.owner).update_mcp_server(edit).await;
    said.push(format!("{edited:?}"));
    for server in [&docs.id, &files.id] {
        let read = GetMcpServerRequest {
            server: server.clone(),
        };
        let read = setup.servers(&setup.operator).get_mcp_server(read).await;
        let gateway = service(ServiceName::McpGateway, setup.owner.player());
        let request = ResolveMcpServerRequest {
            server: server.clone(),
        };
        let mut resolution = setup.mcp_resolution(&gateway);
        let resolved = resolution.resolve_mcp_server(request).await;
        said.push(format!("{read:?}{resolved:?}"));
    }
    let listed = setup
        .servers(&setup.operator)
        .list_mcp_servers(ListMcpServersRequest::default())
        .await;
    let audit = setup
        .audit(&setup.operator)
        .list_audit_rows(ListAuditRowsRequest::default())
        .await;
    said.push(format!("{listed:?}{audit:?}"));
    said.concat()
}

fn assert_nothing_shows(place: &str, text: &[u8]) {
    for planted in PLANTED {
        let found = text
            .windows(planted.len())
            .any(|window| window == planted.as_bytes());
        assert!(!found, "{planted} shows in {place}");
    }
}

on_every_database! {
    async fn planted_secrets_show_in_no_answer_no_error_and_no_row(store: Store) {
        let captured = events::capture();
        let setup = Setup::new(store.clone()).await;
        let said = plant(&setup).await;
        assert_nothing_shows("what was said", said.as_bytes());
        assert!(said.contains("Authorization") && said.contains("TOKEN"), "{said}");
        assert_nothing_shows("logs", format!("{captured:?}").as_bytes());
        let backend = store.reader().get_database_backend();
        for table in ["mcp_servers", "audit", "grants", "tool_pins", "players", "npcs"] {
            // SQLite's file is searched as a whole below.
            if backend == DbBackend::Postgres {
                let rows = store.reader().query_all_raw(Statement::from_string(backend, format!("SELECT t::text AS line FROM {table} t"))).await.expect("rows");
                let lines: Vec<String> = rows.iter().map(|row| row.try_get("", "line").expect("a line")).collect();
                assert_nothing_shows(table, lines.concat().as_bytes());
            }
        }
    }

    async fn sealed_bytes_that_were_moved_from_another_row_are_damage_and_no_credentials(store: Store) {
        let setup = Setup::new(store).await;
        let rich = setup.server(&setup.owner, CreateMcpServerRequest { headers: secret("X-Key", "s3cret"), ..http("Rich") }).await;
        let thief = setup.server(&setup.other, CreateMcpServerRequest { headers: secret("X-Key", "mine"), ..http("Thief") }).await;
        // Somebody who can write to the database, and knows no secret.
        let moved = "UPDATE mcp_servers SET sealed_headers = (SELECT sealed_headers FROM mcp_servers WHERE slug = 'rich'), sealed_environment = 'nonsense' WHERE slug = 'thief'";
        setup.store.write(move |tx| Box::pin(async move {
            tx.execute_unprepared(moved).await?;
            Ok::<_, store::Error>(())
        })).await.expect("it is moved");
        let read = setup.servers(&setup.other).get_mcp_server(GetMcpServerRequest { server: thief.id }).await.expect("it is shown").into_inner().server.expect("a server");
        assert_eq!((read.credentials_readable, read.credentials_sentence.as_str()), (false, "credentials unreadable, enter them again: what is stored is damaged"));
        let read = setup.servers(&setup.owner).get_mcp_server(GetMcpServerRequest { server: rich.id }).await.expect("it is shown").into_inner().server.expect("a server");
        assert!(read.credentials_readable);
        let status = setup.servers(&setup.operator).get_secrets_status(GetSecretsStatusRequest {}).await.expect("a status").into_inner();
        assert_eq!((status.readable, status.unreadable), (1, 1));
    }

    async fn a_field_of_a_url_cannot_smuggle_sql_or_control_characters(store: Store) {
        let setup = Setup::new(store).await;
        let name = "Docs'; DROP TABLE mcp_servers; --";
        let server = setup.server(&setup.owner, CreateMcpServerRequest { url: format!("https://{HOST}/?%1b%5b2J=x&a'b=y"), ..http(name) }).await;
        assert_eq!((server.name.as_str(), server.query_names), (name, vec!["[2J".to_owned(), "a'b".to_owned()]));
        assert_eq!(setup.rows("SELECT id FROM mcp_servers").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_planted_secrets_show_in_no_byte_of_the_database() {
    let database = TestDatabase::sqlite(Schema::Migrated).await;
    let setup = Setup::new(database.store()).await;
    plant(&setup).await;
    let directory = database.config().data_dir;
    let mut bytes = 0;
    for entry in std::fs::read_dir(&directory).expect("the data directory") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            let content = std::fs::read(&path).expect("a file");
            assert_nothing_shows(&path.display().to_string(), &content);
            bytes += content.len();
        }
    }
    assert!(bytes > 10_000, "{} has {bytes} bytes", directory.display());
}
