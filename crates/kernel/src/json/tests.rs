use proptest::prelude::*;

use super::*;
use crate::limits::JSON_DEPTH;

fn normal(text: &str) -> String {
    JsonText::parse(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .to_string()
}

#[test]
fn odd_values_meet_one_fate() {
    for (given, kept) in [
        (
            "12345678901234567890123456789",
            "12345678901234567890123456789",
        ),
        ("-9007199254740993", "-9007199254740993"),
        ("1.0", "1.0"),
        ("1e999", "1e999"),
        (r#""a\u0000b""#, "\"a\u{FFFD}b\""),
        (r#""\ud800x""#, "\"\u{FFFD}x\""),
        (r#""\udc00""#, "\"\u{FFFD}\""),
        (r#""\ud800\u0041""#, "\"\u{FFFD}A\""),
        (r#""\ud83d\ude00""#, "\"😀\""),
        (r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#),
        (r#"{"\u0061":1,"a":2}"#, r#"{"a":2}"#),
        (" [ 1 , true ,null ]\n", "[1,true,null]"),
        (r#""\/\b\f\n\r\t\u001f""#, r#""/\b\f\n\r\t\u001f""#),
        ("{}", "{}"),
    ] {
        assert_eq!(normal(given), kept);
    }
}

#[test]
fn what_is_not_json_is_refused_with_the_place() {
    for bad in [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "01",
        "1.",
        "-",
        "+1",
        ".5",
        "1e",
        "nul",
        "'a'",
        "\"\u{1}\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"open",
        "{1:2}",
        "{\"a\" 1}",
        "1 2",
        "NaN",
        "Infinity",
        "[1 2]",
        "\"\\ud800\\u12\"",
        "\u{FEFF}1",
    ] {
        assert!(JsonText::parse(bad).is_err(), "{bad}");
    }
    assert_eq!(
        JsonText::parse("[1,]").unwrap_err().to_string(),
        "no value at byte 3"
    );
}

#[test]
fn nesting_is_bounded() {
    let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
    assert!(JsonText::parse(&deep(100)).unwrap().to_value().is_ok());
    assert!(JsonText::parse(&deep(1_000_000)).is_err());
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        "[^\0]{0,12}".prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(serde_json::Value::from),
            prop::collection::btree_map("[^\0]{0,6}", inner, 0..8)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn normal_form_means_the_same_and_is_a_fixed_point(value in any_json()) {
        let text = JsonText::parse(&serde_json::to_string_pretty(&value).unwrap()).unwrap();
        prop_assert_eq!(text.to_value().unwrap(), value);
        prop_assert_eq!(&JsonText::parse(text.as_str()).unwrap(), &text);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,64}|[\\[\\]{}:,\"\\\\u0-9a-f. -]{0,64}") {
        if let Ok(json) = JsonText::parse(&text) {
            prop_assert!(serde_json::from_str::<&RawValue>(json.as_str()).is_ok());
        }
    }
}

#[test]
fn what_is_taken_can_be_looked_into_however_deep_it_nests() {
    for depth in 100..140 {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let inner = if open == "[" { "" } else { "1" };
            let text = format!("{}{inner}{}", open.repeat(depth), close.repeat(depth));
            let Ok(json) = JsonText::parse(&text) else {
                assert!(depth > JSON_DEPTH, "{depth} of {open} is refused");
                continue;
            };
            json.to_value()
                .unwrap_or_else(|error| panic!("{depth} of {open}: {error}"));
        }
    }
}
