use std::{collections::BTreeMap, fs, path::PathBuf};

use kernel::Secret;
use serde::Deserialize;

use super::*;
use crate::{
    admin::AdminSettings, host::GrpcSettings, process::KeysSettings, telemetry::TelemetrySettings,
    tls::TlsSettings,
};

fn load(environment: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    load_with(None, environment)
}

fn load_with(
    file: Option<PathBuf>,
    environment: &[(&str, &str)],
) -> Result<Settings, SettingsError> {
    Settings::load(Sources {
        file,
        environment: environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
    })
}

fn refusal(environment: &[(&str, &str)]) -> String {
    load(environment).unwrap_err().to_string()
}

struct File {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn file(text: &str) -> File {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("village.toml");
    fs::write(&path, text).unwrap();
    File {
        _directory: directory,
        path,
    }
}

fn file_refusal(text: &str) -> String {
    let file = file(text);
    let sentence = load_with(Some(file.path.clone()), &[])
        .unwrap_err()
        .to_string();
    sentence.replace(&file.path.display().to_string(), "village.toml")
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Provider {
    wire: String,
    base_url: String,
    key: String,
}

fn providers(settings: &Settings) -> BTreeMap<String, Provider> {
    settings.section("providers").unwrap()
}

#[test]
fn the_defaults_fit_the_sections_that_every_process_reads() {
    let settings = load(&[]).unwrap();
    let grpc: GrpcSettings = settings.section("grpc").unwrap();
    assert_eq!(grpc.listen, "127.0.0.1:7070");
    settings.section::<AdminSettings>("admin").unwrap();
    settings.section::<KeysSettings>("keys").unwrap();
    assert_eq!(
        settings.section::<TelemetrySettings>("telemetry").unwrap(),
        TelemetrySettings::default()
    );
    assert_eq!(
        settings.section::<TlsSettings>("tls").unwrap(),
        TlsSettings::default()
    );
    assert_eq!(settings.value::<u32>("replicas").unwrap(), 1);
}

#[test]
fn every_default_has_a_comment() {
    let mut before = "";
    for line in DEFAULTS.lines() {
        let is_setting = !line.starts_with('#') && line.contains(" = ");
        // A block of settings of one kind shares the comment above its table.
        let covered = before.starts_with('#') || before.starts_with('[') || before.contains(" = ");
        assert!(!is_setting || covered, "{line}");
        before = line;
    }
}

#[test]
fn the_environment_lies_over_the_file_and_the_file_over_the_defaults() {
    let file = file("[turn]\nsteps = 7\ncalls_per_step = 3\n");
    let settings = load_with(Some(file.path), &[("AGENTSVILLE__TURN__STEPS", "9")]).unwrap();
    assert_eq!(settings.value::<u32>("turn.steps").unwrap(), 9);
    assert_eq!(settings.value::<u32>("turn.calls_per_step").unwrap(), 3);
    assert_eq!(settings.value::<u32>("turn.delegation_depth").unwrap(), 2);
}

#[test]
fn well_known_names_work_and_give_way_to_our_own() {
    let settings = load(&[
        ("DATABASE_URL", "postgres://a"),
        ("REDIS_URL", "redis://b"),
        ("BETTER_AUTH_SECRET", "s3"),
        ("OPENAI_API_KEY", "k1"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1"),
        ("ANTHROPIC_API_KEY", "k2"),
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:2"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317"),
        ("DOCKER_HOST", "unix:///d.sock"),
        ("AGENTSVILLE__REDIS__URL", "redis://c"),
        ("PATH", "/bin"),
    ])
    .unwrap();
    for (path, value) in [
        ("database.url", "postgres://a"),
        ("redis.url", "redis://c"),
        ("secret", "s3"),
        ("providers.openai.key", "k1"),
        ("providers.openai.base_url", "http://127.0.0.1:1/v1"),
        ("providers.anthropic.key", "k2"),
        ("providers.anthropic.base_url", "http://127.0.0.1:2"),
        ("telemetry.otlp_endpoint", "http://127.0.0.1:4317"),
        ("sandbox.docker_host", "unix:///d.sock"),
    ] {
        assert_eq!(settings.value::<String>(path).unwrap(), value, "{path}");
    }
}

#[test]
fn values_are_read_by_the_type_of_their_default() {
    let settings = load(&[
        (
            "AGENTSVILLE__EDGE__ALLOWED_HOSTS",
            r#"["a.example", "b.example"]"#,
        ),
        (
            "AGENTSVILLE__OUTBOUND__ALLOW",
            r#"[{ to = "10.0.0.0/8", for = ["mcp"] }]"#,
        ),
        ("AGENTSVILLE__GRPC__REFLECTION", "false"),
        ("AGENTSVILLE__SANDBOX__CPUS", "2"),
        ("AGENTSVILLE__TURN__DEFAULT_MODEL", "12"),
    ])
    .unwrap();
    assert_eq!(
        settings.value::<Vec<String>>("edge.allowed_hosts").unwrap(),
        ["a.example", "b.example"]
    );
    assert_eq!(
        settings
            .value::<Vec<BTreeMap<String, serde_json::Value>>>("outbound.allow")
            .unwrap()
            .len(),
        1
    );
    assert!(!settings.value::<bool>("grpc.reflection").unwrap());
    assert_eq!(
        settings.value::<f32>("sandbox.cpus").unwrap().to_string(),
        "2"
    );
    assert_eq!(
        settings.value::<String>("turn.default_model").unwrap(),
        "12"
    );
}

#[test]
fn a_value_of_the_wrong_type_is_a_sentence_with_the_variable() {
    assert_eq!(
        refusal(&[("AGENTSVILLE__TURN__STEPS", "twelve")]),
        "AGENTSVILLE__TURN__STEPS must be a whole number, and is something else"
    );
    assert_eq!(
        refusal(&[("AGENTSVILLE__EDGE__ALLOWED_HOSTS", "a.example")]),
        r#"AGENTSVILLE__EDGE__ALLOWED_HOSTS must be a TOML array such as ["a", "b"], and is something else"#
    );
    // What follows the list is not smuggled in as another key.
    assert!(
        refusal(&[("AGENTSVILLE__EDGE__ALLOWED_HOSTS", "[]\nsecret = 1")])
            .contains("must be a TOML array")
    );
    assert!(refusal(&[("AGENTSVILLE__GRPC__REFLECTION", "yes")]).contains("true or false"));
    assert_eq!(
        refusal(&[("AGENTSVILLE__EDGE", "x")]),
        "AGENTSVILLE__EDGE must be followed by two underscores and a key of that section, and is something else"
    );
    assert_eq!(
        file_refusal("[turn]\nsteps = \"twelve\""),
        "turn.steps must be a whole number, and is a text"
    );
    assert_eq!(
        file_refusal("edge = 1"),
        "edge must be a section, and is a whole number"
    );
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest() {
    assert_eq!(
        refusal(&[("AGENTSVILLE__EDGE__LISTN", "x")]),
        "the environment has an unknown setting AGENTSVILLE__EDGE__LISTN; did you mean AGENTSVILLE__EDGE__LISTEN?; every setting stands in deploy/config.default.toml"
    );
    assert_eq!(
        file_refusal("[edge]\nlistn = \"x\""),
        "village.toml has an unknown setting edge.listn; did you mean edge.listen?; every setting stands in deploy/config.default.toml"
    );
    assert!(
        file_refusal("[providers.local]\nbaseurl = \"x\"")
            .contains("unknown setting providers.local.baseurl; did you mean providers.")
    );
    assert!(refusal(&[("AGENTSVILLE__", "x")]).contains("unknown setting"));
    assert!(refusal(&[("AGENTSVILLE____EDGE", "x")]).contains("unknown setting"));
}

#[test]
fn every_setting_of_a_provider_that_the_documents_name_can_be_set() {
    let fields = [
        "max_output_tokens",
        "thinking_tokens",
        "connect_timeout_ms",
        "first_byte_timeout_ms",
        "idle_timeout_ms",
        "retries",
    ];
    for name in ["openai", "local"] {
        for field in fields {
            let variable = format!(
                "AGENTSVILLE__PROVIDERS__{}__{}",
                name.to_ascii_uppercase(),
                field.to_ascii_uppercase()
            );
            let settings = load(&[(&variable, "3")]).unwrap();
            let value: i64 = settings
                .value(&format!("providers.{name}.{field}"))
                .unwrap();
            assert_eq!(value, 3, "{variable}");
        }
    }
    let plain = load(&[("AGENTSVILLE__PROVIDERS__LOCAL__CALL_IDS", "plain")]).unwrap();
    let value: String = plain.value("providers.local.call_ids").unwrap();
    assert_eq!(value, "plain");
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let settings = load(&[
        ("DATABASE_URL", ""),
        ("AGENTSVILLE__TURN__STEPS", ""),
        ("AGENTSVILLE__NO__SUCH", ""),
        ("BETTER_AUTH_SECRET_FILE", ""),
    ])
    .unwrap();
    assert_eq!(settings.value::<u32>("turn.steps").unwrap(), 12);
    assert_eq!(settings.value::<String>("database.url").unwrap(), "");
}

#[test]
fn secrets_are_read_from_files() {
    let secret = file("from a file\n");
    let path = secret.path.display().to_string();
    let settings = load(&[
        ("BETTER_AUTH_SECRET_FILE", &path),
        ("AGENTSVILLE__PROVIDERS__OPENAI__KEY_FILE", &path),
        ("AGENTSVILLE__KEYS__PRIVATE_FILE", &path),
    ])
    .unwrap();
    for key in ["secret", "providers.openai.key", "keys.private"] {
        let secret: Secret = settings.value(key).unwrap();
        assert_eq!(secret.expose(), "from a file", "{key}");
    }
    assert_eq!(
        refusal(&[
            ("BETTER_AUTH_SECRET", "x"),
            ("BETTER_AUTH_SECRET_FILE", &path)
        ]),
        "BETTER_AUTH_SECRET and BETTER_AUTH_SECRET_FILE are both set; keep one of them"
    );
    assert!(
        refusal(&[("DATABASE_URL_FILE", "/nonexistent/url")])
            .starts_with("cannot read the file that DATABASE_URL_FILE names, /nonexistent/url:")
    );
    // Only secrets have such a variant, and a setting may end in _FILE of itself.
    assert!(refusal(&[("AGENTSVILLE__EDGE__LISTEN_FILE", &path)]).contains("unknown setting"));
    let settings = load(&[("AGENTSVILLE__OUTBOUND__CA_FILE", "/ca.pem")]).unwrap();
    assert_eq!(
        settings.value::<String>("outbound.ca_file").unwrap(),
        "/ca.pem"
    );
}

#[test]
fn an_endless_file_is_not_read() {
    let refused = refusal(&[("BETTER_AUTH_SECRET_FILE", "/dev/zero")]);
    assert!(refused.contains("larger than"), "{refused}");
}

#[test]
fn providers_and_issuers_can_be_added() {
    let file = file("[providers.my_llm]\nwire = \"anthropic\"\nbase_url = \"http://a\"\n");
    let settings = load_with(
        Some(file.path),
        &[
            ("AGENTSVILLE__PROVIDERS__MY_LLM__KEY", "k"),
            (
                "AGENTSVILLE__PROVIDERS__OPENAI_RESPONSES__BASE_URL",
                "http://b",
            ),
            ("AGENTSVILLE__KEYS__TRUST__API_GATEWAY__PUBLIC_KEY", "p"),
            (
                "AGENTSVILLE__KEYS__TRUST__API_GATEWAY__MINTS",
                r#"["player"]"#,
            ),
        ],
    )
    .unwrap();
    let keys: KeysSettings = settings.section("keys").unwrap();
    assert_eq!(keys.trust["api-gateway"].public_key, "p");
    assert_eq!(
        keys.trust["api-gateway"].mints,
        [kernel::CallerKind::Player]
    );
    assert_eq!(
        settings
            .value::<BTreeMap<String, String>>("providers.openai-responses")
            .unwrap(),
        BTreeMap::from([("base_url".to_owned(), "http://b".to_owned())])
    );
    assert_eq!(
        settings.value::<Provider>("providers.my_llm").unwrap(),
        Provider {
            wire: "anthropic".to_owned(),
            base_url: "http://a".to_owned(),
            key: "k".to_owned()
        }
    );
    assert!(providers(&load(&[]).unwrap()).contains_key("anthropic"));
}

#[test]
fn a_name_that_would_read_as_a_path_is_refused() {
    for name in ["a.b", "a/b", "", "A", "a b", "ä"] {
        let sentence = file_refusal(&format!("[providers.\"{name}\"]\nkey = \"hunter2\""));
        assert!(
            sentence.starts_with(&format!("{name:?} in providers is no name; ")),
            "{sentence}"
        );
    }
    assert!(refusal(&[("AGENTSVILLE__PROVIDERS__A.B__KEY", "x")]).contains("unknown setting"));
    assert!(refusal(&[("AGENTSVILLE__PROVIDERS__A/B__KEY", "x")]).contains("is no name"));
}

#[test]
fn a_section_that_does_not_fit_its_reader_names_section_and_key() {
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Redis {
        #[expect(dead_code, reason = "only its name counts")]
        urls: Option<String>,
    }
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Fetch {
        #[expect(dead_code, reason = "only its type counts")]
        deadline_seconds: u8,
        #[expect(dead_code, reason = "only its name counts")]
        max_hop: u8,
    }
    let settings = load(&[("AGENTSVILLE__FETCH__DEADLINE_SECONDS", "-1")]).unwrap();
    let sentence = settings.section::<Fetch>("fetch").unwrap_err().to_string();
    assert!(sentence.starts_with("the setting fetch."), "{sentence}");
    let sentence = settings
        .value::<u8>("fetch.deadline_seconds")
        .unwrap_err()
        .to_string();
    assert!(
        sentence.starts_with("the setting fetch.deadline_seconds cannot be used"),
        "{sentence}"
    );
    assert_eq!(
        settings.section::<Redis>("redis").unwrap_err().to_string(),
        "the setting redis.url cannot be used: its reader knows no url, the nearest is urls"
    );
}

#[test]
fn no_error_repeats_a_secret() {
    let wrong = file("[database]\nurl = { password = \"hunter2\" }\n[redis\nurl = \"hunter2\"");
    for sentence in [
        load_with(Some(wrong.path), &[]).unwrap_err().to_string(),
        file_refusal("[providers.openai]\nkey = [\"hunter2\"]"),
        refusal(&[("AGENTSVILLE__REPLICAS", "hunter2")]),
        load(&[("DATABASE_URL", "hunter2")])
            .unwrap()
            .value::<u64>("database.url")
            .unwrap_err()
            .to_string(),
    ] {
        assert!(!sentence.contains("hunter2"), "{sentence}");
    }
}

#[test]
fn what_is_shown_of_all_settings_masks_secrets_and_passwords_in_urls() {
    let settings = load(&[
        ("DATABASE_URL", "postgres://u:hunter2@h/d"),
        ("BETTER_AUTH_SECRET", "hunter2"),
        ("OPENAI_API_KEY", "hunter2"),
        ("AGENTSVILLE__PROVIDERS__LOCAL__KEY", "hunter2"),
        ("OPENAI_BASE_URL", "https://me:hunter2@proxy/v1?key=hunter2"),
        ("AGENTSVILLE__KEYS__PRIVATE", "hunter2"),
    ])
    .unwrap();
    let shown = settings.effective_toml().unwrap();
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(
        shown.contains("base_url = \"https://(set)@proxy/v1?(set)\""),
        "{shown}"
    );
    assert!(shown.contains("operator_token = \"\""), "{shown}");
    assert!(!format!("{settings:?}").contains("hunter2"));
    // It is a settings file again.
    let again = file(&shown);
    load_with(Some(again.path), &[]).unwrap();
}

#[test]
fn the_data_directory_follows_the_xdg_specification() {
    let data_dir = |environment: &[(&str, &str)]| load(environment).unwrap().data_dir();
    assert_eq!(
        data_dir(&[("HOME", "/home/a")]).unwrap(),
        PathBuf::from("/home/a/.local/share/agentsville")
    );
    assert_eq!(
        data_dir(&[("HOME", "/home/a"), ("XDG_DATA_HOME", "/data")]).unwrap(),
        PathBuf::from("/data/agentsville")
    );
    assert_eq!(
        data_dir(&[("HOME", "/home/a"), ("XDG_DATA_HOME", "relative")]).unwrap(),
        PathBuf::from("/home/a/.local/share/agentsville")
    );
    assert_eq!(
        data_dir(&[("AGENTSVILLE__DATA_DIR", "/srv/village")]).unwrap(),
        PathBuf::from("/srv/village")
    );
    assert!(data_dir(&[]).is_err());
}

#[test]
fn bytes_that_are_no_text_are_never_taken_for_a_secret() {
    let lossy = String::from_utf8_lossy(&[b'k', 0xFF, 0xFE, b'k']).into_owned();
    for name in ["BETTER_AUTH_SECRET", "AGENTSVILLE__PROVIDERS__MY_LLM__KEY"] {
        assert_eq!(
            refusal(&[(name, &lossy)]),
            format!("{name} must be text in UTF-8, and is something else")
        );
    }
}

#[test]
fn a_variable_that_lacks_an_underscore_is_not_passed_over_in_silence() {
    for name in [
        "AGENTSVILLE_EDGE_LISTEN",
        "AGENTSVILLE_EDGE__LISTEN",
        "agentsville__edge__listen",
    ] {
        assert_eq!(
            refusal(&[(name, "127.0.0.1:1")]),
            format!(
                "the environment has an unknown setting {name}; did you mean AGENTSVILLE__EDGE__LISTEN?; every setting stands in deploy/config.default.toml"
            )
        );
    }
    // Others have names that begin so too: the command line's token, and what Kubernetes says of services.
    for name in ["AGENTSVILLE_TOKEN", "AGENTSVILLE_EDGE_SERVICE_HOST"] {
        load(&[(name, "x")]).unwrap();
    }
}

#[test]
fn a_number_that_does_not_fit_is_refused_in_words() {
    let settings = load(&[("AGENTSVILLE__TURN__STEPS", "-1")]).unwrap();
    assert_eq!(
        settings.value::<u32>("turn.steps").unwrap_err().to_string(),
        "the setting turn.steps cannot be used: it must be a whole number, neither negative nor too large"
    );
}
