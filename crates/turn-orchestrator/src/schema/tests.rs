use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

fn of(schema: &Value) -> Schema {
    Schema::of(&schema.to_string()).unwrap()
}

fn sent(schema: &Value) -> Value {
    of(schema).sent.to_value().unwrap()
}

fn refusal(schema: &Value) -> String {
    Schema::of(&schema.to_string()).unwrap_err()
}

fn judged(schema: &Value, arguments: &Value) -> Result<(), String> {
    of(schema).judge(&JsonText::of(arguments))
}

#[test]
fn a_plain_schema_is_sent_as_it_stands() {
    let plain = json!({
        "type": "object",
        "description": "What to look for.",
        "properties": {
            "query": {"type": "string", "description": "Words.", "minLength": 1},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        },
        "required": ["query"],
        "additionalProperties": false,
    });
    assert_eq!(sent(&plain), plain);
}

#[test]
fn an_object_without_properties_gets_some() {
    for bare in [
        json!({}),
        json!({"type": "object"}),
        json!({"type": ["null", "object"]}),
    ] {
        assert_eq!(sent(&bare), json!({"type": "object", "properties": {}}));
    }
}

#[test]
fn choices_at_the_top_become_one_object_that_takes_what_one_of_them_takes() {
    let schema = json!({
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}, "path": {"type": "string"}}, "required": ["kind", "path"]},
            {"type": "object", "properties": {"kind": {"const": "b"}, "url": {"type": "string"}}, "required": ["kind", "url"]},
            {"type": "null"},
        ],
    });
    let sent = sent(&schema);
    for refused in ["oneOf", "anyOf", "allOf", "enum", "not"] {
        assert_eq!(sent.get(refused), None);
    }
    assert_eq!(sent["required"], json!(["kind"]));
    assert_eq!(
        sent["properties"]["kind"],
        json!({"anyOf": [{"enum": ["a"]}, {"enum": ["b"]}]})
    );
    assert_eq!(
        sent["properties"]["url"],
        json!({"anyOf": [{"type": "string"}, {}]})
    );
    // The original is what judges.
    assert_eq!(judged(&schema, &json!({"kind": "b", "url": "x"})), Ok(()));
    assert!(judged(&schema, &json!({"kind": "b", "path": "x"})).is_err());
}

#[test]
fn a_top_that_is_a_reference_is_what_it_refers_to() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": "#/definitions/Query",
        "definitions": {
            "Query": {"type": "object", "properties": {"q": {"$ref": "#/definitions/Word"}}, "required": ["q"]},
            "Word": {"type": "string"},
            "Unused": {"type": "string"},
        },
    });
    assert_eq!(
        sent(&schema),
        json!({
            "type": "object",
            "properties": {"q": {"$ref": "#/$defs/Word"}},
            "required": ["q"],
            "$defs": {"Word": {"type": "string"}},
        })
    );
    assert!(judged(&schema, &json!({"q": 7})).is_err());
}

#[test]
fn references_by_anchor_by_own_name_and_into_properties_stay_what_they_mean() {
    let schema = json!({
        "$id": "https://docs.example/search.json",
        "type": "object",
        "properties": {
            "a": {"$anchor": "word", "type": "string"},
            "b": {"$ref": "#word"},
            "c": {"$ref": "https://docs.example/search.json#/properties/a"},
            "d": {"$ref": "#/properties/b"},
            "e/f": {"type": "integer"},
            "g": {"$ref": "#/properties/e~1f"},
            "h": {"$ref": "#/properties/%65~1f"},
        },
    });
    for (member, wrong) in [
        ("b", json!(1)),
        ("c", json!(1)),
        ("d", json!(1)),
        ("g", json!("x")),
        ("h", json!("x")),
    ] {
        assert!(
            judged(&schema, &json!({member: wrong})).is_err(),
            "{member}"
        );
    }
}

#[test]
fn a_schema_that_refers_to_itself_by_way_of_members_is_a_tree() {
    let tree = json!({
        "type": "object",
        "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["value"],
    });
    assert_eq!(
        judged(
            &tree,
            &json!({"value": 1, "children": [{"value": 2, "children": []}]})
        ),
        Ok(())
    );
    assert!(judged(&tree, &json!({"value": 1, "children": [{}]})).is_err());
    let sent = sent(&tree);
    let name = sent["properties"]["children"]["items"]["$ref"]
        .as_str()
        .unwrap();
    assert!(sent.pointer(&name[1..]).is_some(), "{sent}");
}

#[test]
fn what_would_have_to_be_fetched_is_left_out_and_never_looked_up() {
    for reference in [
        "https://evil.example/schema.json",
        "http://127.0.0.1:1/x#/$defs/a",
        "file:///etc/passwd",
        "other.json",
        "//evil.example/x",
        "http://json-schema.org/draft-07/schema#",
        "#/$defs/missing",
        "urn:x:y",
    ] {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"$ref": reference}, "b": {"type": "integer"}},
        });
        assert!(!sent(&schema).to_string().contains("$ref"), "{reference}");
        assert_eq!(judged(&schema, &json!({"a": [1]})), Ok(()), "{reference}");
        assert!(judged(&schema, &json!({"b": "x"})).is_err(), "{reference}");
        let negated = json!({"type": "object", "not": {"$ref": reference}});
        assert_eq!(judged(&negated, &json!({})), Ok(()), "{reference}");
    }
}

#[test]
fn odd_keywords_cost_themselves_and_never_the_tool() {
    let odd = json!({
        "$schema": "https://example.com/my-own-dialect",
        "type": "object",
        "x-mcp-header": {"a": "b"},
        "required": "a",
        "properties": {
            "a": {"type": "any", "format": "int64", "example": 1},
            "b": {"type": "string", "pattern": "[unclosed"},
            "c": {"minimum": "three", "exclusiveMinimum": true, "type": "integer"},
            "d": {"enum": []},
            "e": {"type": "array"},
            "f": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
            "g": {"type": "string", "pattern": "^(?=.*x)(a+)+$"},
            "h": true,
            "i": {"required": true, "type": "string"},
            "j": 7,
            "k": {"type": "string", "nullable": true, "description": 9, "title": "T\u{1b}[2J"},
        },
        "$comment": "nothing",
        "allOf": [],
    });
    let sent = sent(&odd);
    let properties = &sent["properties"];
    assert_eq!(properties.as_object().unwrap().len(), 11);
    assert_eq!(properties["a"], json!({}));
    assert_eq!(properties["e"], json!({"type": "array", "items": {}}));
    assert_eq!(properties["f"], json!({"type": "array", "items": {}}));
    assert_eq!(properties["g"], json!({"type": "string"}));
    assert_eq!(properties["k"], json!({"type": "string", "title": "T[2J"}));
    assert!(!sent.to_string().contains("x-mcp"));
    assert!(judged(&odd, &json!({"c": "x"})).is_err());
    assert_eq!(
        judged(&odd, &json!({"b": "x", "g": "y", "f": [1, 2, 3]})),
        Ok(())
    );
}

#[test]
fn tuples_of_draft_7_are_judged_and_sent_as_what_an_item_may_be() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"pair": {
            "type": "array",
            "items": [{"type": "string"}, {"type": "integer"}],
            "additionalItems": false,
        }},
    });
    assert_eq!(
        sent(&schema)["properties"]["pair"],
        json!({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}})
    );
    assert!(judged(&schema, &json!({"pair": ["a", "b"]})).is_err());
    assert_eq!(judged(&schema, &json!({"pair": ["a", 1]})), Ok(()));
}

#[test]
fn leaving_something_out_never_makes_a_schema_refuse_more() {
    // Each leaves the network reference out; were that all, each would refuse what it took.
    let remote = json!({"$ref": "https://evil.example/x"});
    for schema in [
        json!({"not": remote}),
        json!({"oneOf": [remote, {"required": ["a"]}]}),
        json!({"if": remote, "then": {"required": ["missing"]}}),
        json!({"properties": {"a": {"contains": remote, "maxContains": 0}}}),
        json!({"patternProperties": {"^(?!b)": {}}, "additionalProperties": false}),
        json!({"allOf": [remote, {"properties": {"a": {}}}], "unevaluatedProperties": false}),
        json!({"not": {"$ref": "#/$defs/deep"}, "$defs": {"deep": {"$ref": "#/$defs/deeper"}, "deeper": remote}}),
    ] {
        assert_eq!(judged(&schema, &json!({"a": [1]})), Ok(()), "{schema}");
    }
}

#[test]
fn schemas_of_no_object_are_refused_in_words() {
    assert_eq!(
        refusal(&json!({"type": "string"})),
        "its schema takes no object, and arguments are one"
    );
    assert_eq!(refusal(&json!([])), "its schema is no JSON object");
    assert!(
        Schema::of("{broken")
            .unwrap_err()
            .contains("cannot be read")
    );
    let long = json!({"description": "x".repeat(SCHEMA_BYTES)});
    assert!(refusal(&long).contains("bytes"));
}

/// Definitions that each apply the next one twice: 2 to the power of `levels` judgements, in a few kilobytes.
fn laughs(levels: usize) -> Value {
    let mut definitions = Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
        definitions.insert(format!("l{level}"), json!({"allOf": [next.clone(), next]}));
    }
    definitions.insert(format!("l{levels}"), json!({"minProperties": 1}));
    json!({"type": "object", "$ref": "#/$defs/l0", "$defs": definitions})
}

#[test]
fn a_billion_laughs_are_told_before_anybody_laughs() {
    let schema = laughs(60);
    // Compiled and normalised in no time, and not judged by.
    assert_eq!(judged(&schema, &json!({})), Ok(()));
    assert!(judged(&laughs(4), &json!({})).is_err(), "a few are judged");
}

#[test]
fn a_tree_that_doubles_on_each_level_is_judged_as_deep_as_that_is_cheap() {
    let twice = json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]});
    let schema = json!({
        "type": "object",
        "properties": {"next": twice, "n": {"type": "integer"}},
    });
    let chain =
        |depth: usize| (0..depth).fold(json!({"n": "x"}), |inner, _| json!({"next": inner}));
    assert!(judged(&schema, &chain(5)).is_err());
    assert_eq!(judged(&schema, &chain(100)), Ok(()));
}

#[test]
fn choices_within_choices_that_look_again_are_counted() {
    let mut schema = json!({"properties": {"a": {"type": "integer"}}});
    for _ in 0..25 {
        schema = json!({"allOf": [schema], "unevaluatedProperties": {"type": "integer"}});
    }
    assert_eq!(
        judged(&schema, &json!({"a": "x"})),
        Ok(()),
        "it is not judged by"
    );
}

#[test]
fn a_schema_that_is_applied_to_itself_is_refused_before_it_is_followed() {
    for endless in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"dependentSchemas": {"x": {"$ref": "#/$defs/a"}}}}}),
    ] {
        assert_eq!(refusal(&endless), "its schema refers to itself without end");
    }
}

#[test]
fn a_chain_of_references_ends_before_the_stack_does() {
    let chain = |length: usize| {
        let mut definitions = Map::new();
        for at in 0..length {
            definitions.insert(
                format!("d{at}"),
                json!({"properties": {"x": {"$ref": format!("#/$defs/d{}", at + 1)}}}),
            );
        }
        definitions.insert(format!("d{length}"), json!({}));
        json!({"type": "object", "$ref": "#/$defs/d0", "$defs": definitions})
    };
    let fits = |length: &usize| Schema::of(&chain(*length).to_string()).is_ok();
    let deepest = (10..500).step_by(10).take_while(fits).last().unwrap();
    let deep = (0..120).fold(json!({}), |inner, _| json!({"x": inner}));
    assert_eq!(judged(&chain(deepest), &deep), Ok(()));
    let long = refusal(&chain(500));
    assert!(long.contains("nests too deep"), "{long}");
    assert!(refusal(&chain(3_000)).contains("definitions"));
}

#[test]
fn a_hostile_pattern_judges_in_linear_time() {
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}});
    let long = format!("{}!", "a".repeat(200_000));
    assert!(judged(&schema, &json!({"a": long})).is_err());
    for refused in ["(a{1000}){1000}{1000}", "^(?=a)(a+)+\\1$", "("] {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "pattern": refused}, "b": {"type": "integer"},
        }});
        assert_eq!(judged(&schema, &json!({"a": "b"})), Ok(()), "{refused}");
        assert!(judged(&schema, &json!({"b": "x"})).is_err(), "{refused}");
    }
    let many: Map<String, Value> = (0..3_000)
        .map(|n| {
            (
                format!("p{n}"),
                json!({"pattern": format!("^{n}(x|y){{1,9}}$")}),
            )
        })
        .collect();
    assert_eq!(
        judged(&json!({"properties": many}), &json!({"p2999": "z"})),
        Ok(())
    );
}

#[test]
fn faults_are_named_without_the_values_and_not_all_of_them() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "integer"}});
    let many: Map<String, Value> = (0..1_000)
        .map(|n| (format!("k{n}"), json!("hunter2")))
        .collect();
    let said = judged(&schema, &many.into()).unwrap_err();
    assert!(
        said.starts_with(": /k") && said.ends_with("; and more"),
        "{said}"
    );
    assert!(!said.contains("hunter2") && said.len() < 2_000, "{said}");
}

#[test]
fn numbers_past_sixty_four_bits_are_judged_as_numbers() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}});
    let huge = JsonText::parse(r#"{"n":123456789012345678901234567890}"#).unwrap();
    assert_eq!(of(&schema).judge(&huge), Ok(()));
}

/// Schemas as servers write them, and as they do not.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!({})),
        Just(json!({"type": "string", "minLength": 1})),
        Just(json!({"type": ["integer", "null"], "minimum": 0})),
        Just(json!({"type": "boolean"})),
        Just(json!({"enum": [1, "x", null]})),
        Just(json!({"const": "x"})),
        Just(json!({"type": "string", "pattern": "^x"})),
        Just(json!({"type": "string", "pattern": "^(?!y)"})),
        Just(json!({"$ref": "#/$defs/word"})),
        Just(json!({"$ref": "#/$defs/thing", "minProperties": 1})),
        Just(json!({"$ref": "#/$defs/odd"})),
        Just(json!({"format": "int32", "x-odd": 1, "multipleOf": 2})),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let some = proptest::collection::vec(inner.clone(), 1..4);
        let named = proptest::collection::btree_map("[abc]", inner.clone(), 0..3);
        let required = proptest::sample::subsequence(vec!["a", "b", "c"], 0..3);
        prop_oneof![
            3 => (named.clone(), required.clone(), proptest::option::of(inner.clone())).prop_map(|(properties, required, rest)| {
                let mut schema = json!({"type": "object", "properties": properties, "required": required});
                if let Some(rest) = rest {
                    schema["additionalProperties"] = rest;
                }
                schema
            }),
            1 => named.clone().prop_map(|all| json!({"patternProperties": all, "additionalProperties": false})),
            1 => some.clone().prop_map(|all| json!({"anyOf": all})),
            1 => some.clone().prop_map(|all| json!({"oneOf": all})),
            1 => some.clone().prop_map(|all| json!({"allOf": all, "unevaluatedProperties": false})),
            1 => inner.clone().prop_map(|one| json!({"not": one})),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
            1 => inner.clone().prop_map(|one| json!({"type": "array", "items": one})),
            1 => some.clone().prop_map(|all| json!({"type": "array", "prefixItems": all, "items": false})),
            1 => inner.clone().prop_map(|one| json!({"contains": one, "maxContains": 1})),
            1 => named.prop_map(|all| json!({"dependentSchemas": all})),
            1 => (some, required).prop_map(|(all, required)| json!({"anyOf": all, "required": required, "oneOf": [true]})),
            1 => inner.prop_map(|one| json!({"propertyNames": one})),
        ]
    })
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(1)),
        Just(json!(-2)),
        Just(json!("x")),
        Just(json!("")),
        Just(json!("yx")),
        Just(json!(true)),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            objects(inner),
        ]
    })
}

fn objects(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[abcd]", inner, 0..4).prop_map(|all| json!(all))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn both_forms_accept_the_objects_that_the_original_accepts(
        schema in schemas(),
        age in prop_oneof![Just("https://json-schema.org/draft/2020-12/schema"), Just("http://json-schema.org/draft-07/schema#")],
        value in objects(values()),
    ) {
        let mut schema = if schema.is_object() { schema } else { json!({"anyOf": [schema]}) };
        schema["$schema"] = age.into();
        schema["$defs"] = json!({
            "word": {"type": "string"},
            "thing": {"type": "object", "properties": {"a": {"$ref": "#/$defs/word"}, "b": {"$ref": "#/$defs/thing"}}},
            "odd": {"not": {"pattern": "^(?!y)"}},
        });
        let original = jsonschema::options().offline().should_validate_formats(false).build(&schema);
        prop_assume!(original.is_ok());
        let original = original.unwrap();
        let Ok(read) = Schema::of(&schema.to_string()) else {
            // Nothing is refused but what takes no object at all.
            prop_assert!(!original.is_valid(&value), "{schema}");
            return Ok(());
        };
        let sent = read.sent.to_value().unwrap();
        prop_assert_eq!(&sent["type"], &json!("object"));
        prop_assert!(sent["properties"].is_object());
        let providers = jsonschema::validator_for(&sent);
        prop_assert!(providers.is_ok(), "{} became {}", schema, sent);
        if original.is_valid(&value) {
            prop_assert!(read.judge(&JsonText::of(&value)).is_ok(), "{} refuses {}", schema, value);
            prop_assert!(providers.unwrap().is_valid(&value), "{} became {}, which refuses {}", schema, sent, value);
        }
    }

    #[test]
    fn whatever_json_a_schema_is_it_is_read_or_refused(text in "\\PC{0,40}", schema in values()) {
        let _any = Schema::of(&text);
        let _any = Schema::of(&json!({"properties": schema, "required": schema, "anyOf": schema, "$ref": schema, "type": schema, "$defs": schema}).to_string());
    }
}
