use serde_json::json;

use super::*;

fn page(tools: &serde_json::Value) -> Page {
    Page::parse(&JsonText::of(&json!({ "tools": tools }))).unwrap()
}

fn read(config: &Config, tools: &serde_json::Value) -> Listing {
    let mut reader = Reader::new(config, "docs");
    reader.add(&page(tools));
    reader.finish()
}

fn good(name: &str) -> serde_json::Value {
    json!({"name": name, "description": "Does it.", "inputSchema": {"type": "object", "properties": {}}})
}

fn names(listing: &Listing) -> Vec<&str> {
    listing
        .tools
        .iter()
        .map(|tool| tool.full_name.as_str())
        .collect()
}

#[test]
fn one_bad_tool_drops_that_tool_and_says_so() {
    let config = Config::default();
    for (bad, sentence) in [
        (
            json!({"name": "bad", "inputSchema": null}),
            "no inputSchema",
        ),
        (json!({"name": "bad"}), "no inputSchema"),
        (json!({"name": "bad", "inputSchema": []}), "no JSON object"),
        (
            json!({"name": "bad", "inputSchema": {"type": "string"}}),
            "takes no object",
        ),
        (
            json!({"name": "bad", "inputSchema": {"type": 7}}),
            "takes no object",
        ),
        (
            json!({"name": "bad", "inputSchema": {"properties": []}}),
            "properties that are no JSON object",
        ),
        (
            json!({"name": "bad", "inputSchema": {"properties": {"required": ["a"]}}}),
            "\"required\" that is no schema",
        ),
        (
            json!({"name": "bad", "inputSchema": {"required": "a"}}),
            "required that is no list",
        ),
    ] {
        let listing = read(&config, &json!([good("a"), bad, good("z")]));
        assert_eq!(names(&listing), ["docs__a", "docs__z"]);
        assert_eq!(listing.withheld.len(), 1);
        assert_eq!(listing.withheld[0].name, "bad");
        assert!(
            listing.withheld[0].sentence.contains(sentence),
            "{:?}",
            listing.withheld[0]
        );
    }
}

#[test]
fn a_tool_without_a_name_is_told_by_its_place() {
    let listing = read(
        &Config::default(),
        &json!([good("a"), {"inputSchema": {}}, {"name": "", "inputSchema": {}}, 7, null, "text", {"name": ["x"]}]),
    );
    assert_eq!(names(&listing), ["docs__a"]);
    let told: Vec<&str> = listing
        .withheld
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(
        told,
        ["Tool 2", "Tool 3", "Tool 4", "Tool 5", "Tool 6", "Tool 7"]
    );
}

#[test]
fn odd_descriptions_annotations_and_output_schemas_lose_no_tool() {
    let listing = read(
        &Config::default(),
        &json!([
            {"name": "a", "description": 7, "inputSchema": {}},
            {"name": "b", "description": null, "annotations": "x", "inputSchema": {}},
            {"name": "c", "outputSchema": null, "inputSchema": {}},
            {"name": "d", "outputSchema": {"type": 9}, "icons": 4, "execution": [], "inputSchema": {}},
        ]),
    );
    assert_eq!(
        names(&listing),
        ["docs__a", "docs__b", "docs__c", "docs__d"]
    );
    assert!(listing.withheld.is_empty());
}

#[test]
fn a_description_of_a_megabyte_costs_its_own_tool() {
    let huge = json!({"name": "huge", "description": "x".repeat(1 << 20), "inputSchema": {}});
    let listing = read(&Config::default(), &json!([huge, good("a")]));
    assert_eq!(names(&listing), ["docs__a"]);
    assert!(
        listing.withheld[0].sentence.contains("at most 65536"),
        "{:?}",
        listing.withheld
    );
}

#[test]
fn a_deep_schema_costs_its_own_tool() {
    let mut schema = json!({});
    for _ in 0..40 {
        schema = json!({"properties": {"a": schema}});
    }
    let listing = read(
        &Config::default(),
        &json!([{"name": "deep", "inputSchema": schema}, good("a")]),
    );
    assert_eq!(names(&listing), ["docs__a"]);
    assert!(
        listing.withheld[0].sentence.contains("deep"),
        "{:?}",
        listing.withheld
    );
}

#[test]
fn names_with_control_characters_and_foreign_letters_are_seen_for_what_they_are() {
    let listing = read(
        &Config::default(),
        &json!([
            good("search"),
            good("se\u{430}rch"),
            good("search\u{1b}[2J"),
            good("a\nb")
        ]),
    );
    assert_eq!(listing.tools.len(), 4);
    for tool in &listing.tools {
        assert!(
            tool.full_name.parse::<kernel::ToolName>().is_ok(),
            "{}",
            tool.full_name
        );
    }
    // The server is called by the name that it chose.
    assert!(
        listing
            .tools
            .iter()
            .any(|tool| tool.definition.name == "se\u{430}rch")
    );
}

#[test]
fn a_tool_that_is_listed_twice_is_offered_once() {
    let listing = read(&Config::default(), &json!([good("a"), good("a")]));
    assert_eq!(names(&listing), ["docs__a"]);
    assert!(listing.withheld[0].sentence.contains("twice"));
}

#[test]
fn a_collision_refuses_the_tool_whose_name_was_made_and_names_both_in_any_order() {
    let made = full_name("docs", "a.b");
    let crafted = made.strip_prefix("docs__").unwrap().to_owned();
    for tools in [
        json!([good("a.b"), good(&crafted)]),
        json!([good(&crafted), good("a.b")]),
    ] {
        let listing = read(&Config::default(), &tools);
        assert_eq!(listing.tools.len(), 1);
        assert_eq!(listing.tools[0].definition.name, crafted);
        assert_eq!(listing.withheld[0].name, "a.b");
        assert!(
            listing.withheld[0].sentence.contains(&crafted),
            "{:?}",
            listing.withheld
        );
    }
}

#[test]
fn too_many_tools_are_not_read_and_that_is_said() {
    let config = Config {
        max_listed_tools: 10,
        ..Config::default()
    };
    let tools: Vec<_> = (0..20).map(|n| good(&format!("t{n:02}"))).collect();
    let listing = read(&config, &json!(tools));
    assert_eq!(listing.tools.len(), 10);
    assert!(listing.cut.contains("more than 10"), "{}", listing.cut);
}

#[test]
fn too_many_bytes_are_not_read_and_that_is_said() {
    let config = Config {
        list_bytes: 1_000,
        ..Config::default()
    };
    let tools: Vec<_> = (0..20).map(|n| good(&format!("t{n:02}"))).collect();
    let listing = read(&config, &json!(tools));
    assert!(listing.tools.len() < 20 && !listing.tools.is_empty());
    assert!(listing.cut.contains("1000 bytes"), "{}", listing.cut);
}

#[test]
fn a_flood_of_bad_tools_is_counted_and_not_named() {
    let tools: Vec<_> = (0..200).map(|n| json!({"name": format!("t{n}")})).collect();
    let listing = read(&Config::default(), &json!(tools));
    assert_eq!(listing.withheld.len(), 64);
    assert!(listing.cut.contains("136 more"), "{}", listing.cut);
}

#[test]
fn an_empty_cursor_is_a_cursor_and_one_that_is_no_text_is_none() {
    let cursor = |json: serde_json::Value| Page::parse(&JsonText::of(&json)).unwrap().next_cursor();
    assert_eq!(
        cursor(json!({"tools": [], "nextCursor": ""})),
        Some(String::new())
    );
    assert_eq!(
        cursor(json!({"tools": [], "nextCursor": "2"})),
        Some("2".to_owned())
    );
    assert_eq!(cursor(json!({"tools": [], "nextCursor": null})), None);
    assert_eq!(cursor(json!({"tools": [], "nextCursor": 7})), None);
    assert_eq!(cursor(json!({"tools": []})), None);
    assert!(Page::parse(&JsonText::of(&json!({"tools": {}}))).is_err());
    assert!(Page::parse(&JsonText::of(&json!(["x"]))).is_err());
}

#[test]
fn a_definition_is_named_by_what_the_model_reads_of_it() {
    let one = read(
        &Config::default(),
        &json!([{"name": "a", "description": "x\u{7}", "inputSchema": {"b": 1, "a": 2}}]),
    );
    let other = read(
        &Config::default(),
        &json!([{"inputSchema": {"a": 2, "b": 1}, "description": "x", "name": "a", "_meta": {"v": 2}}]),
    );
    assert_eq!(one.tools[0].hash, other.tools[0].hash);
}

#[test]
fn a_name_that_is_too_long_costs_its_own_tool() {
    let listing = read(
        &Config::default(),
        &json!([good(&"x".repeat(513)), good("a")]),
    );
    assert_eq!(names(&listing), ["docs__a"]);
    assert!(
        listing.withheld[0].sentence.contains("513 bytes"),
        "{:?}",
        listing.withheld
    );
}
