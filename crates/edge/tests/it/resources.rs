//! The whole API in front of the real services: who may do what, and what comes back.

use http::Method;
use serde_json::{Value, json};
use testkit::provider::{Gate, Step};

use crate::{
    client::{chunks, kinds},
    real::{Client, RealVillage},
    village::question,
};

fn names(list: &Value, field: &str) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item[field].as_str().unwrap().to_owned())
        .collect()
}

async fn npc(owner: &Client, name: &str, private: bool) {
    let made = owner
        .post("/v1/npcs", &json!({"name": name, "private": private}))
        .await;
    assert_eq!(made.status, 201, "{}", made.body);
}

#[tokio::test]
async fn an_npc_comes_back_as_it_was_made_and_changed() {
    let village = RealVillage::start().await;
    let ada = village.player("Ada").await;
    let made = ada
        .post(
            "/v1/npcs",
            &json!({
                "name": "Old Keeper", "persona": "You keep the gate.", "model": "openai/gpt-5", "private": true,
                "fetchHosts": ["example.org"], "sandboxScope": "player", "sandboxNetwork": "list", "sandboxHosts": ["pypi.org"],
            }),
        )
        .await;
    assert_eq!(made.status, 201, "{}", made.body);
    let mut made = made.json();
    let id = made["id"].as_str().unwrap().to_owned();
    for time in ["createdAt", "updatedAt"] {
        assert!(made[time].take().as_str().unwrap().ends_with('Z'));
    }
    assert_eq!(
        made,
        json!({
            "id": id, "name": "Old Keeper", "slug": "old-keeper", "ownerId": ada.id, "persona": "You keep the gate.",
            "model": "openai/gpt-5", "private": true, "fetchHosts": ["example.org"], "sandboxScope": "player",
            "sandboxNetwork": "list", "sandboxHosts": ["pypi.org"], "createdAt": null, "updatedAt": null,
        })
    );
    let changed = ada
        .patch(
            "/v1/npcs/old-keeper",
            &json!({"fetchHosts": [], "sandboxNetwork": "off", "model": ""}),
        )
        .await
        .json();
    assert_eq!(changed["fetchHosts"], json!([]));
    assert_eq!(changed["sandboxNetwork"], "off");
    assert_eq!(changed["sandboxScope"], "player");
    assert_eq!(changed["model"], "");
    let shown = ada.get(&format!("/v1/npcs/{id}")).await.json();
    assert_eq!(shown["grants"], json!([]));
    assert_eq!(
        ada.delete("/v1/npcs/Old%20Keeper").await.json(),
        json!({"id": id})
    );
    let gone = ada.get("/v1/npcs/old-keeper").await;
    assert_eq!(gone.problem(404), "there is no NPC \"old-keeper\"");
}

#[tokio::test]
async fn wrong_fields_are_named_as_the_api_writes_them() {
    let village = RealVillage::start().await;
    let ada = village.player("Ada").await;
    for (body, field) in [
        (json!({}), None),
        (json!({"name": "---"}), Some("name")),
        (
            json!({"name": "a", "fetchHosts": ["no host!"]}),
            Some("fetchHosts"),
        ),
        (
            json!({"name": "a", "sandboxScope": "plyer"}),
            Some("sandboxScope"),
        ),
        (
            json!({"name": "a", "sandboxNetwork": "all"}),
            Some("sandboxNetwork"),
        ),
        (json!({"name": "a", "model": "opnai/gpt-5"}), Some("model")),
        (json!({"name": 3}), Some("name")),
        (json!({"name": "a", "ownerId": "x"}), Some("ownerId")),
    ] {
        let answer = ada.post("/v1/npcs", &body).await;
        answer.problem(400);
        assert_eq!(
            answer.json()["field"].as_str(),
            field,
            "{body}: {}",
            answer.body
        );
    }
    npc(&ada, "Keeper", false).await;
    let again = ada.post("/v1/npcs", &json!({"name": "keeper!"})).await;
    again.problem(409);
    assert_eq!(again.code(), "already_exists");
    for (what, hint) in [
        ("tool:curent_time", "current_time"),
        ("family:sandbx", "sandbox"),
        ("npc:Nobody", "Nobody"),
    ] {
        let answer = ada
            .post("/v1/npcs/Keeper/grants", &json!({"what": what}))
            .await;
        assert!(answer.status.is_client_error(), "{what}");
        assert!(
            answer.json()["detail"].as_str().unwrap().contains(hint),
            "{}",
            answer.body
        );
    }
}

#[tokio::test]
async fn who_may_do_what_with_an_npc() {
    let village = RealVillage::start().await;
    let operator = village.operator().await;
    let (ada, eve) = (village.player("Ada").await, village.player("Eve").await);
    village
        .provider
        .answer_with(|_request| Step::new().text("yes"));
    npc(&ada, "Open", false).await;
    npc(&ada, "Secret", true).await;
    let grant = json!({"what": "tool:current_time"});
    // Operator, owner, another Player: with an NPC that all may see, and with a private one.
    for (name, others) in [("Open", [200, 403]), ("Secret", [404, 404])] {
        let [sees, changes] = others;
        let at = |rest: &str| format!("/v1/npcs/{name}{rest}");
        for (who, sees, changes) in [
            (&operator, 200, 200),
            (&ada, 200, 200),
            (&eve, sees, changes),
        ] {
            let made = if changes == 200 { 201 } else { changes };
            let rows = [
                (who.get(&at("")).await, sees),
                (who.get(&at("/tools")).await, sees),
                (who.get(&at("/grants")).await, sees),
                (who.patch(&at(""), &json!({"persona": "p"})).await, changes),
                (who.post(&at("/grants"), &grant).await, made),
                (
                    who.delete(&at("/grants?what=tool:current_time")).await,
                    changes,
                ),
                (
                    who.post(
                        "/v1/chat",
                        &question(name, &format!("{}-{name}", who.id), "u1"),
                    )
                    .await,
                    sees,
                ),
            ];
            for (row, (answer, expected)) in rows.iter().enumerate() {
                assert_eq!(
                    answer.status, *expected,
                    "{name}, row {row}, {}: {}",
                    who.id, answer.body
                );
            }
        }
        let deleted = eve.delete(&at("")).await;
        assert_eq!(deleted.status, changes, "{}", deleted.body);
        let listed = names(&eve.get("/v1/npcs").await.json(), "name");
        assert_eq!(listed.contains(&name.to_owned()), sees == 200);
    }
    // A hidden NPC and none at all are told in the same words.
    let hidden = eve.get("/v1/npcs/Secret").await.problem(404);
    assert_eq!(
        hidden.replace("Secret", "X"),
        eve.get("/v1/npcs/X").await.problem(404)
    );
    assert_eq!(operator.delete("/v1/npcs/Secret").await.status, 200);
    assert_eq!(ada.delete("/v1/npcs/Open").await.status, 200);
}

#[tokio::test]
async fn players_and_the_audit_log_are_the_operators() {
    let village = RealVillage::start().await;
    let operator = village.operator().await;
    let (ada, bob) = (village.player("Ada").await, village.player("Bob").await);
    for answer in [
        ada.get("/v1/players").await,
        ada.post("/v1/players", &json!({"name": "Mallory"})).await,
        ada.post("/v1/players/Bob/revoke", &json!({})).await,
        ada.get("/v1/audit").await,
    ] {
        answer.problem(403);
    }
    let list = operator.get("/v1/players").await.json();
    assert_eq!(names(&list, "name")[..2], ["Bob", "Ada"]);
    assert!(!list.to_string().contains(&bob.token));
    assert_eq!(bob.get("/v1/me").await.status, 200);
    let revoked = operator
        .post("/v1/players/Bob/revoke", &json!({}))
        .await
        .json();
    assert!(revoked["revokedAt"].is_string(), "{revoked}");
    bob.get("/v1/me").await.problem(401);
    npc(&ada, "Keeper", false).await;
    let rows = operator.get("/v1/audit").await.json();
    let newest = &rows["items"][0];
    assert_eq!(newest["action"], "npc.create");
    assert_eq!(newest["actor"], format!("player:{}", ada.id));
    assert_eq!(newest["after"]["name"], "Keeper");
    assert!(newest.get("before").is_none(), "{newest}");
    assert!(!rows.to_string().contains(&ada.token));
}

#[tokio::test]
async fn lists_are_paged() {
    let village = RealVillage::start().await;
    let ada = village.player("Ada").await;
    for name in ["One", "Two", "Three"] {
        npc(&ada, name, false).await;
    }
    let first = ada.get("/v1/npcs?pageSize=2").await.json();
    assert_eq!(names(&first, "name"), ["Three", "Two"]);
    let token = first["nextPageToken"].as_str().unwrap();
    let rest = ada
        .get(&format!("/v1/npcs?pageSize=2&pageToken={token}"))
        .await
        .json();
    assert_eq!(names(&rest, "name"), ["One"]);
    assert!(rest.get("nextPageToken").is_none());
    let forged = ada.get("/v1/npcs?pageToken=forged").await;
    forged.problem(400);
    assert_eq!(forged.json()["field"], "pageToken");
    ada.get("/v1/npcs?pageSize=201").await.problem(400);
}

#[tokio::test]
async fn a_granted_tool_is_described_called_and_kept() {
    let village = RealVillage::start().await;
    let operator = village.operator().await;
    let (ada, eve) = (village.player("Ada").await, village.player("Eve").await);
    npc(&ada, "Keeper", false).await;
    let none = ada.get("/v1/npcs/Keeper/tools").await.json();
    assert_eq!(none, json!({"tools": [], "unavailable": []}));
    for what in ["tool:current_time", "family:sandbox"] {
        let granted = ada
            .post("/v1/npcs/Keeper/grants", &json!({"what": what}))
            .await;
        assert_eq!(granted.status, 201);
        assert_eq!(granted.json()["what"], what);
    }
    let tools = ada.get("/v1/npcs/Keeper/tools").await.json();
    assert_eq!(tools["tools"][0]["id"], "current_time");
    assert_eq!(tools["tools"][0]["origin"], "tool:current_time");
    assert_eq!(tools["tools"][0]["inputSchema"]["type"], "object");
    assert_eq!(tools["unavailable"][0]["what"], "family:sandbox");
    village.provider.script([
        Step::new()
            .text("Let me see. ")
            .call("current_time", &json!({})),
        Step::new().words("It is late."),
    ]);
    let stream = ada
        .post("/v1/chat", &question("Keeper", "chat1", "u1"))
        .await;
    assert_eq!(stream.status, 200, "{}", stream.body);
    let chunks = chunks(&stream.body);
    let told = kinds(&chunks);
    for kind in [
        "data-notice",
        "tool-input-available",
        "tool-output-available",
    ] {
        assert!(told.contains(&kind), "{kind}: {told:?}");
    }
    assert_eq!(told.last(), Some(&"finish"));
    let conversation = ada.get("/v1/conversations/chat1").await.json();
    assert_eq!(conversation["status"], "idle");
    assert_eq!(conversation["clientId"], "chat1");
    let messages = conversation["messages"].as_array().unwrap();
    assert_eq!(messages[0]["id"], "u1");
    assert_eq!(messages[1]["id"], chunks[0]["messageId"]);
    assert_eq!(
        ada.get("/v1/conversations").await.json()["items"][0]["id"],
        conversation["id"]
    );
    // Another Player does not know it; the Operator reads it, and that is written down.
    let id = conversation["id"].as_str().unwrap();
    let path = format!("/v1/conversations/{id}");
    eve.get(&path).await.problem(404);
    eve.delete(&path).await.problem(404);
    assert_eq!(
        eve.get("/v1/conversations").await.json()["items"],
        json!([])
    );
    assert_eq!(operator.get(&path).await.status, 200);
    let audit = operator.get("/v1/audit?pageSize=1").await.json();
    assert_eq!(audit["items"][0]["action"], "conversation.read");
    assert_eq!(ada.delete(&path).await.json(), json!({"id": id}));
    ada.get(&path).await.problem(404);
}

#[tokio::test]
async fn revoking_a_grant_can_stop_the_turns_that_run() {
    let village = RealVillage::start().await;
    let (ada, bob) = (village.player("Ada").await, village.player("Bob").await);
    npc(&ada, "Keeper", false).await;
    let grant = json!({"what": "tool:current_time"});
    ada.post("/v1/npcs/Keeper/grants", &grant).await;
    let gate = Gate::new();
    village
        .provider
        .script([Step::new().text("half a sen").gate(&gate).text("tence")]);
    let mut stream = bob
        .ask(Method::POST, "/v1/chat")
        .json(&question("Keeper", "chat1", "u1"))
        .read()
        .await;
    stream.until("half a sen").await;
    assert_eq!(
        bob.get("/v1/conversations/chat1").await.json()["status"],
        "running"
    );
    let busy = bob
        .post("/v1/chat", &question("Keeper", "chat1", "u2"))
        .await;
    busy.problem(409);
    let removed = ada
        .delete("/v1/npcs/Keeper/grants?what=tool:current_time&abortTurns=true")
        .await
        .json();
    let chunks = chunks(&stream.rest().await);
    assert_eq!(
        removed["abortedTurns"],
        json!([chunks[0]["messageMetadata"]["turnId"]])
    );
    let told = kinds(&chunks);
    assert_eq!(
        told[told.len() - 4..],
        ["data-notice", "finish-step", "abort", "finish"]
    );
}

#[tokio::test]
async fn a_failed_provider_is_told_in_the_stream() {
    let village = RealVillage::start().await;
    let ada = village.player("Ada").await;
    npc(&ada, "Keeper", false).await;
    village.provider.answer_with(|_request| {
        Step::refusal(
            401,
            r#"{"error":{"message":"bad key","type":"invalid_request_error"}}"#,
        )
    });
    let stream = ada
        .post("/v1/chat", &question("Keeper", "chat1", "u1"))
        .await;
    let chunks = chunks(&stream.body);
    let told = kinds(&chunks);
    assert_eq!(
        told[told.len() - 3..],
        ["message-metadata", "error", "finish"]
    );
    assert_eq!(
        chunks.last().unwrap()["messageMetadata"]["status"],
        "failed"
    );
}
