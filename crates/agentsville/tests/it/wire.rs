//! What the client makes of servers that are no Village, of odd streams and of hostile text.

use crate::support::{Canned, Person, Run, answer, json_answer, stream_answer};

const START: &str =
    r#"{"type":"start","messageId":"m","messageMetadata":{"conversationId":"c-1","turnId":"t-1"}}"#;
const FINISH: &str = r#"{"type":"finish","messageMetadata":{"status":"finished","usage":{"inputTokens":3,"outputTokens":2}}}"#;

fn person() -> Person {
    Person::new().with("AGENTSVILLE_TOKEN", "secret-token")
}

fn ask(canned: &Canned, arguments: &[&str]) -> Run {
    let mut line = vec!["--server", canned.url.as_str()];
    line.extend(arguments);
    person().run(&line)
}

#[test]
fn a_chat_prints_every_chunk_as_it_is_and_nothing_else() {
    let call = r#"{"type":"tool-input-available","toolCallId":"a","toolName":"t","input":{"n":12345678901234567890123},"dynamic":true}"#;
    let canned = Canned::answering(&[stream_answer(&[START, call, FINISH, "[DONE]"])]);
    let run = ask(&canned, &["chat", "Keeper", "hello", "--json"]).ok();
    assert_eq!(run.out, format!("{START}\n{call}\n{FINISH}\n"));
    assert_eq!(run.err, "");
    let request = &canned.requests()[0];
    assert!(
        request.starts_with("POST /v1/chat HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(
        request.contains("authorization: Bearer secret-token\r\n"),
        "{request}"
    );
    let body: serde_json::Value =
        serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["npc"], "Keeper");
    assert_eq!(body["trigger"], "submit-message");
    assert_eq!(body["messages"][0]["role"], "user");
    assert_eq!(body["messages"][0]["parts"][0]["text"], "hello");
    assert!(body["id"].is_string() && body["messages"][0]["id"].is_string());
}

#[test]
fn a_conversation_is_gone_on_with_by_its_id() {
    let canned = Canned::answering(&[stream_answer(&[START, FINISH, "[DONE]"])]);
    let run = ask(
        &canned,
        &["chat", "Keeper", "--conversation", "c-1", "--", "--json"],
    )
    .ok();
    assert!(
        run.out.contains(" chat Keeper '…' --conversation c-1"),
        "{run:?}"
    );
    assert!(canned.requests()[0].contains(r#""id":"c-1""#));
    assert!(canned.requests()[0].contains(r#""text":"--json""#));
}

#[test]
fn a_failed_turn_fails_the_command_and_a_stopped_one_does_not() {
    let error = r#"{"type":"error","errorText":"openai answered 401"}"#;
    let failed = Canned::answering(&[stream_answer(&[START, error, "[DONE]"])]);
    let run = ask(&failed, &["chat", "Keeper", "hi"]);
    assert_eq!((run.code, run.err.as_str()), (Some(1), ""));
    assert!(
        run.out.contains("failed\n  openai answered 401\n"),
        "{run:?}"
    );
    let run = ask(&failed, &["chat", "Keeper", "hi", "--json"]);
    assert_eq!(run.code, Some(1));
    assert_eq!(run.problem()["detail"], "openai answered 401");
    let stopped = Canned::answering(&[stream_answer(&[START, r#"{"type":"abort"}"#, "[DONE]"])]);
    ask(&stopped, &["chat", "Keeper", "hi"]).ok();
}

#[test]
fn a_stream_that_breaks_off_is_told_and_fails() {
    let call =
        r#"{"type":"tool-input-available","toolCallId":"a","toolName":"fetch_url","input":{}}"#;
    let canned = Canned::answering(&[stream_answer(&[START, call])]);
    let run = ask(&canned, &["chat", "Keeper", "hi"]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.out.contains("tool 1 fetch_url  still in flight"),
        "{run:?}"
    );
    assert!(
        run.out.contains("the turn may go on in the Village"),
        "{run:?}"
    );
}

#[test]
fn text_of_models_tools_and_servers_has_no_power_over_a_terminal() {
    let text = r#"{"type":"text-delta","id":"0","delta":"\u001b[2J\u001b]0;pwned\u0007\u009b1;1H\u202edone"}"#;
    let canned = Canned::answering(&[stream_answer(&[START, text, FINISH, "[DONE]"])]);
    let hostile = ['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}'];
    for arguments in [
        vec!["chat", "Keeper", "hi"],
        vec!["chat", "Keeper", "hi", "--json"],
    ] {
        let run = ask(&canned, &arguments).ok();
        assert!(!run.out.contains(hostile), "{run:?}");
    }
    let row = "{\"id\":\"1\",\"name\":\"K\u{9b}2J\\u001b[2J\\nroot\",\"ownerId\":\"o\",\"createdAt\":\"t\",\"updatedAt\":\"t\"}";
    let list = Canned::answering(&[json_answer(&format!("{{\"items\":[{row}]}}"))]);
    for arguments in [vec!["npc", "list"], vec!["npc", "list", "--json"]] {
        let run = ask(&list, &arguments).ok();
        assert!(!run.out.contains(hostile), "{run:?}");
    }
    let problem = "{\"status\":404,\"detail\":\"no \u{9b}2J\\u001b[2J\",\"code\":\"not_found\"}";
    let refusal =
        Canned::answering(&[answer("404 Not Found", "application/problem+json", problem)]);
    for arguments in [vec!["npc", "show", "x"], vec!["npc", "show", "x", "--json"]] {
        let run = ask(&refusal, &arguments);
        assert_eq!(run.code, Some(1));
        assert!(!run.err.contains(hostile), "{run:?}");
    }
}

#[test]
fn the_villages_own_problem_is_passed_on() {
    let problem = r#"{"type":"about:blank","title":"not found","status":404,"detail":"there is no NPC \"x\"","code":"not_found","field":"npc"}"#;
    let canned = Canned::answering(&[answer("404 Not Found", "application/problem+json", problem)]);
    let run = ask(&canned, &["npc", "show", "x", "--json"]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""));
    assert_eq!(run.err, format!("{problem}\n"));
    assert_eq!(
        ask(&canned, &["chat", "x", "hi"]).err,
        "agentsville: there is no NPC \"x\"\n"
    );
}

#[test]
fn a_redirect_is_not_followed_with_the_token() {
    let thief = Canned::answering(&[json_answer("{}")]);
    let redirect = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {}/v1/npcs\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        thief.url
    );
    let canned = Canned::answering(&[redirect]);
    let run = ask(&canned, &["npc", "list"]);
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("not as a Village does"), "{run:?}");
    assert!(thief.requests().is_empty());
}

#[test]
fn a_proxy_of_the_environment_does_not_see_the_token() {
    let proxy = Canned::answering(&[json_answer(r#"{"items":[]}"#)]);
    let village = Canned::answering(&[json_answer(r#"{"items":[]}"#)]);
    let person = person()
        .with("HTTP_PROXY", proxy.url.clone())
        .with("http_proxy", proxy.url.clone())
        .with("ALL_PROXY", proxy.url.clone());
    person.run(&["npc", "list", "--server", &village.url]).ok();
    assert_eq!((village.requests().len(), proxy.requests().len()), (1, 0));
}

#[test]
fn what_is_no_village_is_told_apart_from_one() {
    let page = Canned::answering(&[answer("200 OK", "text/html", "<html>login</html>")]);
    for arguments in [vec!["npc", "list"], vec!["chat", "Keeper", "hi"]] {
        let run = ask(&page, &arguments);
        assert_eq!(run.code, Some(1));
        assert!(run.err.contains("check --server"), "{run:?}");
        assert!(!run.err.contains("<html>"), "{run:?}");
    }
    let gateway =
        Canned::answering(&[answer("502 Bad Gateway", "text/html", "<html>nginx</html>")]);
    let run = ask(&gateway, &["npc", "list"]);
    assert!(
        run.err.contains("502") && !run.err.contains("<html>"),
        "{run:?}"
    );
}

#[test]
fn a_list_is_one_array_over_all_its_pages() {
    let row = |id: u32| format!(r#"{{"id":"{id}"}}"#);
    let canned = Canned::answering(&[
        json_answer(&format!(
            r#"{{"items":[{},{}],"nextPageToken":"p2"}}"#,
            row(3),
            row(2)
        )),
        json_answer(&format!(r#"{{"items":[{}]}}"#, row(1))),
    ]);
    let run = ask(&canned, &["npc", "list", "--json"]).ok();
    assert_eq!(run.out, "[{\"id\":\"3\"},{\"id\":\"2\"},{\"id\":\"1\"}]\n");
    let requests = canned.requests();
    assert!(
        requests[0].starts_with("GET /v1/npcs?pageSize=200 "),
        "{}",
        requests[0]
    );
    assert!(
        requests[1].starts_with("GET /v1/npcs?pageSize=200&pageToken=p2 "),
        "{}",
        requests[1]
    );
}

#[test]
fn a_server_that_pages_for_ever_is_left() {
    let same = json_answer(r#"{"items":[{"id":"1"}],"nextPageToken":"again"}"#);
    let run = ask(&Canned::answering(&[same]), &["npc", "list", "--json"]).ok();
    assert_eq!(run.json().as_array().unwrap().len(), 2);
}

#[test]
fn a_name_cannot_reach_another_path() {
    let canned = Canned::answering(&[json_answer(r#"{"id":"1"}"#)]);
    ask(&canned, &["npc", "delete", "../players/x", "--json"]).ok();
    assert!(canned.requests()[0].starts_with("DELETE /v1/npcs/..%2Fplayers%2Fx "));
    let run = ask(&canned, &["npc", "delete", ".."]);
    assert_eq!(run.code, Some(1));
    assert_eq!(canned.requests().len(), 1);
}
