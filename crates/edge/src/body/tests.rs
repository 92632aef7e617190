use serde::Deserialize;

use super::*;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Example {
    name: String,
    #[serde(default)]
    fetch_hosts: Vec<String>,
}

fn example(json: &str) -> Result<Example, Problem> {
    strict(object(json.as_bytes())?)
}

#[test]
fn an_unknown_field_is_named_with_the_nearest() {
    let problem = example(r#"{"name": "a", "fetchHost": []}"#).unwrap_err();
    assert_eq!(problem.field.as_deref(), Some("fetchHost"));
    assert_eq!(
        problem.detail,
        "there is no field \"fetchHost\"; did you mean fetchHosts?"
    );
    assert_eq!(
        example(r#"{"name": "a", "zzz": 1}"#).unwrap_err().detail,
        "there is no field \"zzz\"; there are name, fetchHosts"
    );
}

#[test]
fn a_value_of_the_wrong_type_names_its_field() {
    let problem = example(r#"{"name": "a", "fetchHosts": ["ok", 3]}"#).unwrap_err();
    assert_eq!(problem.field.as_deref(), Some("fetchHosts[1]"));
    assert_eq!(
        problem.detail,
        "fetchHosts[1]: invalid type: integer `3`, expected a string"
    );
    assert_eq!(example("{}").unwrap_err().detail, "missing field `name`");
}

#[test]
fn what_is_not_an_object_is_refused_without_being_repeated() {
    for (json, detail) in [
        (
            "[]",
            "the body is JSON, but not an object: write {\"field\": …}",
        ),
        (
            "hunter2",
            "the body is not JSON: expected value at line 1 column 1",
        ),
        (
            "",
            "the body is not JSON: EOF while parsing a value at line 1 column 0",
        ),
    ] {
        assert_eq!(example(json).unwrap_err().detail, detail);
    }
    let deep = format!("{{\"name\":{}", "[".repeat(100_000));
    assert!(
        example(&deep)
            .unwrap_err()
            .detail
            .contains("recursion limit")
    );
}

#[test]
fn a_query_knows_its_keys() {
    let query = |pairs: &[(&str, &str)]| {
        Query(
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        )
    };
    assert_eq!(
        query(&[("pageSize", "20"), ("pageToken", "x")]).page(),
        Ok(PageQuery {
            size: 20,
            token: "x".to_owned()
        })
    );
    assert_eq!(
        query(&[("pagesize", "20")]).page().unwrap_err().detail,
        "there is no query parameter \"pagesize\"; did you mean pageSize?"
    );
    assert_eq!(
        query(&[("pageSize", "-1")]).page().unwrap_err().detail,
        "pageSize is \"-1\", not a whole number from 1 to 200"
    );
}

#[test]
fn half_an_emoji_does_not_make_the_whole_body_unreadable() {
    let map = object(br#"{"text": "cut \ud83d", "more": ["\udc00x"]}"#).unwrap();
    assert_eq!(
        Value::Object(map),
        serde_json::json!({"text": "cut \u{FFFD}", "more": ["\u{FFFD}x"]})
    );
}
