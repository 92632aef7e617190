#![expect(
    clippy::unnecessary_wraps,
    reason = "the helpers make fields, which are all optional"
)]

use kernel::{McpServerId, Secret, SystemClock, Timestamp};

use super::*;
use crate::mcp_server::{Era, Fields, NamedSecret, Pinning, TestResult};

fn vault() -> Vault {
    Vault::new(&Secret::new("a root secret of 32 bytes, at least")).expect("a vault")
}

fn blank(owner: PlayerId, transport: McpTransport) -> McpServer {
    McpServer {
        id: McpServerId::mint(&SystemClock),
        owner,
        name: "Docs".to_owned(),
        slug: "docs".to_owned(),
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
        pinning: Pinning::Strict,
        era: None,
        preset: String::new(),
        last_test: None,
        generation: 1,
        credentials_generation: 1,
        created_at: Timestamp::from_micros(0),
        updated_at: Timestamp::from_micros(0),
    }
}

fn secrets(name: &str) -> Option<Vec<NamedSecret>> {
    Some(vec![NamedSecret {
        name: name.to_owned(),
        value: Secret::new("s3cret"),
    }])
}

fn url(text: &str) -> Option<Secret> {
    Some(Secret::new(text))
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn put(fields: Fields, on: &McpServer, editor: PlayerId) -> Result<Edited, Error> {
    let vault = vault();
    fields.check().expect("fields").put_on(
        on,
        Editor {
            player: editor,
            vault: &vault,
        },
    )
}

/// An owner's server of either family, tested and spoken to.
fn servers(owner: PlayerId) -> (McpServer, McpServer) {
    let http = Fields {
        url: url("https://a.example/mcp?key=s3cret"),
        headers: secrets("Authorization"),
        ..Fields::default()
    };
    let stdio = Fields {
        command: text("npx"),
        arguments: Some(vec!["-y".to_owned()]),
        environment: secrets("TOKEN"),
        ..Fields::default()
    };
    let learnt = |fields, transport| McpServer {
        era: Some(Era::Modern),
        last_test: Some(TestResult::default()),
        ..put(fields, &blank(owner, transport), owner)
            .expect("a server")
            .server
    };
    (
        learnt(http, McpTransport::Http),
        learnt(stdio, McpTransport::Stdio),
    )
}

#[test]
fn secrets_are_kept_replaced_and_cleared() {
    let owner = PlayerId::mint(&SystemClock);
    let (http, _) = servers(owner);
    assert_eq!(http.url, "https://a.example/mcp?key=***");
    assert!(http.sealed_url.is_some() && http.sealed_headers.is_some());

    let renamed = Fields {
        name: text("Papers"),
        ..Fields::default()
    };
    let kept = put(renamed, &http, owner).expect("it is changed").server;
    assert_eq!(kept.sealed_headers, http.sealed_headers);
    assert_eq!(
        (kept.generation, kept.credentials_generation, kept.era),
        (
            http.generation + 1,
            http.credentials_generation,
            Some(Era::Modern)
        )
    );

    let replaced = Fields {
        headers: secrets("X-Key"),
        ..Fields::default()
    };
    let replaced = put(replaced, &http, owner).expect("it is changed").server;
    assert_eq!(replaced.header_names, ["X-Key"]);
    assert_ne!(replaced.sealed_headers, http.sealed_headers);
    assert_eq!(
        (
            replaced.credentials_generation,
            replaced.era,
            replaced.last_test
        ),
        (http.credentials_generation + 1, None, None)
    );

    let cleared = Fields {
        headers: Some(Vec::new()),
        url: url("https://a.example/mcp"),
        ..Fields::default()
    };
    let cleared = put(cleared, &http, owner).expect("it is changed").server;
    assert_eq!(
        (
            cleared.header_names,
            cleared.sealed_headers,
            cleared.sealed_url,
            cleared.query_names
        ),
        (Vec::new(), None, None, Vec::<String>::new())
    );
}

#[test]
fn nothing_changed_is_no_new_generation() {
    let owner = PlayerId::mint(&SystemClock);
    let (http, stdio) = servers(owner);
    let same = Fields {
        name: text("Docs"),
        private: Some(false),
        pinning: Some(Pinning::Strict),
        ..Fields::default()
    };
    for server in [http, stdio] {
        let after = put(same.clone(), &server, owner).expect("it is the same");
        assert_eq!(after.server, server);
        assert_eq!(after.notice, None);
    }
}

#[test]
fn another_players_headers_are_sent_to_no_other_origin() {
    let (owner, operator) = (PlayerId::mint(&SystemClock), PlayerId::mint(&SystemClock));
    let (http, _) = servers(owner);
    for elsewhere in [
        "https://evil.example/mcp",
        "https://a.example:8443/mcp",
        "http://a.example/mcp",
    ] {
        let moved = Fields {
            url: url(elsewhere),
            ..Fields::default()
        };
        let error = put(moved.clone(), &http, operator).expect_err(elsewhere);
        assert_eq!(error.field(), Some("headers"), "{error}");
        // Whose they are may, and is told.
        let by_owner = put(moved, &http, owner).expect("it is changed");
        assert_eq!(by_owner.server.sealed_headers, http.sealed_headers);
        let notice = by_owner.notice.expect("a notice");
        assert!(
            elsewhere.starts_with(notice.split(' ').nth(7).expect("an origin")),
            "{notice}"
        );

        for headers in [secrets("X-Other"), Some(Vec::new())] {
            let moved = Fields {
                url: url(elsewhere),
                headers,
                ..Fields::default()
            };
            put(moved, &http, operator).expect("nothing of the owner's goes along");
        }
    }
    let same_origin = Fields {
        url: url("https://A.example:443/other"),
        ..Fields::default()
    };
    assert_eq!(
        put(same_origin, &http, operator)
            .expect("it is changed")
            .notice,
        None
    );
}

#[test]
fn another_players_variables_are_read_by_no_other_command() {
    let (owner, operator) = (PlayerId::mint(&SystemClock), PlayerId::mint(&SystemClock));
    let (_, stdio) = servers(owner);
    let changes = [
        Fields {
            command: text("env"),
            ..Fields::default()
        },
        Fields {
            command: text("npx"),
            arguments: Some(vec!["evil".to_owned()]),
            ..Fields::default()
        },
        Fields {
            working_directory: text("/tmp"),
            ..Fields::default()
        },
    ];
    for change in changes {
        let error = put(change.clone(), &stdio, operator).expect_err("they are the owner's");
        assert_eq!(error.field(), Some("environment"), "{error}");
        assert!(
            put(change.clone(), &stdio, owner)
                .expect("the owner may")
                .notice
                .is_some()
        );
        let cleared = Fields {
            environment: Some(Vec::new()),
            ..change
        };
        put(cleared, &stdio, operator).expect("nothing of the owner's is read");
    }
}

#[test]
fn a_changed_transport_needs_what_it_has_and_drops_what_it_has_not() {
    let owner = PlayerId::mint(&SystemClock);
    let (http, stdio) = servers(owner);
    let to = |transport| Fields {
        transport: Some(transport),
        ..Fields::default()
    };
    for (server, transport, missing) in [
        (&http, McpTransport::Stdio, "command"),
        (&stdio, McpTransport::Http, "url"),
        (&stdio, McpTransport::Sse, "url"),
    ] {
        let error = put(to(transport), server, owner).expect_err(missing);
        assert_eq!(error.field(), Some(missing));
    }
    let sse = put(to(McpTransport::Sse), &http, owner)
        .expect("it is changed")
        .server;
    assert_eq!(
        (sse.url, sse.sealed_headers),
        (http.url.clone(), http.sealed_headers.clone())
    );
    assert_eq!((sse.era, sse.last_test), (None, None));

    let command = Fields {
        command: text("npx"),
        ..to(McpTransport::Stdio)
    };
    let stdio_now = put(command, &http, owner).expect("it is changed").server;
    assert_eq!(
        (
            stdio_now.url.as_str(),
            stdio_now.sealed_url,
            stdio_now.sealed_headers,
            stdio_now.header_names
        ),
        ("", None, None, Vec::new())
    );
    let address = Fields {
        url: url("https://a.example/"),
        ..to(McpTransport::Http)
    };
    let http_now = put(address, &stdio, owner).expect("it is changed").server;
    assert_eq!(
        (
            http_now.command.as_str(),
            http_now.arguments,
            http_now.sealed_environment
        ),
        ("", Vec::new(), None)
    );
}

#[test]
fn fields_of_another_transport_are_refused_by_name() {
    let owner = PlayerId::mint(&SystemClock);
    let (http, stdio) = servers(owner);
    let cases = [
        (
            "command",
            &http,
            Fields {
                command: text("npx"),
                ..Fields::default()
            },
        ),
        (
            "arguments",
            &http,
            Fields {
                arguments: Some(vec!["x".to_owned()]),
                ..Fields::default()
            },
        ),
        (
            "working_directory",
            &http,
            Fields {
                working_directory: text("/srv"),
                ..Fields::default()
            },
        ),
        (
            "environment",
            &http,
            Fields {
                environment: Some(Vec::new()),
                ..Fields::default()
            },
        ),
        (
            "url",
            &stdio,
            Fields {
                url: url("https://a.example/"),
                ..Fields::default()
            },
        ),
        (
            "headers",
            &stdio,
            Fields {
                headers: secrets("X"),
                ..Fields::default()
            },
        ),
        (
            "arguments",
            &stdio,
            Fields {
                arguments: Some(vec!["x".to_owned()]),
                ..Fields::default()
            },
        ),
    ];
    for (field, server, fields) in cases {
        assert_eq!(
            put(fields, server, owner).expect_err(field).field(),
            Some(field)
        );
    }
}

#[test]
fn no_debug_shows_what_is_secret() {
    let owner = PlayerId::mint(&SystemClock);
    let fields = Fields {
        url: url("https://a.example/?key=s3cret"),
        headers: secrets("Authorization"),
        ..Fields::default()
    };
    let checked = fields.clone().check().expect("fields");
    let (http, stdio) = servers(owner);
    let shown = format!("{fields:?} {checked:?} {http:?} {stdio:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    for server in [http, stdio] {
        let sealed = [
            server.sealed_url,
            server.sealed_headers,
            server.sealed_environment,
        ];
        for sealed in sealed.into_iter().flatten() {
            assert!(!shown.contains(sealed.as_str()));
            assert!(!sealed.as_str().contains("s3cret"));
        }
    }
}
