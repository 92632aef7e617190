use serde_json::{Value, json};

use super::*;

fn of(result: &Value) -> CallEnd {
    read(&Config::default(), &JsonText::of(result))
}

fn given(result: &Value) -> Given {
    let end = of(result);
    let CallEnd::Ok(given) = end else {
        panic!("{end:?}");
    };
    given
}

#[test]
fn every_kind_of_content_becomes_a_piece() {
    let given = given(&json!({"content": [
        {"type": "text", "text": "hi"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "there"}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGk="}},
        {"type": "resource_link", "uri": "https://x.example/", "name": "x", "description": "An x."},
    ]}));
    let media = |kind, media_type: &str, uri: &str| {
        Piece::Media(Media {
            kind,
            media_type: media_type.to_owned(),
            data: Bytes::from_static(b"hi"),
            bytes: 2,
            uri: uri.to_owned(),
        })
    };
    assert_eq!(
        given.pieces,
        [
            Piece::Text("hi".to_owned()),
            media(MediaKind::Image, "image/png", ""),
            media(MediaKind::Audio, "audio/wav", ""),
            Piece::Resource {
                uri: "file:///a".to_owned(),
                media_type: "text/plain".to_owned(),
                text: "there".to_owned()
            },
            media(MediaKind::Resource, "", "file:///b"),
            Piece::Link {
                uri: "https://x.example/".to_owned(),
                name: "x".to_owned(),
                media_type: String::new(),
                description: "An x.".to_owned()
            },
        ]
    );
}

#[test]
fn an_unknown_type_is_described_and_loses_nothing_else() {
    let given = given(&json!({"content": [
        {"type": "hologram", "data": 1}, {"type": "text", "text": "hi"}, 7, null, {"type": "text"},
        {"type": "image", "data": "%%%"}, {"type": "resource"},
    ]}));
    let unknown = |text: &str| Piece::Unknown(text.to_owned());
    assert_eq!(
        given.pieces,
        [
            unknown("hologram"),
            Piece::Text("hi".to_owned()),
            unknown("a piece without a type"),
            unknown("a piece without a type"),
            unknown("text without text"),
            unknown("image whose data is not base64"),
            unknown("a resource that is none"),
        ]
    );
}

#[test]
fn a_result_without_content_is_a_result() {
    assert_eq!(given(&json!({})), Given::default());
    assert_eq!(
        given(&json!({"content": null, "structuredContent": null})),
        Given::default()
    );
}

#[test]
fn structured_content_keeps_every_digit_and_may_be_anything() {
    let result = JsonText::parse(
        r#"{"content":[],"structuredContent":{"id":123456789012345678901234567890,"a":0.10}}"#,
    )
    .unwrap();
    let CallEnd::Ok(given) = read(&Config::default(), &result) else {
        panic!("a result");
    };
    assert_eq!(
        given.structured.unwrap().as_str(),
        r#"{"id":123456789012345678901234567890,"a":0.10}"#
    );
    assert_eq!(
        self::given(&json!({"structuredContent": [1]}))
            .structured
            .unwrap()
            .as_str(),
        "[1]"
    );
}

#[test]
fn a_failed_tool_keeps_its_words_whatever_else_it_sends() {
    let CallEnd::ToolError(given) = of(&json!({
        "isError": true,
        "structuredContent": "not what its schema says",
        "content": [{"type": "text", "text": "no such repository"}],
    })) else {
        panic!("a failed call");
    };
    assert_eq!(given.pieces, [Piece::Text("no such repository".to_owned())]);
}

#[test]
fn is_error_is_true_and_nothing_like_it() {
    for odd in [json!("true"), json!(1), json!(null), json!({})] {
        assert!(matches!(
            of(&json!({"isError": odd, "content": []})),
            CallEnd::Ok(_)
        ));
    }
}

#[test]
fn what_asks_for_more_is_no_result() {
    for (result, word) in [
        (
            json!({"resultType": "input_required", "inputRequests": {}}),
            "input from a person",
        ),
        (json!({"resultType": "surprise"}), "surprise"),
        (json!({"task": {"taskId": "1"}}), "task"),
        (json!(["x"]), "no result"),
        (json!("x"), "no result"),
    ] {
        let CallEnd::BadAnswer(sentence) = of(&result) else {
            panic!("{result}");
        };
        assert!(sentence.contains(word), "{sentence}");
    }
    assert!(matches!(
        of(&json!({"resultType": "complete", "content": []})),
        CallEnd::Ok(_)
    ));
}

#[test]
fn text_beyond_the_budget_is_cut_and_counted() {
    let config = Config {
        result_bytes: 10,
        ..Config::default()
    };
    let result = JsonText::of(&json!({"content": [
        {"type": "text", "text": "1234567"}, {"type": "text", "text": "ab\u{20ac}cd"}, {"type": "text", "text": "x"},
    ], "structuredContent": {"a": 1}}));
    let CallEnd::Ok(given) = read(&config, &result) else {
        panic!("a result");
    };
    assert_eq!(
        given.pieces,
        [
            Piece::Text("1234567".to_owned()),
            Piece::Text("ab".to_owned()),
            Piece::Text("x".to_owned())
        ]
    );
    assert_eq!(given.structured, None);
    assert_eq!(given.left_out_bytes, 5 + 7);
}

#[test]
fn media_beyond_the_budget_are_described_without_their_bytes() {
    let config = Config {
        media_bytes: 4,
        result_media_bytes: 6,
        ..Config::default()
    };
    let image = |data: &[u8]| json!({"type": "image", "mimeType": "image/png", "data": BASE64_STANDARD.encode(data)});
    let result = JsonText::of(
        &json!({"content": [image(b"12345"), image(b"1234"), image(b"123"), image(b"12")]}),
    );
    let CallEnd::Ok(given) = read(&config, &result) else {
        panic!("a result");
    };
    let kept: Vec<(usize, u64)> = given
        .pieces
        .iter()
        .map(|piece| {
            let Piece::Media(media) = piece else {
                panic!("{piece:?}");
            };
            (media.data.len(), media.bytes)
        })
        .collect();
    assert_eq!(kept, [(0, 5), (4, 4), (0, 3), (2, 2)]);
    assert_eq!(given.left_out_bytes, 8);
}

#[test]
fn a_thousand_pieces_are_bounded() {
    let pieces: Vec<Value> = (0..1_000)
        .map(|n| json!({"type": "text", "text": format!("{n}")}))
        .collect();
    let given = given(&json!({"content": pieces}));
    assert_eq!(given.pieces.len(), 256);
    assert!(given.left_out_bytes > 0);
}

#[test]
fn lone_surrogates_and_nul_in_text_become_replacement_characters() {
    let result =
        JsonText::parse(r#"{"content":[{"type":"text","text":"a\ud800b\u0000c"}]}"#).unwrap();
    let CallEnd::Ok(given) = read(&Config::default(), &result) else {
        panic!("a result");
    };
    assert_eq!(
        given.pieces,
        [Piece::Text("a\u{fffd}b\u{fffd}c".to_owned())]
    );
}
