//! What needs no Village.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::support::Person;

#[test]
fn an_unknown_command_is_wrong_usage_and_names_the_nearest() {
    let person = Person::new();
    for (line, nearest) in [
        (vec!["npcs", "list"], "npc"),
        (vec!["npc", "lst"], "list"),
        (vec!["chatt", "Keeper", "hi"], "chat"),
        (vec!["npc", "create", "K", "--mode", "x"], "--model"),
    ] {
        let run = person.run(&line);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{line:?}");
        assert!(run.err.contains(nearest), "{line:?}: {}", run.err);
    }
}

#[test]
fn a_demo_of_no_model_is_wrong_usage() {
    let run = Person::new().run(&["demo", "--model", ""]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
}

#[test]
fn wrong_usage_is_problem_json_where_json_is_asked_for() {
    let run = Person::new().run(&["npcs", "--json"]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
    let problem = run.problem();
    assert_eq!(problem["code"], "invalid_argument");
    assert!(
        problem["detail"].as_str().unwrap().contains("'npc'"),
        "{problem}"
    );
}

#[test]
fn help_and_version_are_no_errors() {
    let person = Person::new();
    for flag in ["--help", "--version"] {
        let run = person.run(&[flag]).ok();
        assert!(
            run.out.contains("agentsville") || run.out.contains("AgentsVille"),
            "{run:?}"
        );
    }
    assert!(
        person
            .run(&["grant", "add", "--help"])
            .ok()
            .out
            .contains("family:memory")
    );
}

#[test]
fn a_slip_in_what_to_grant_is_answered_before_anything_is_asked() {
    let person = Person::new();
    let run = person.run(&["grant", "add", "Keeper", "tool:curent_time", "--json"]);
    assert_eq!(run.code, Some(1));
    let problem = run.problem();
    assert_eq!(problem["field"], "what");
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("did you mean current_time?")
    );
    assert_eq!(
        person.run(&["grant", "add", "Keeper", "current_time"]).code,
        Some(2)
    );
}

#[test]
fn without_a_village_the_sentence_says_how_to_start_one() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind(("127.0.0.1", 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let run = Person::new().with("AGENTSVILLE_TOKEN", "t").run(&[
        "npc",
        "list",
        "--json",
        "--server",
        &format!("http://127.0.0.1:{port}"),
    ]);
    assert_eq!(run.code, Some(1));
    let problem = run.problem();
    assert_eq!(problem["code"], "unavailable");
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("Start it with `agentsville`")
    );
}

#[test]
fn without_a_token_the_sentence_says_where_it_was_looked_for() {
    let person = Person::new();
    let run = person.run(&["npc", "list"]);
    assert_eq!(run.code, Some(1));
    let file = person.data_dir().join("operator.token");
    assert!(run.err.contains(&file.display().to_string()), "{run:?}");
    let run = person.run(&["npc", "list", "--server", "https://village.example"]);
    assert!(run.err.contains("set AGENTSVILLE_TOKEN"), "{run:?}");
}

#[test]
fn the_openapi_document_is_json_on_one_line_or_many() {
    let person = Person::new();
    let document = person.run(&["openapi", "--json"]).ok().json();
    assert!(
        document["paths"]["/v1/chat"]["post"].is_object(),
        "{document}"
    );
    assert!(person.run(&["openapi"]).ok().out.lines().count() > 1);
}

#[test]
fn the_settings_in_effect_are_printed_without_their_secrets() {
    let person = Person::new()
        .with("OPENAI_API_KEY", "sk-very-secret")
        .with("AGENTSVILLE__TURN__STEPS", "7");
    for arguments in [vec!["check-config"], vec!["check-config", "--json"]] {
        let run = person.run(&arguments).ok();
        assert!(!run.out.contains("sk-very-secret"), "{run:?}");
    }
    assert_eq!(
        person.run(&["check-config", "--json"]).json()["turn"]["steps"],
        7
    );
}

#[test]
fn a_wrong_setting_is_a_sentence_that_names_it() {
    for (name, value, said) in [
        ("AGENTSVILLE__EDGE__LISTN", "x", "did you mean"),
        ("AGENTSVILLE__TURN__STEPS", "9000", "turn.steps"),
        ("AGENTSVILLE__REPLICAS", "2", "replicas is 2"),
        ("AGENTSVILLE__EDGE__LISTEN", "0.0.0.0:8080", "keys.private"),
        (
            "AGENTSVILLE__OUTBOUND__ALLOW",
            "['not a host/']",
            "outbound.allow",
        ),
        ("BETTER_AUTH_SECRET", "short", "at least 32"),
        ("AGENTSVILLE__OPERATOR_TOKEN", "short", "at least 32"),
        ("DATABASE_URL", "mysql://host/village", "DATABASE_URL"),
        ("REDIS_URL", "http://host", "REDIS_URL"),
        ("AGENTSVILLE__GRPC__LISTEN", "0.0.0.0:7070", "keys.private"),
        (
            "AGENTSVILLE__EGRESS__LISTEN",
            "0.0.0.0:3128",
            "keys.private",
        ),
        ("AGENTSVILLE__EGRESS__LISTEN", "here", "egress.listen"),
        (
            "AGENTSVILLE__EDGE__CORS_ORIGINS",
            "['nope']",
            "edge.cors_origins",
        ),
        (
            "AGENTSVILLE__TURN__DEFAULT_MODEL",
            "opnai/x",
            "did you mean \"openai\"?",
        ),
        ("AGENTSVILLE__PEERS__TOOL_REGISTRY", "registry", "registry"),
        (
            "AGENTSVILLE__KEYS__PRIVATE",
            "no key",
            "`agentsville keys` prints one",
        ),
        ("AGENTSVILLE__TLS__CERTIFICATE", "/nope", "tls.key"),
        ("AGENTSVILLE__TELEMETRY__LOG", "loud=very", "telemetry.log"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector", "otlp_endpoint"),
        (
            "AGENTSVILLE__OUTBOUND__CA_FILE",
            "/nope",
            "outbound.ca_file",
        ),
        ("AGENTSVILLE__PROVIDERS__OPENAI__RETRIES", "9", "retries"),
    ] {
        let run = Person::new().with(name, value).run(&["check-config"]);
        assert_eq!(
            (run.code, run.out.as_str()),
            (Some(1), ""),
            "{name}: {run:?}"
        );
        assert!(run.err.contains(said), "{name}: {run:?}");
    }
}

#[test]
fn keys_are_new_each_time_and_make_settings_that_load() {
    let person = Person::new();
    let (first, second) = (person.run(&["keys"]).ok(), person.run(&["keys"]).ok());
    assert_ne!(first.out, second.out);
    let registry = first
        .out
        .split("# ---- ")
        .find(|section| section.starts_with("tool-registry.toml"))
        .and_then(|section| section.split_once('\n'))
        .map(|(_, toml)| toml)
        .unwrap();
    assert!(registry.contains("[keys.trust.edge]"), "{registry}");
    let file = person.home().join("tool-registry.toml");
    fs::write(&file, registry).unwrap();
    let run = person
        .run(&["check-config", "--config", file.to_str().unwrap()])
        .ok();
    let private = registry
        .lines()
        .find(|line| line.starts_with("private"))
        .unwrap();
    assert!(!run.out.contains(private), "{run:?}");
    let rows = person.run(&["keys", "--json"]).ok().json();
    assert_eq!(rows.as_array().unwrap().len(), 6);
    assert!(
        rows[0]["id"].is_string() && rows[0]["privateKey"].is_string(),
        "{rows}"
    );
}

#[test]
fn asking_for_the_secret_does_not_make_one() {
    let person = Person::new();
    let status = person.run(&["secrets", "status", "--json"]).ok().json();
    assert_eq!(status["set"], false);
    assert!(!person.data_dir().exists());
    let person = person.with("BETTER_AUTH_SECRET", "0123456789abcdef0123456789abcdef");
    let run = person.run(&["secrets", "status", "--json"]).ok();
    assert_eq!(run.json()["set"], true);
    assert!(run.json()["keyId"].is_string());
    assert!(!run.out.contains("0123456789abcdef"));
}

#[test]
fn migrate_makes_the_database_in_a_closed_directory_and_can_be_run_again() {
    let person = Person::new();
    for _ in 0..2 {
        let run = person.run(&["migrate", "--json"]).ok();
        assert_eq!(run.json()["database"], "SQLite");
    }
    let mode = fs::metadata(person.data_dir())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_directory_that_others_use_is_refused_and_not_closed() {
    let person = Person::new();
    let shared = person.home().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(shared.join("letter"), "dear").unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
    let person = person.with("AGENTSVILLE__DATA_DIR", shared.display().to_string());
    for command in ["migrate", "serve"] {
        let run = person.run(&[command]);
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.err.contains("cannot be the data directory"), "{run:?}");
    }
    let mode = fs::metadata(&shared).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert_eq!(fs::read_dir(&shared).unwrap().count(), 1);
}

#[test]
fn healthcheck_of_nothing_fails_in_words() {
    let run = Person::new()
        .with("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:1")
        .run(&["healthcheck"]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.err.contains("no Village answers at 127.0.0.1:1"),
        "{run:?}"
    );
}
