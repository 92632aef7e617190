//! Twenty servers at once: what is wrong with one costs its own Tools, and is named.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::{
    mcp::{Eras, Fault, HttpFault, Manner, Script, ScriptedMcp, Speaks},
    port::HeldPort,
    provider::Step,
};

use crate::{
    scenarios::in_both_shapes,
    village::{Options, Shape, Village, chunks},
};

in_both_shapes!(twenty_servers_of_which_one_refuses_one_hangs_and_one_is_huge);

async fn start(faults: impl IntoIterator<Item = Fault>) -> ScriptedMcp {
    let script = Script::with(Eras::Modern, faults);
    ScriptedMcp::start(script, Speaks::Http(Manner::Json)).await
}

/// A server with one Tool that no other has.
async fn small(number: usize) -> ScriptedMcp {
    let tool = json!({"name": format!("only_{number}"), "inputSchema": {"type": "object"}});
    start([Fault::ListIs(json!({"tools": [tool]}))]).await
}

async fn add(village: &Village, name: &str, url: &str) {
    let body = json!({"name": name, "transport": "http", "url": url});
    let added = village.request(Method::POST, "/v1/mcp-servers").json(&body);
    let added = added.send().await.unwrap();
    assert_eq!(added.status(), 201, "{}", added.text().await.unwrap());
    village.cli_json(&["grant", "add", "keeper", &format!("mcp:{name}")]);
}

async fn twenty_servers_of_which_one_refuses_one_hangs_and_one_is_huge(shape: Shape) {
    let allow = r#"["127.0.0.0/8"]"#.to_owned();
    let options = Options {
        settings: vec![("AGENTSVILLE__OUTBOUND__ALLOW", allow)],
    };
    let village = Village::start_with(shape, options).await;
    village.npc("keeper", "openai/scripted");
    let mut fine = Vec::new();
    for number in 0..17 {
        let server = small(number).await;
        add(&village, &format!("Fine {number}"), &server.url()).await;
        fine.push(server);
    }
    let huge = start([Fault::ManyTools(2_000)]).await;
    add(&village, "Huge", &huge.url()).await;
    let nobody = HeldPort::new();
    add(
        &village,
        "Away",
        &format!("http://{}/mcp", nobody.on_loopback()),
    )
    .await;
    let hanging = start([Fault::Http(HttpFault::NeverAnswers)]).await;
    add(&village, "Hanging", &hanging.url()).await;

    for turn in ["cold", "warm"] {
        village.chat_completions.script([
            Step::new().call("fine-3__only_3", &json!({})),
            Step::new().text("Done."),
        ]);
        let response = village.start_chat("keeper", turn, turn, "Go on.").await;
        let told = chunks(&response.text().await.unwrap());
        let request = &village.chat_completions.requests()[..];
        let request = &request[request.len() - 2];

        let tools = request.tools();
        for number in 0..17 {
            let name = format!("fine-{number}__only_{number}");
            assert!(tools.contains(&name.as_str()), "{turn}: {tools:?}");
        }
        let of_huge = tools.iter().filter(|name| name.starts_with("huge__"));
        assert_eq!(of_huge.count(), 64);
        assert!(
            !tools
                .iter()
                .any(|name| name.starts_with("away__") || name.starts_with("hanging__"))
        );

        // The model and the Player are told which are missing, and of how many.
        let system = request.system();
        let (_, unavailable) = system.split_once("Unavailable tools").unwrap();
        for what in ["mcp:Away", "mcp:Hanging", "mcp:Huge"] {
            assert!(unavailable.contains(what), "{turn}: {unavailable}");
        }
        let told = Value::from(told).to_string();
        assert!(
            told.contains("mcp:Away") && told.contains("mcp:Hanging"),
            "{told}"
        );
    }
    let listed = village.cli_json(&["npc", "tools", "keeper"]);
    let unavailable = listed["unavailable"].as_array().unwrap();
    for what in ["mcp:Away", "mcp:Hanging"] {
        let of = unavailable.iter().find(|row| row["what"] == what);
        let of = of.unwrap_or_else(|| panic!("{what}: {unavailable:#?}"));
        let sentence = of["reason"].as_str().unwrap();
        assert!(!sentence.is_empty(), "{listed:#}");
    }
    // What was fresh was not asked for again.
    for server in &fine {
        assert!(server.script().count("tools/list") <= 2);
    }
    village.finish().await;
}
