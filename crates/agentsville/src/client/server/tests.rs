use runtime::Sources;

use super::*;

fn server(text: &str) -> Server {
    Server::parse(text).unwrap()
}

#[test]
fn a_name_never_leaves_its_place_in_the_path() {
    let village = server("http://127.0.0.1:8080");
    let url = |segment| village.url(&["npcs", segment], &[]).unwrap().to_string();
    assert_eq!(
        url("Old Keeper"),
        "http://127.0.0.1:8080/v1/npcs/Old%20Keeper"
    );
    assert_eq!(
        url("../players"),
        "http://127.0.0.1:8080/v1/npcs/..%2Fplayers"
    );
    assert_eq!(url("a?b#c"), "http://127.0.0.1:8080/v1/npcs/a%3Fb%23c");
    for unusable in ["", ".", ".."] {
        assert!(village.url(&["npcs", unusable], &[]).is_err());
    }
}

#[test]
fn a_village_may_stand_under_a_path() {
    let url = server("https://host/village/")
        .url(&["me"], &[("a b", "c&d")])
        .unwrap();
    assert_eq!(url.as_str(), "https://host/village/v1/me?a+b=c%26d");
}

#[test]
fn the_operators_token_is_only_for_this_machine() {
    for (text, here) in [
        ("http://127.0.0.1:8080", true),
        ("http://127.9.9.9", true),
        ("http://[::1]:8080", true),
        ("http://localhost:8080", true),
        ("http://LOCALHOST", true),
        ("http://localhost.evil.example", false),
        ("http://127.0.0.1.evil.example", false),
        ("http://0.0.0.0:8080", false),
        ("http://10.0.0.1", false),
        ("https://village.example", false),
    ] {
        assert_eq!(server(text).is_loopback(), here, "{text}");
    }
    let refused = token(&server("https://village.example"), None, || {
        unreachable!("the settings are not even looked at")
    });
    assert!(matches!(refused, Err(Failure::Failed(problem))
        if problem.code == ErrorCode::Unauthenticated && problem.detail.contains("AGENTSVILLE_TOKEN")));
}

#[test]
fn a_server_that_is_none_is_wrong_usage() {
    for text in [
        "",
        "127.0.0.1:8080",
        "ftp://x",
        "http://u:p@x",
        "http://127.0.0.1@evil.example",
        "http://x?y",
    ] {
        assert!(
            matches!(Server::parse(text), Err(Failure::Usage(_))),
            "{text}"
        );
    }
}

#[test]
fn a_token_is_read_from_the_environment_first_then_from_the_settings_then_from_the_file() {
    let here = server("http://127.0.0.1:1");
    let directory = tempfile::tempdir().unwrap();
    let settings = |operator_token: &str| {
        let data_dir = directory.path().display().to_string();
        Settings::load(Sources {
            file: None,
            environment: vec![
                ("AGENTSVILLE__DATA_DIR".to_owned(), data_dir),
                (
                    "AGENTSVILLE__OPERATOR_TOKEN".to_owned(),
                    operator_token.to_owned(),
                ),
            ],
        })
        .map_err(Failure::precondition)
    };
    assert!(token(&here, None, || settings("")).is_err());
    std::fs::write(directory.path().join("operator.token"), "from-file\n").unwrap();
    for (given, set, found) in [
        (Some(" "), "", "from-file"),
        (None, "from-settings", "from-settings"),
        (Some("given"), "from-settings", "given"),
    ] {
        assert_eq!(
            token(&here, given, || settings(set)).unwrap().text.expose(),
            found
        );
    }
}
