//! What the page for Operators says.

const PAGE: &str = include_str!("../../../../docs/guard.md");
const RULES: &str = include_str!("../../src/rule.rs");

#[test]
fn the_page_names_every_rule() {
    let names: Vec<&str> = RULES
        .lines()
        .filter(|line| line.trim_start().starts_with("Self::"))
        .filter_map(|line| line.split_once("=> \"")?.1.split('"').next())
        .collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        assert!(PAGE.contains(&format!("`{name}`")), "{name}");
    }
}
