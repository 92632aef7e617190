use kernel::{ErrorCode, Secret};

use super::*;

fn vault() -> Arc<Vault> {
    Arc::new(Vault::new(&Secret::new("v".repeat(32))).unwrap())
}

fn draft(transport: McpTransport) -> Draft {
    Draft {
        name: String::new(),
        transport,
        url: String::new(),
        headers: Vec::new(),
        command: String::new(),
        arguments: Vec::new(),
        environment: Vec::new(),
        working_directory: String::new(),
    }
}

fn http(url: &str) -> Draft {
    Draft {
        url: url.to_owned(),
        ..draft(McpTransport::Http)
    }
}

fn command(command: &str) -> Draft {
    Draft {
        command: command.to_owned(),
        ..draft(McpTransport::Stdio)
    }
}

fn field(draft: Draft) -> &'static str {
    let error = target(&vault(), draft).expect_err("it is refused");
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    error.field().expect("a field")
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

#[test]
fn a_query_is_masked_and_whole_only_where_it_is_sealed() {
    let target = target(
        &vault(),
        http("https://docs.test/mcp?api_key=hunter2&k2=s3cret&b64t0ken"),
    );
    let target = target.unwrap().unwrap();
    let Endpoint::Http(remote) = &target.endpoint else {
        panic!("{target:?}");
    };
    assert_eq!(
        remote.shown_url,
        "https://docs.test/mcp?api_key=***&k2=***&***"
    );
    assert_eq!(
        remote.url().unwrap().expose(),
        "https://docs.test/mcp?api_key=hunter2&k2=s3cret&b64t0ken"
    );
    let told = format!("{target:?}");
    for secret in ["hunter2", "s3cret", "b64t0ken"] {
        assert!(!told.contains(secret), "{told}");
    }
}

#[test]
fn a_url_that_no_server_can_have_is_how_the_test_went() {
    for url in [
        "ftp://docs.test/mcp",
        "docs.test/mcp",
        "https://user:hunter2@docs.test/mcp",
        "https://docs.test/mcp#tools",
        "https://docs.test:22/mcp",
        "not a url",
    ] {
        let failure = target(&vault(), http(url)).unwrap().expect_err(url);
        assert_eq!(failure.code, FailureCode::BadUrl, "{url}");
        assert!(!failure.sentence.contains("hunter2"), "{failure}");
    }
}

#[test]
fn what_belongs_to_another_transport_is_refused_by_name() {
    let url = "https://docs.test/mcp";
    assert_eq!(field(http("")), "url");
    let cases = [
        (
            Draft {
                command: "ls".to_owned(),
                ..http(url)
            },
            "command",
        ),
        (
            Draft {
                arguments: vec!["-l".to_owned()],
                ..http(url)
            },
            "arguments",
        ),
        (
            Draft {
                environment: pairs(&[("A", "b")]),
                ..http(url)
            },
            "environment",
        ),
        (
            Draft {
                working_directory: "/tmp".to_owned(),
                ..http(url)
            },
            "working_directory",
        ),
        (
            Draft {
                url: url.to_owned(),
                ..command("ls")
            },
            "url",
        ),
        (
            Draft {
                headers: pairs(&[("a", "b")]),
                ..command("ls")
            },
            "headers",
        ),
        (
            Draft {
                name: "---".to_owned(),
                ..http(url)
            },
            "name",
        ),
    ];
    for (draft, expected) in cases {
        assert_eq!(field(draft), expected);
    }
}

#[test]
fn a_header_cannot_smuggle_another_or_one_of_the_protocol() {
    let many: Vec<(String, String)> = (0..33).map(|n| (format!("x-{n}"), String::new())).collect();
    let cases = [
        pairs(&[("authorization", "Bearer hunter2\r\nhost: other")]),
        pairs(&[("a\r\nb", "c")]),
        pairs(&[("", "c")]),
        pairs(&[("Host", "other.test")]),
        pairs(&[("Mcp-Session-Id", "1")]),
        pairs(&[("Mcp-Param-Path", "1")]),
        pairs(&[("Transfer-Encoding", "chunked")]),
        pairs(&[("x-a", "1"), ("X-A", "2")]),
        vec![("x-long".to_owned(), "a".repeat(HEADER_BYTES + 1))],
        many,
    ];
    for headers in cases {
        let draft = Draft {
            headers,
            ..http("https://docs.test/mcp")
        };
        let error = target(&vault(), draft).expect_err("it is refused");
        assert_eq!(error.field(), Some("headers"));
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn secrets_that_are_too_long_together_are_refused() {
    let headers = (0..16)
        .map(|n| (format!("x-{n}"), "a".repeat(HEADER_BYTES)))
        .collect();
    let draft = Draft {
        headers,
        ..http("https://docs.test/mcp")
    };
    assert_eq!(field(draft), "headers");
}

#[test]
fn a_command_cannot_be_turned_into_another_by_its_environment() {
    for name in [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "A=B",
        "",
        "1A",
        "A\0",
    ] {
        let draft = Draft {
            environment: pairs(&[(name, "/tmp/x.so")]),
            ..command("ls")
        };
        assert_eq!(field(draft), "environment", "{name:?}");
    }
    let nul = Draft {
        environment: pairs(&[("A", "b\0c")]),
        ..command("ls")
    };
    assert_eq!(field(nul), "environment");
}

#[test]
fn a_command_is_bounded_and_its_folder_absolute() {
    assert_eq!(field(command(" ")), "command");
    assert_eq!(field(command("a\0b")), "command");
    assert_eq!(field(command(&"a".repeat(5_000))), "command");
    let arguments = vec![String::new(); 129];
    assert_eq!(
        field(Draft {
            arguments,
            ..command("ls")
        }),
        "arguments"
    );
    for folder in ["relative", "../up", "/a\0b"] {
        let draft = Draft {
            working_directory: folder.to_owned(),
            ..command("ls")
        };
        assert_eq!(field(draft), "working_directory");
    }
    let fine = Draft {
        name: "My Time".to_owned(),
        environment: pairs(&[("TZ", "UTC"), ("PATH", "/bin")]),
        working_directory: "/tmp".to_owned(),
        ..command("mcp-server-time")
    };
    let fine = target(&vault(), fine).unwrap().unwrap();
    assert_eq!(
        (fine.name.as_str(), fine.slug.as_str()),
        ("My Time", "my-time")
    );
}
