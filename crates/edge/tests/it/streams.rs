//! Turns as streams: started, broken, joined, stopped.

use std::{sync::Arc, time::Duration};

use http::Method;
use kernel::SystemClock;
use proto::turn::v1::start_turn_request::Trigger;
use serde_json::{Value, json};

use crate::{
    client::{chunks, kinds},
    real::RealVillage,
    scripted::{Script, say},
    village::{Village, config, question},
};

const WHOLE: [&str; 8] = [
    "start",
    "start-step",
    "text-start",
    "text-delta",
    "text-delta",
    "text-end",
    "finish-step",
    "finish",
];

fn two_words() -> Script {
    Script {
        events: say(&["hel", "lo"]),
        ..Script::default()
    }
}

fn text(chunks: &[Value]) -> String {
    chunks
        .iter()
        .filter_map(|chunk| chunk["delta"].as_str())
        .collect()
}

#[tokio::test]
async fn a_question_is_answered_with_a_ui_message_stream() {
    let village = Village::start().await;
    village.turns.script("Keeper", two_words());
    let reader = village.chat("Keeper", "chat1", "u1").read().await;
    assert_eq!(reader.status, 200);
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-cache"),
        ("connection", "keep-alive"),
        ("x-vercel-ai-ui-message-stream", "v1"),
        ("x-accel-buffering", "no"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(reader.headers[name], value, "{name}");
    }
    let chunks = chunks(&reader.rest().await);
    assert_eq!(kinds(&chunks), WHOLE);
    assert_eq!(
        chunks[0],
        json!({
            "type": "start", "messageId": "message-1",
            "messageMetadata": {"conversationId": "conversation-chat1", "turnId": "turn-chat1-u1"},
        })
    );
    assert_eq!(
        chunks[7]["messageMetadata"],
        json!({
            "usage": {"inputTokens": 3, "outputTokens": 2, "cachedInputTokens": 0, "reasoningTokens": 0},
            "limits": [], "status": "finished", "steps": 1,
        })
    );
}

#[tokio::test]
async fn the_orchestrator_is_asked_for_exactly_what_the_client_meant() {
    let village = Village::start().await;
    village.turns.script("Keeper", two_words());
    let send = async |body: Value| {
        let answer = village.post("/v1/chat").json(&body).send().await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let asked = village.turns.asked().pop().unwrap();
        (asked.request_id, asked.trigger.unwrap())
    };
    let (request, trigger) = send(question("Keeper", "c", "u1")).await;
    assert_eq!(request, "u1");
    let Trigger::Submit(submit) = trigger else {
        panic!("{trigger:?}")
    };
    assert_eq!(
        (
            submit.client_id.as_str(),
            submit.text.as_str(),
            submit.edits
        ),
        ("u1", "hello", false)
    );

    let mut edit = question("Keeper", "c", "u1");
    edit["messageId"] = json!("u1");
    let (request, trigger) = send(edit).await;
    assert!(
        request.starts_with("u1:") && request.len() == 3 + 32,
        "{request}"
    );
    assert!(matches!(trigger, Trigger::Submit(submit) if submit.edits));

    let mut again = question("Keeper", "c", "u1");
    again["trigger"] = json!("regenerate-message");
    let (request, trigger) = send(again.clone()).await;
    assert_eq!(request, "u1:message-2");
    assert!(matches!(trigger, Trigger::Regenerate(again) if again.message_id == "message-2"));
    again["messageId"] = json!("message-9");
    assert_eq!(send(again).await.0, "u1:message-9");
}

#[tokio::test]
async fn a_retried_question_gets_the_same_turn() {
    let village = Village::start().await;
    village.turns.script("Keeper", two_words());
    let first = village.chat("Keeper", "c", "u1").send().await.body;
    let second = village.chat("Keeper", "c", "u1").send().await.body;
    assert_eq!(first, second);
}

#[tokio::test]
async fn a_failure_before_the_stream_is_a_problem() {
    let village = Village::start().await;
    let answer = village.chat("Nobody", "c", "u1").send().await;
    assert_eq!(answer.problem(404), "there is no NPC of that name");
    assert_eq!(answer.code(), "not_found");
    let file = json!({"id": "c", "npc": "Keeper", "messages": [
        {"id": "u", "role": "user", "parts": [{"type": "file", "mediaType": "image/png", "url": "data:,"}]},
    ]});
    let answer = village.post("/v1/chat").json(&file).send().await;
    assert!(answer.problem(400).contains("file part"));
}

#[tokio::test]
async fn a_client_that_goes_away_stops_nothing_and_can_come_back() {
    let village = Village::start().await;
    village.turns.script(
        "Keeper",
        Script {
            hold_after: Some(4),
            ..two_words()
        },
    );
    let mut reader = village.chat("Keeper", "chat1", "u1").read().await;
    reader.until("\"delta\":\"hel\"").await;
    drop(reader);
    for id in ["chat1", "conversation-chat1"] {
        let mut back = village.get(&format!("/v1/chat/{id}/stream")).read().await;
        assert_eq!(back.status, 200);
        back.until("\"delta\":\"hel\"").await;
        if id == "conversation-chat1" {
            village.turns.release();
            let chunks = chunks(&back.rest().await);
            assert_eq!(kinds(&chunks), WHOLE);
            assert_eq!(text(&chunks), "hello");
        }
    }
    let idle = village.get("/v1/chat/chat1/stream").send().await;
    assert_eq!((idle.status.as_u16(), idle.body.as_str()), (204, ""));
}

#[tokio::test]
async fn a_watch_that_is_dropped_by_the_client_is_dropped_behind_it() {
    let village = Village::start().await;
    village.turns.script(
        "Keeper",
        Script {
            hold_after: Some(4),
            ..two_words()
        },
    );
    let mut reader = village.chat("Keeper", "chat1", "u1").read().await;
    reader.until("hel").await;
    assert_eq!(village.turns.open_watches(), 1);
    drop(reader);
    while village.turns.open_watches() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn another_players_conversation_is_as_good_as_none() {
    let village = Village::start().await;
    village.turns.script(
        "Keeper",
        Script {
            hold_after: Some(4),
            ..two_words()
        },
    );
    let mut reader = village.chat("Keeper", "chat1", "u1").read().await;
    reader.until("hel").await;
    let other = village.registry.player("eve");
    for id in ["chat1", "conversation-chat1", "unknown"] {
        let stream = village
            .ask(Method::GET, &format!("/v1/chat/{id}/stream"))
            .token(&other.token);
        assert_eq!(stream.send().await.status, 204, "{id}");
        let show = village
            .ask(Method::GET, &format!("/v1/conversations/{id}"))
            .token(&other.token);
        assert_eq!(
            show.send().await.problem(404),
            "there is no such Conversation"
        );
    }
    let abort = village
        .ask(Method::POST, "/v1/turns/turn-chat1-u1/abort")
        .token(&other.token);
    abort.send().await.problem(404);
}

#[tokio::test]
async fn an_abort_ends_the_stream_and_says_how_the_turn_stands() {
    let village = Village::start().await;
    village.turns.script(
        "Keeper",
        Script {
            hold_after: Some(4),
            ..two_words()
        },
    );
    let mut reader = village.chat("Keeper", "chat1", "u1").read().await;
    reader.until("hel").await;
    let answer = village.post("/v1/turns/turn-chat1-u1/abort").send().await;
    assert_eq!(
        answer.json(),
        json!({"id": "turn-chat1-u1", "status": "aborted"})
    );
    let chunks = chunks(&reader.rest().await);
    assert_eq!(
        kinds(&chunks)[4..],
        ["text-end", "finish-step", "abort", "finish"]
    );
    assert_eq!(chunks[7]["messageMetadata"]["status"], "aborted");
    let again = village.post("/v1/turns/turn-chat1-u1/abort").send().await;
    assert_eq!(again.json()["status"], "aborted");
}

#[tokio::test]
async fn what_is_no_id_names_no_turn_as_it_names_no_conversation() {
    let village = RealVillage::start().await;
    let operator = village.operator().await;
    let abort = operator.ask(Method::POST, "/v1/turns/nope/abort");
    assert_eq!(abort.send().await.problem(404), "there is no turn \"nope\"");
    let show = operator.ask(Method::GET, "/v1/conversations/nope");
    assert_eq!(
        show.send().await.problem(404),
        "there is no Conversation \"nope\""
    );
}

#[tokio::test]
async fn a_watch_that_breaks_is_begun_again_where_it_broke() {
    let village = Village::start().await;
    village.turns.script(
        "Keeper",
        Script {
            break_after: Some(4),
            ..two_words()
        },
    );
    let chunks = chunks(&village.chat("Keeper", "c", "u1").send().await.body);
    assert_eq!(kinds(&chunks), WHOLE);
    assert_eq!(text(&chunks), "hello");
}

#[tokio::test]
async fn a_watch_that_skips_an_event_is_begun_again_from_a_snapshot() {
    let village = Village::start().await;
    village.turns.script(
        "Keeper",
        Script {
            skip: Some(5),
            ..two_words()
        },
    );
    let chunks = chunks(&village.chat("Keeper", "c", "u1").send().await.body);
    assert_eq!(text(&chunks), "hello");
    assert_eq!(kinds(&chunks).last(), Some(&"finish"));
}

#[tokio::test]
async fn a_quiet_stream_shows_that_it_lives() {
    let mut config = config();
    config.timeouts.keep_alive = Duration::from_millis(20);
    let village = Village::with(config, Arc::new(SystemClock)).await;
    village.turns.script(
        "Keeper",
        Script {
            hold_after: Some(4),
            ..two_words()
        },
    );
    let mut reader = village.chat("Keeper", "c", "u1").read().await;
    reader.until(": keep-alive\n\n").await;
    village.turns.release();
    assert!(reader.rest().await.ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn streams_of_one_player_are_bounded() {
    let mut config = config();
    config.streams_per_token = 1;
    let village = Village::with(config, Arc::new(SystemClock)).await;
    village.turns.script(
        "Keeper",
        Script {
            hold_after: Some(4),
            ..two_words()
        },
    );
    let mut reader = village.chat("Keeper", "c", "u1").read().await;
    reader.until("hel").await;
    let answer = village.get("/v1/chat/c/stream").send().await;
    assert!(answer.problem(429).contains("1 streams are open"));
    assert!(answer.headers.contains_key("retry-after"));
    village.turns.release();
    reader.rest().await;
    assert_eq!(village.get("/v1/chat/c/stream").send().await.status, 204);
}
