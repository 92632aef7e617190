//! Secrets in a body: read, passed on, and never repeated.

use kernel::Secret;
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

/// Secrets with names, such as headers. `null` and `{}` are none.
///
/// **Invariant:** neither `Debug` nor a refusal of what cannot be read shows a value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets(pub(crate) Vec<(String, Secret)>);

impl<'de> Deserialize<'de> for Secrets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = match Value::deserialize(deserializer)? {
            Value::Null => return Ok(Self::default()),
            Value::Object(map) => map,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(D::Error::custom(
                    "write an object of names and values, such as {\"x-key\": \"…\"}",
                ));
            }
        };
        map.into_iter()
            .map(|(name, value)| match value {
                Value::String(text) => Ok((name, Secret::new(text))),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => {
                    let shown: String = name.chars().take(64).collect();
                    Err(D::Error::custom(format!(
                        "the value of {shown:?} is no text; write it in quotes"
                    )))
                }
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl Secrets {
    /// A field that was given, be it as `null`: what is absent is kept, and what is given replaces.
    pub(crate) fn given<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Self>, D::Error> {
        Self::deserialize(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    struct Body {
        #[serde(default, deserialize_with = "Secrets::given")]
        headers: Option<Secrets>,
    }

    fn read(json: &str) -> Result<Option<usize>, String> {
        serde_json::from_str(json)
            .map(|body: Body| body.headers.map(|headers| headers.0.len()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn absent_keeps_null_and_empty_clear_and_an_object_replaces() {
        assert_eq!(read("{}"), Ok(None));
        assert_eq!(read(r#"{"headers":null}"#), Ok(Some(0)));
        assert_eq!(read(r#"{"headers":{}}"#), Ok(Some(0)));
        assert_eq!(
            read(r#"{"headers":{"authorization":"Bearer x"}}"#),
            Ok(Some(1))
        );
    }

    #[test]
    fn a_value_is_repeated_by_neither_a_refusal_nor_debug() {
        for wrong in [
            r#"{"headers":{"x-key":8675309}}"#,
            r#"{"headers":{"x-key":["8675309"]}}"#,
            r#"{"headers":"8675309"}"#,
        ] {
            let refusal = read(wrong).unwrap_err();
            assert!(!refusal.contains("8675309"), "{refusal}");
        }
        let body: Body = serde_json::from_str(r#"{"headers":{"x-key":"8675309"}}"#).unwrap();
        assert!(!format!("{body:?}").contains("8675309"));
    }
}
