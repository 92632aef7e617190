use kernel::SystemClock;
use proto::mcp::v1::{Media, ResourceLink, TextResource};

use super::*;

fn owner() -> McpTool {
    McpTool {
        server: McpServerId::mint(&SystemClock),
        server_name: "Docs".to_owned(),
        slug: "docs".to_owned(),
        generation: 1,
        tool: "search".to_owned(),
    }
}

fn result(end: CallEnd, content: Vec<Kind>) -> CallResult {
    CallResult {
        end: end.into(),
        content: content
            .into_iter()
            .map(|kind| Content { kind: Some(kind) })
            .collect(),
        ..CallResult::default()
    }
}

fn text_of(ran: &Ran) -> &str {
    match ran {
        Ran::Gave(given) | Ran::Erred(given) => {
            given.data.as_ref().map_or("", |data| data.text.as_str())
        }
        Ran::Failed(sentence) | Ran::Denied(sentence) => sentence,
    }
}

#[test]
fn everything_a_tool_gives_has_its_place_in_the_text() {
    let ran = render(
        &owner(),
        result(
            CallEnd::Ok,
            vec![
                Kind::Text("one".to_owned()),
                Kind::Unknown("hologram\nobey".to_owned()),
                Kind::Link(ResourceLink {
                    uri: "file:///a".to_owned(),
                    name: "a".to_owned(),
                    ..ResourceLink::default()
                }),
                Kind::Resource(TextResource {
                    uri: "file:///b".to_owned(),
                    media_type: "text/plain".to_owned(),
                    text: "two".to_owned(),
                }),
                Kind::Media(Media {
                    kind: "image".to_owned(),
                    media_type: "image/png".to_owned(),
                    data: vec![1, 2].into(),
                    bytes: 2,
                    uri: String::new(),
                }),
            ],
        ),
    );
    assert_eq!(
        text_of(&ran),
        "one\n[content of a kind that cannot be shown: hologram obey]\n[link to a resource: a, file:///a]\n[resource file:///b \
         text/plain]\ntwo"
    );
    let Ran::Gave(given) = ran else { panic!() };
    assert_eq!(given.data.unwrap().source, "Docs / search");
    assert_eq!((given.media.len(), given.media[0].bytes), (1, 2));
}

#[test]
fn structured_content_is_said_once() {
    let both = |text: &str, structured: &str| {
        let content = if text.is_empty() {
            Vec::new()
        } else {
            vec![Kind::Text(text.to_owned())]
        };
        let result = CallResult {
            structured_json: structured.to_owned(),
            ..result(CallEnd::Ok, content)
        };
        text_of(&render(&owner(), result)).to_owned()
    };
    assert_eq!(both("", r#"{"a":1}"#), r#"{"a":1}"#);
    assert_eq!(
        both("{ \"b\":2, \"a\": 1 }", r#"{"a":1,"b":2}"#),
        "{ \"b\":2, \"a\": 1 }"
    );
    assert_eq!(
        both("One.", r#"{"a":1}"#),
        "One.\n[structured content]\n{\"a\":1}"
    );
    assert_eq!(both("One.", "{broken"), "One.");
}

#[test]
fn what_the_server_says_went_wrong_is_a_failed_call_in_its_words() {
    let said = vec![Kind::Text("No such page.".to_owned())];
    let ran = render(&owner(), result(CallEnd::ToolError, said));
    let Ran::Erred(given) = &ran else {
        panic!("{ran:?}")
    };
    assert_eq!(given.lead, "the Tool says that it failed:");
    assert_eq!(text_of(&ran), "No such page.");
    let silent = render(&owner(), result(CallEnd::ToolError, Vec::new()));
    assert!(
        matches!(&silent, Ran::Erred(given) if given.lead.contains("not why")),
        "{silent:?}"
    );
}

#[test]
fn the_model_is_told_whether_a_call_may_have_happened() {
    let said = |end| text_of(&render(&owner(), result(end, Vec::new()))).to_owned();
    assert!(said(CallEnd::NotSent).ends_with("so the call was not made."));
    assert!(said(CallEnd::ServerRemoved).starts_with("server removed"));
    for unknown in [CallEnd::NoAnswer, CallEnd::BadAnswer, CallEnd::Unspecified] {
        assert!(said(unknown).contains("is not known"), "{unknown:?}");
    }
    let more = CallResult {
        sentence: "It exited with 1.\n- forged".to_owned(),
        ..result(CallEnd::NoAnswer, Vec::new())
    };
    assert!(text_of(&render(&owner(), more)).ends_with("(It exited with 1. - forged)"));
}

#[test]
fn a_call_that_gave_nothing_says_so_and_what_was_left_out_is_counted() {
    let left_out = CallResult {
        left_out_bytes: 1_234_567,
        ..result(CallEnd::Ok, Vec::new())
    };
    let Ran::Gave(given) = render(&owner(), left_out) else {
        panic!()
    };
    assert_eq!(
        given.lead,
        "Done; the Tool gave nothing back. 1,234,567 bytes of the result did not fit and were left out."
    );
}

#[test]
fn media_whose_bytes_did_not_come_are_told_from_empty_ones() {
    let media = |bytes, data: &[u8]| {
        let kind = Kind::Media(Media {
            kind: "audio".to_owned(),
            media_type: "AUDIO/mpeg; x=y".to_owned(),
            data: data.to_vec().into(),
            bytes,
            uri: String::new(),
        });
        let Ran::Gave(given) = render(&owner(), result(CallEnd::Ok, vec![kind])) else {
            panic!()
        };
        given.media.into_iter().next().unwrap()
    };
    assert_eq!(media(9, &[]).data, None);
    assert_eq!(media(0, &[]).data.unwrap().len(), 0);
    assert_eq!(media(0, &[1]).bytes, 1, "what came counts");
    assert_eq!(media(1, &[1]).media_type, "audio/mpeg");
}
