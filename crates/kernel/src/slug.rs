//! Names that are unique in a Village.

use std::fmt;

/// Why a name cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSlug {
    /// Nothing is left of the name.
    #[error("the name {0:?} has no letter or digit from a-z, 0-9; give it at least one")]
    Empty(String),
    /// The name is too long.
    #[error("the name is {0} characters long; at most {max} are allowed", max = Slug::MAX)]
    TooLong(usize),
    /// The name reads as an id, and arguments take names and ids.
    #[error("the name {0:?} looks like an id; choose a name that does not")]
    LooksLikeId(String),
}

/// A name as it is compared: `[a-z0-9-]`, at most 64 characters. "Old Keeper" and "old-keeper" are the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slug(String);

impl Slug {
    /// The longest name, in characters: a server's slug must leave room for its Tools' names.
    pub const MAX: usize = 64;

    /// Reads a name: letters are lowered, every run of other characters becomes one `-`, and none is kept at the ends.
    pub fn of(name: &str) -> Result<Self, InvalidSlug> {
        let length = name.chars().count();
        if length > Self::MAX {
            return Err(InvalidSlug::TooLong(length));
        }
        let mut slug = String::with_capacity(name.len());
        for character in name.chars() {
            match character.to_ascii_lowercase() {
                kept @ ('a'..='z' | '0'..='9') => slug.push(kept),
                _ if slug.is_empty() || slug.ends_with('-') => {}
                _ => slug.push('-'),
            }
        }
        if slug.ends_with('-') {
            slug.pop();
        }
        if slug.is_empty() {
            return Err(InvalidSlug::Empty(name.to_owned()));
        }
        if uuid::Uuid::try_parse(&slug).is_ok() {
            return Err(InvalidSlug::LooksLikeId(name.to_owned()));
        }
        Ok(Self(slug))
    }

    /// The slug's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_slugs() {
        for (name, slug) in [
            ("Old Keeper", "old-keeper"),
            ("  a__B  ", "a-b"),
            ("Docs 2!", "docs-2"),
            ("née", "n-e"),
        ] {
            assert_eq!(Slug::of(name).map(|s| s.to_string()), Ok(slug.to_owned()));
        }
        assert!(matches!(Slug::of("村"), Err(InvalidSlug::Empty(_))));
        assert!(matches!(
            Slug::of(&"x".repeat(65)),
            Err(InvalidSlug::TooLong(65))
        ));
        assert!(matches!(
            Slug::of("0193fb11-0000-7000-8000-000000000000"),
            Err(InvalidSlug::LooksLikeId(_))
        ));
    }
}
