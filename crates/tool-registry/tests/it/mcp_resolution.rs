//! What mcp-gateway gets and tells.

use kernel::{Caller, ErrorCode, Secret, ServiceName};
use proto::registry::v1::*;
use store::Store;
use testkit::on_every_database;
use vault::{Identity, Sealed, UnsealError};

use crate::support::{HOST, ROOT_SECRET, Setup, http, refused, secret, service, stdio, vault};

const OTHER_SECRET: &str = "another root secret of 32 bytes, too";

fn gateway(setup: &Setup) -> Caller {
    service(ServiceName::McpGateway, setup.owner.player())
}

async fn resolve(setup: &Setup, server: &str) -> ResolveMcpServerResponse {
    let request = ResolveMcpServerRequest {
        server: server.to_owned(),
    };
    let mut resolution = setup.mcp_resolution(&gateway(setup));
    let resolved = resolution.resolve_mcp_server(request).await;
    resolved.expect("a server").into_inner()
}

/// What mcp-gateway makes of sealed bytes.
fn unseal(root: &str, id: &str, field: &str, sealed: &[u8]) -> Result<Secret, UnsealError> {
    let sealed: Sealed = std::str::from_utf8(sealed)
        .expect("text")
        .parse()
        .expect("a sealed value");
    let identity = Identity {
        kind: "mcp_server",
        id,
        field,
    };
    vault(root).unseal(&identity, &sealed)
}

async fn status(setup: &Setup) -> (u64, u64) {
    let status = setup
        .servers(&setup.operator)
        .get_secrets_status(GetSecretsStatusRequest {})
        .await
        .expect("a status")
        .into_inner();
    (status.readable, status.unreadable)
}

on_every_database! {
    async fn the_gateway_gets_what_it_needs_and_secrets_only_sealed(store: Store) {
        let setup = Setup::new(store).await;
        let url = format!("https://{HOST}/mcp?key=s3cret");
        let request = CreateMcpServerRequest { url: url.clone(), headers: [secret("X-A", "one"), secret("X-B", "t\"wo")].concat(), ..http("Docs") };
        let server = setup.server(&setup.owner, request).await;
        let resolved = resolve(&setup, "docs").await;
        assert_eq!(resolved.server, Some(server.clone()));
        assert_eq!((resolved.credentials_generation, resolved.sealed_environment.len()), (1, 0));
        let opened = unseal(ROOT_SECRET, &server.id, "url", &resolved.sealed_url).expect("it unseals");
        assert_eq!(opened.expose(), serde_json::json!({ "url": url }).to_string());
        let opened = unseal(ROOT_SECRET, &server.id, "headers", &resolved.sealed_headers).expect("it unseals");
        assert_eq!(opened.expose(), r#"{"X-A":"one","X-B":"t\"wo"}"#);
        assert_eq!(unseal(ROOT_SECRET, &server.id, "environment", &resolved.sealed_headers).expect_err("another field"), UnsealError::Corrupt);

        let command = CreateMcpServerRequest { environment: secret("TOKEN", "s3cret"), working_directory: "/srv".to_owned(), ..stdio("Files") };
        let command = setup.server(&setup.operator, command).await;
        let resolved = resolve(&setup, &command.id).await;
        // The gateway runs it, so that nothing of the command is left out.
        assert_eq!(resolved.server, Some(command.clone()));
        assert_eq!(resolved.server.map(|server| server.arguments.len()), Some(2));
        let opened = unseal(ROOT_SECRET, &command.id, "environment", &resolved.sealed_environment).expect("it unseals");
        assert_eq!(opened.expose(), r#"{"TOKEN":"s3cret"}"#);
    }

    async fn credentials_have_a_generation_of_their_own(store: Store) {
        let setup = Setup::new(store).await;
        let server = setup.server(&setup.owner, http("Docs")).await;
        let mut edit = UpdateMcpServerRequest { server: server.id.clone(), private: Some(true), ..UpdateMcpServerRequest::default() };
        setup.servers(&setup.owner).update_mcp_server(edit.clone()).await.expect("it is changed");
        assert_eq!(resolve(&setup, &server.id).await.credentials_generation, 1);
        edit.headers = Some(NamedSecretList { secrets: secret("X-Key", "s3cret") });
        setup.servers(&setup.owner).update_mcp_server(edit).await.expect("it is changed");
        let resolved = resolve(&setup, &server.id).await;
        assert_eq!((resolved.credentials_generation, resolved.server.expect("a server").generation), (2, 3));
    }

    async fn under_another_root_secret_credentials_are_unreadable_until_they_are_entered_again(store: Store) {
        let setup = Setup::new(store).await;
        let request = CreateMcpServerRequest { headers: secret("X-Key", "s3cret"), ..http("Docs") };
        let server = setup.server(&setup.owner, request).await;
        setup.server(&setup.owner, http("Plain")).await;
        assert_eq!(status(&setup).await, (1, 0));
        let rotated = Setup::rotated(&setup, OTHER_SECRET).await;
        assert_eq!(status(&rotated).await, (0, 1));
        let sentence = "credentials unreadable, enter them again: the root secret was changed since they were saved";
        let read = rotated.servers(&rotated.owner).get_mcp_server(GetMcpServerRequest { server: server.id.clone() }).await;
        let read = read.expect("it is shown").into_inner().server.expect("a server");
        assert_eq!((read.credentials_readable, read.credentials_sentence.as_str()), (false, sentence));
        assert_eq!(read.header_names, ["X-Key"]);
        let listed = rotated.servers(&rotated.owner).list_mcp_servers(ListMcpServersRequest::default()).await.expect("a list").into_inner().servers;
        assert_eq!(listed.iter().map(|server| server.credentials_readable).collect::<Vec<_>>(), [true, false]);
        assert_eq!(resolve(&rotated, "Docs").await.server.expect("a server").credentials_sentence, sentence);
        // What has nothing to do with them can be changed, and they stay unreadable.
        let edit = UpdateMcpServerRequest { server: server.id.clone(), enabled: Some(true), pinning: Pinning::Off.into(), ..UpdateMcpServerRequest::default() };
        let kept = rotated.servers(&rotated.owner).update_mcp_server(edit.clone()).await.expect("it is changed").into_inner();
        assert!(!kept.server.expect("a server").credentials_readable);
        let again = UpdateMcpServerRequest { headers: Some(NamedSecretList { secrets: secret("X-Key", "s3cret") }), ..edit };
        let again = rotated.servers(&rotated.owner).update_mcp_server(again).await.expect("it is changed").into_inner();
        let again = again.server.expect("a server");
        assert_eq!((again.credentials_readable, again.credentials_sentence.as_str()), (true, ""));
        assert_eq!(status(&rotated).await, (1, 0));
    }

    async fn sealed_rows_are_counted_when_no_village_runs(store: Store) {
        let setup = Setup::new(store.clone()).await;
        let request = CreateMcpServerRequest { headers: secret("X-Key", "s3cret"), ..http("Docs") };
        setup.server(&setup.owner, request).await;
        let counted = tool_registry::count_sealed(&store, &vault(ROOT_SECRET)).await.expect("a count");
        let expected = tool_registry::SecretsStatus { key_id: vault(ROOT_SECRET).key_id().to_string(), readable: 1, unreadable: 0 };
        assert_eq!(counted, expected);
        let other = tool_registry::count_sealed(&store, &vault(OTHER_SECRET)).await.expect("a count");
        assert_eq!((other.readable, other.unreadable), (0, 1));
        assert_ne!(other.key_id, counted.key_id);
    }

    async fn a_tests_result_and_an_era_are_kept_for_the_generation_that_was_tested(store: Store) {
        let setup = Setup::new(store).await;
        let server = setup.server(&setup.owner, http("Docs")).await;
        let mut gateway = setup.mcp_resolution(&gateway(&setup));
        let result = McpTestResult {
            ok: false,
            code: "unreachable".to_owned(),
            sentence: "nobody answers\u{1b}[31m at\nmcp.example.com".to_owned(),
            next_step: "x".repeat(10_000),
            tools: 3,
            protocol_version: "2026-07-28".to_owned(),
            at_micros: 1_700_000_000_000_000,
            latency_micros: 1_234,
            era: McpEra::Modern.into(),
            transport: McpTransport::Http.into(),
        };
        let save = |generation, result: &McpTestResult| SaveTestResultRequest { server_id: server.id.clone(), generation, result: Some(result.clone()) };
        let era = |generation, era: McpEra| SaveEraRequest { server_id: server.id.clone(), generation, era: era.into() };
        gateway.save_test_result(save(1, &result)).await.expect("it is kept");
        gateway.save_era(era(1, McpEra::Modern)).await.expect("it is kept");
        let before = setup.audited().await.len();
        let kept = resolve(&setup, "Docs").await.server.expect("a server");
        let expected = McpTestResult { sentence: "nobody answers[31m at mcp.example.com".to_owned(), next_step: "x".repeat(1_024), ..result.clone() };
        assert_eq!((kept.last_test.clone(), kept.era(), kept.generation), (Some(expected.clone()), McpEra::Modern, 1));
        // Those of another generation are dropped, and what is gone is no error.
        gateway.save_test_result(save(7, &McpTestResult::default())).await.expect("it is dropped");
        gateway.save_era(era(7, McpEra::Legacy)).await.expect("it is dropped");
        let kept = resolve(&setup, "Docs").await.server.expect("a server");
        assert_eq!((kept.last_test.clone(), kept.era()), (Some(expected), McpEra::Modern));
        assert_eq!(setup.audited().await.len(), before);
        // Another address is another server.
        let edit = UpdateMcpServerRequest { server: server.id.clone(), url: Some(format!("https://{HOST}/other")), ..UpdateMcpServerRequest::default() };
        setup.servers(&setup.owner).update_mcp_server(edit).await.expect("it is changed");
        let changed = resolve(&setup, "Docs").await.server.expect("a server");
        assert_eq!((changed.last_test.clone(), changed.era()), (None, McpEra::Unspecified));
        setup.servers(&setup.owner).delete_mcp_server(DeleteMcpServerRequest { server: server.id.clone() }).await.expect("it is deleted");
        gateway.save_test_result(save(2, &result)).await.expect("it is dropped");
        gateway.save_era(era(2, McpEra::Legacy)).await.expect("it is dropped");
    }

    async fn nonsense_of_a_gateway_is_refused_with_the_field(store: Store) {
        let setup = Setup::new(store).await;
        let server = setup.server(&setup.owner, http("Docs")).await;
        let mut gateway = setup.mcp_resolution(&gateway(&setup));
        let good = SaveTestResultRequest { server_id: server.id.clone(), generation: 1, result: Some(McpTestResult::default()) };
        for (field, request) in [
            ("server_id", SaveTestResultRequest { server_id: "Docs".to_owned(), ..good.clone() }),
            ("generation", SaveTestResultRequest { generation: u64::MAX, ..good.clone() }),
            ("result", SaveTestResultRequest { result: None, ..good.clone() }),
            ("era", SaveTestResultRequest { result: Some(McpTestResult { era: 99, ..McpTestResult::default() }), ..good.clone() }),
            ("result.transport", SaveTestResultRequest { result: Some(McpTestResult { transport: 99, ..McpTestResult::default() }), ..good }),
        ] {
            let problem = refused(gateway.save_test_result(request).await);
            assert_eq!((problem.code, problem.field.as_deref()), (ErrorCode::InvalidArgument, Some(field)));
        }
    }
}
