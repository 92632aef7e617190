//! A name that is public when a server is registered, and means an address inside later.

use serde_json::json;
use testkit::{
    dns::ScriptedDns,
    mcp::{Eras, Manner, Script, ScriptedMcp, Speaks},
    provider::Step,
};

use crate::{
    scenarios::in_both_shapes,
    village::{Options, Shape, Village},
};

in_both_shapes!(
    over_streamable_http_nothing_inside_is_connected_to,
    over_sse_nothing_inside_is_connected_to,
);

async fn over_streamable_http_nothing_inside_is_connected_to(shape: Shape) {
    is_refused(shape, "http", Speaks::Http(Manner::Json)).await;
}

async fn over_sse_nothing_inside_is_connected_to(shape: Shape) {
    is_refused(shape, "sse", Speaks::Sse).await;
}

async fn is_refused(shape: Shape, transport: &str, speaks: Speaks) {
    let dns = ScriptedDns::start().await;
    dns.host("docs.village.test", &["93.184.216.34"]);
    let options = Options {
        settings: vec![(
            "AGENTSVILLE__OUTBOUND__NAMESERVER",
            dns.address().to_string(),
        )],
    };
    let village = Village::start_with(shape, options).await;
    village.npc("keeper", "openai/scripted");
    // It would answer well, and is where the name leads soon.
    let inside = ScriptedMcp::start(Script::new(Eras::Both), speaks).await;
    let url = inside.url_of("docs.village.test");
    village.cli_json(&["mcp", "add", "Docs", transport, &url]);

    for address in ["127.0.0.1", "::1", "10.0.0.1", "169.254.169.254"] {
        dns.host("docs.village.test", &[address]);
        let tested = village.cli(&["--json", "mcp", "test", "Docs"]);
        assert_eq!(tested.status.code(), Some(1), "{tested:?}");
        let told = String::from_utf8(tested.stdout).unwrap();
        assert!(told.contains("private-address"), "{address}: {told}");
    }

    // Neither the look before a Grant nor a turn connects, and the turn names what is missing.
    dns.host("docs.village.test", &["127.0.0.1"]);
    village.cli_json(&["grant", "add", "keeper", "mcp:Docs"]);
    village.chat_completions.script([
        Step::new().call("docs__echo", &json!({})),
        Step::new().text("I could not."),
    ]);
    village.chat("keeper", "c", "Read it.").await;
    let request = &village.chat_completions.requests()[0];
    assert_eq!(request.tools(), Vec::<&str>::new());
    let (_, unavailable) = request.system().split_once("Unavailable tools").unwrap();
    assert!(unavailable.contains("mcp:Docs"), "{unavailable}");
    assert_eq!(inside.accepted(), 0);

    // What is private already is not even registered.
    let refused = village.cli(&["mcp", "add", "Again", transport, &url]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    village.finish().await;
}
