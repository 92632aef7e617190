//! Players see what is theirs, and what others let them see.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::provider::Step;

use super::in_both_shapes;
use crate::village::{Shape, Village};

in_both_shapes!(players_keep_to_what_is_theirs);

async fn players_keep_to_what_is_theirs(shape: Shape) {
    let village = Village::start(shape).await;
    let player = |name: &str| {
        let row = village.cli_json(&["player", "create", name]);
        row["token"].as_str().unwrap().to_owned()
    };
    let (ada, ben) = (player("Ada"), player("Ben"));
    let ask = async |token: &str, method: Method, path: &str, body: Value| {
        let mut request = village.request_as(token, method, path);
        if !body.is_null() {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let model = "openai/scripted";
    let (status, _) = ask(
        &ada,
        Method::POST,
        "/v1/npcs",
        json!({"name": "diary", "model": model, "private": true}),
    )
    .await;
    assert_eq!(status, 201);
    let (status, _) = ask(
        &ada,
        Method::POST,
        "/v1/npcs",
        json!({"name": "guide", "model": model}),
    )
    .await;
    assert_eq!(status, 201);

    // Another Player: a private NPC is not there, a public one is there to be talked to, and neither can be changed.
    for (method, path, body, expected) in [
        (Method::GET, "/v1/npcs/diary", Value::Null, 404),
        (
            Method::PATCH,
            "/v1/npcs/diary",
            json!({"persona": "x"}),
            404,
        ),
        (Method::DELETE, "/v1/npcs/diary", Value::Null, 404),
        (Method::GET, "/v1/npcs/diary/tools", Value::Null, 404),
        (
            Method::POST,
            "/v1/npcs/diary/grants",
            json!({"what": "tool:current_time"}),
            404,
        ),
        (Method::GET, "/v1/npcs/guide", Value::Null, 200),
        (Method::GET, "/v1/npcs/guide/tools", Value::Null, 200),
        (
            Method::PATCH,
            "/v1/npcs/guide",
            json!({"persona": "x"}),
            403,
        ),
        (Method::DELETE, "/v1/npcs/guide", Value::Null, 403),
        (
            Method::POST,
            "/v1/npcs/guide/grants",
            json!({"what": "tool:current_time"}),
            403,
        ),
        (
            Method::POST,
            "/v1/npcs/guide/grants",
            json!({"what": "npc:diary"}),
            403,
        ),
        (Method::GET, "/v1/players", Value::Null, 403),
        (Method::POST, "/v1/players", json!({"name": "Eve"}), 403),
        (Method::GET, "/v1/audit", Value::Null, 403),
    ] {
        let (status, body) = ask(&ben, method.clone(), path, body).await;
        assert_eq!(status, expected, "{method} {path}: {body}");
    }

    // A Conversation is its Player's; the Operator's reading of it is written down.
    village
        .chat_completions
        .script([Step::new().text("Noted.")]);
    let said = json!({"id": "c", "trigger": "submit-message", "npc": "diary", "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "Dear diary"}]}]});
    let (status, _) = ask(&ada, Method::POST, "/v1/chat", said.clone()).await;
    assert_eq!(status, 200);
    let (status, _) = ask(&ben, Method::POST, "/v1/chat", said).await;
    assert_eq!(status, 404);
    let (_, mine) = ask(&ada, Method::GET, "/v1/conversations/c", Value::Null).await;
    let id = serde_json::from_str::<Value>(&mine).unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/v1/conversations/{id}");
    assert_eq!(ask(&ben, Method::GET, &path, Value::Null).await.0, 404);
    assert_eq!(ask(&ben, Method::DELETE, &path, Value::Null).await.0, 404);
    assert_eq!(
        village
            .request(Method::GET, &path)
            .send()
            .await
            .unwrap()
            .status(),
        200
    );
    let audit = village.cli_json(&["audit", "list"]);
    assert!(
        audit
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["action"] == "conversation.read" && row["subjectId"] == id.as_str()),
        "{audit:#}"
    );

    village.cli_json(&["player", "revoke", "Ben"]);
    let revoked = async {
        loop {
            if ask(&ben, Method::GET, "/v1/me", Value::Null).await.0 == 401 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    assert!(
        tokio::time::timeout(std::time::Duration::from_secs(15), revoked)
            .await
            .is_ok(),
        "the token still works"
    );
    village.finish().await;
}
