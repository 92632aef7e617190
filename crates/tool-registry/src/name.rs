//! Names, and arguments that are a name or an id.

use kernel::{Slug, strip_control};
use uuid::Uuid;

use crate::Error;

/// A new thing's name, and what it is compared by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// As a person wrote it, without spaces at the ends.
    pub(crate) text: String,
    pub(crate) slug: Slug,
}

impl Name {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let slug = Slug::of(text).map_err(|error| Error::invalid("name", error))?;
        if strip_control(text) != text || text.contains(['\n', '\t']) {
            return Err(Error::invalid(
                "name",
                "it has control characters; write it in one line of plain text",
            ));
        }
        Ok(Self {
            text: text.to_owned(),
            slug,
        })
    }
}

/// How an argument names a thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reference {
    Id(Uuid),
    Slug(String),
    /// Nothing can be called so.
    Nothing,
}

impl Reference {
    /// Reads an argument. Only an empty one is an error: whatever else nothing is called is not found.
    pub(crate) fn parse(text: &str, field: &'static str) -> Result<Self, Error> {
        if text.trim().is_empty() {
            return Err(Error::invalid(field, "it is empty; give a name or an id"));
        }
        if let Ok(id) = Uuid::try_parse(text)
            && id.hyphenated().to_string().eq_ignore_ascii_case(text)
        {
            return Ok(Self::Id(id));
        }
        Ok(Slug::of(text.trim()).map_or(Self::Nothing, |slug| Self::Slug(slug.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_an_id_or_a_name() {
        let id = "0193fb11-0000-7000-8000-00000000000a";
        let read = |text: &str| Reference::parse(text, "npc").expect("it says something");
        assert!(matches!(read(id), Reference::Id(_)));
        assert!(matches!(read(&id.to_uppercase()), Reference::Id(_)));
        assert_eq!(
            read(" Old  Keeper "),
            Reference::Slug("old-keeper".to_owned())
        );
        for nothing in ["村", &id.replace('-', ""), &"x".repeat(100_000)] {
            assert_eq!(read(nothing), Reference::Nothing);
        }
        assert!(Reference::parse(" ", "npc").is_err());
    }

    #[test]
    fn a_name_is_plain_text() {
        assert_eq!(
            Name::parse("  Old Keeper ").expect("a name").text,
            "Old Keeper"
        );
        for bad in [
            "",
            "  ",
            "!!!",
            "a\nb",
            "a\u{1b}[31m",
            "a\u{202E}b",
            "a\0b",
            &"x".repeat(65),
        ] {
            let error = Name::parse(bad).expect_err(bad);
            assert_eq!(error.field(), Some("name"), "{bad:?}");
        }
    }
}
