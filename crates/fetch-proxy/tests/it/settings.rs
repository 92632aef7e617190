//! What an Operator sets, and what comes of it.

use std::sync::Arc;

use fetch_proxy::{Deps, build, connector};
use kernel::SystemClock;
use outbound::{Consumer, Mode, Rule, Schemes, Target};
use runtime::{Lifecycle, Settings, Sources};

fn settings(environment: &[(&str, &str)]) -> Settings {
    Settings::load(Sources {
        file: None,
        environment: environment
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    })
    .expect("settings")
}

fn target(url: &str) -> Target {
    Target::parse(url, Schemes::HttpAndHttps)
        .expect("a target")
        .1
}

#[tokio::test]
async fn exemptions_are_read_as_an_operator_writes_them() {
    let settings = settings(&[(
        "AGENTSVILLE__OUTBOUND__ALLOW",
        r#"["10.1.0.0/16", {to = "[::1]:8443", for = ["fetch"]}]"#,
    )]);
    let connector = connector(&settings, &Lifecycle::new()).expect("a connector");
    let refused = |url: &str, consumer| {
        let judged = connector
            .guard()
            .judge_without_look_up(&target(url), consumer);
        judged.err().map(|refusal| refusal.rule)
    };
    assert_eq!(refused("https://10.1.0.1/", Consumer::Mcp), None);
    assert_eq!(
        refused("https://10.1.0.1/", Consumer::Fetch),
        Some(Rule::Private)
    );
    assert_eq!(refused("https://[::1]:8443/", Consumer::Fetch), None);
    assert_eq!(
        refused("https://[::1]:8443/", Consumer::Mcp),
        Some(Rule::Loopback)
    );
}

#[tokio::test]
async fn no_exemption_opens_a_listener_of_the_settings() {
    let settings = settings(&[
        ("AGENTSVILLE__OUTBOUND__ALLOW", r#"["127.0.0.0/8", "::/0"]"#),
        ("AGENTSVILLE__EDGE__LISTEN", "0.0.0.0:8088"),
    ]);
    let connector = connector(&settings, &Lifecycle::new()).expect("a connector");
    for url in [
        "http://127.0.0.1:8088/",
        "http://127.0.0.1:7070/",
        "http://127.0.0.1:9090/",
        "http://127.0.0.1:3128/",
        "http://[::ffff:127.0.0.1]:7070/",
    ] {
        let judged = connector
            .guard()
            .judge_without_look_up(&target(url), Consumer::Mcp);
        assert_eq!(
            judged.err().map(|refusal| refusal.rule),
            Some(Rule::OwnListener),
            "{url}"
        );
    }
}

#[tokio::test]
async fn report_mode_shows_where_readiness_does() {
    let settings = settings(&[("AGENTSVILLE__OUTBOUND__MODE", "report")]);
    let lifecycle = Lifecycle::new();
    let connector = connector(&settings, &lifecycle).expect("a connector");
    assert_eq!(connector.guard().mode(), Mode::Report);
    let deps = Deps {
        connector,
        reader: fetch_proxy::reader().expect("a reader"),
        clock: Arc::new(SystemClock),
    };
    build(
        settings.section("fetch").expect("the section"),
        deps,
        &lifecycle,
    );
    let warnings = lifecycle.readiness().state().warnings;
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains("outbound.mode")),
        "{warnings:?}"
    );
}
