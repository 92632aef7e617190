mod mcp;

use super::*;

fn grant(kind: GrantKind, target: &str) -> Grant {
    Grant {
        kind,
        target: target.to_owned(),
        server: None,
    }
}

fn gather(grants: &[Grant], fetch: &FetchState, listed: &Listed) -> Gathered {
    let known = Known {
        toolbox: &Toolbox::compile().unwrap(),
        schemas: &Schemas::default(),
        fetch,
        listed,
    };
    ToolSet::build(grants, &known)
}

fn build(grants: &[Grant], fetch: &FetchState) -> ToolSet {
    gather(grants, fetch, &Listed::default()).tools
}

fn names(tools: &ToolSet) -> Vec<String> {
    tools
        .specs()
        .into_iter()
        .map(|spec| spec.name.to_string())
        .collect()
}

#[test]
fn an_npc_without_grants_has_no_tools() {
    let tools = build(&[], &FetchState::Ready);
    assert!(tools.is_empty() && tools.unavailable().is_empty());
}

#[test]
fn the_order_of_tools_does_not_depend_on_the_order_of_grants() {
    let a = grant(GrantKind::Tool, "fetch_url");
    let b = grant(GrantKind::Tool, "current_time");
    let one = build(&[a.clone(), b.clone()], &FetchState::Ready);
    let other = build(&[b, a], &FetchState::Ready);
    assert_eq!(names(&one), ["current_time", "fetch_url"]);
    assert_eq!(one.specs(), other.specs());
}

#[test]
fn what_cannot_be_offered_is_named_with_its_reason() {
    let tools = build(
        &[
            grant(GrantKind::Tool, "fetch_url"),
            grant(GrantKind::Tool, "teleport"),
            grant(GrantKind::Family, "sandbox"),
            grant(GrantKind::Family, "memory"),
            grant(GrantKind::Mcp, "Docs"),
            grant(GrantKind::Npc, "Old Keeper"),
        ],
        &FetchState::Unavailable("The fetch-proxy cannot be reached.".to_owned()),
    );
    assert!(tools.is_empty());
    let named: Vec<(&str, &str)> = tools
        .unavailable()
        .iter()
        .map(|tools| (tools.what.as_str(), tools.sentence.as_str()))
        .collect();
    assert_eq!(
        named,
        [
            ("family:memory", "This Village has no memory."),
            ("family:sandbox", "This Village runs no sandbox-broker."),
            ("mcp:Docs", "This Village runs no mcp-gateway."),
            (
                "npc:Old Keeper",
                "Colleagues cannot be asked yet in this Village."
            ),
            ("tool:fetch_url", "The fetch-proxy cannot be reached."),
            (
                "tool:teleport",
                "This release has no built-in Tool \"teleport\"."
            ),
        ]
    );
}

#[test]
fn a_name_outside_the_set_does_not_exist_and_the_nearest_is_named() {
    let tools = build(
        &[
            grant(GrantKind::Tool, "fetch_url"),
            grant(GrantKind::Tool, "current_time"),
        ],
        &FetchState::Ready,
    );
    assert_eq!(tools.find("bash"), None);
    assert!(tools.find("fetch_url").is_some());
    assert_eq!(
        tools.no_such_tool("fetchurl"),
        "there is no such tool \"fetchurl\"; did you mean \"fetch_url\"?"
    );
    assert_eq!(
        tools.no_such_tool("xyzzy"),
        "there is no such tool \"xyzzy\"; you have current_time, fetch_url."
    );
    assert_eq!(
        build(&[], &FetchState::Ready).no_such_tool("bash"),
        "there is no such tool \"bash\": you have no Tools."
    );
}
