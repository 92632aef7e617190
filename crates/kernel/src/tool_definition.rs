//! What an MCP Server says of a Tool, and how a change of it is told.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::JsonText;

/// A Tool as its server defines it: all that a model would read of it, so that whoever pins it pins what was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDefinition {
    /// Its name at the server.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Its input: a JSON Schema.
    pub input_schema: JsonText,
    /// Its annotations, if it has some.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub annotations: Option<JsonText>,
}

impl ToolDefinition {
    /// The definition as canonical JSON: keys in order on every level, so that a server which writes the same in another order
    /// has changed nothing.
    pub fn canonical(&self) -> JsonText {
        JsonText::of(self).canonical()
    }

    /// SHA-256 (FIPS 180-4) of [`Self::canonical`], in lower-case hexadecimal.
    pub fn hash(&self) -> String {
        Self::hash_of(&self.canonical())
    }

    /// The hash of a canonical definition.
    pub fn hash_of(canonical: &JsonText) -> String {
        use std::fmt::Write as _;
        let digest = Sha256::digest(canonical.as_str());
        let mut hash = String::with_capacity(64);
        for byte in digest {
            let _infallible = write!(hash, "{byte:02x}");
        }
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(schema: &str, annotations: Option<&str>) -> ToolDefinition {
        ToolDefinition {
            name: "search".to_owned(),
            description: "Searches.".to_owned(),
            input_schema: JsonText::parse(schema).unwrap(),
            annotations: annotations.map(|text| JsonText::parse(text).unwrap()),
        }
    }

    #[test]
    fn the_order_of_keys_changes_nothing() {
        let one = definition(
            r#"{"type":"object","properties":{"b":1,"a":{"y":2,"x":[{"q":1,"p":2}]}}}"#,
            None,
        );
        let other = definition(
            r#"{ "properties":{"a":{"x":[{"p":2,"q":1}],"y":2},"b":1}, "type":"object"}"#,
            None,
        );
        assert_eq!(one.hash(), other.hash());
        assert_eq!(one.hash().len(), 64);
    }

    #[test]
    fn every_other_change_changes_the_hash() {
        let before = definition(
            r#"{"type":"object","maximum":12345678901234567890123}"#,
            None,
        );
        let changed = [
            definition(
                r#"{"type":"object","maximum":12345678901234567890124}"#,
                None,
            ),
            definition(
                r#"{"type":"object","maximum":12345678901234567890123}"#,
                Some("{}"),
            ),
            ToolDefinition {
                description: "Searches. ".to_owned(),
                ..before.clone()
            },
            ToolDefinition {
                name: "Search".to_owned(),
                ..before.clone()
            },
        ];
        for after in changed {
            assert_ne!(before.hash(), after.hash(), "{after:?}");
        }
    }

    #[test]
    fn a_definition_reads_back_from_its_canonical_form() {
        let definition = definition(r#"{"type":"object"}"#, Some(r#"{"readOnlyHint":true}"#));
        let back: ToolDefinition = serde_json::from_str(definition.canonical().as_str()).unwrap();
        assert_eq!(back.hash(), definition.hash());
    }
}
