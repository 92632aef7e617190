//! Attributes.

/// The attributes that somebody reads; all others are dropped where they arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Alt,
    AriaHidden,
    Class,
    Colspan,
    Content,
    DataLang,
    DataSrc,
    Hidden,
    Height,
    Href,
    HttpEquiv,
    Id,
    Name,
    Open,
    Popover,
    Property,
    Role,
    Rowspan,
    Src,
    Srcset,
    Start,
    Style,
    Title,
    Type,
    Value,
    Width,
}

impl Key {
    /// The attribute's name in HTML.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Alt => "alt",
            Self::AriaHidden => "aria-hidden",
            Self::Class => "class",
            Self::Colspan => "colspan",
            Self::Content => "content",
            Self::DataLang => "data-lang",
            Self::DataSrc => "data-src",
            Self::Hidden => "hidden",
            Self::Height => "height",
            Self::Href => "href",
            Self::HttpEquiv => "http-equiv",
            Self::Id => "id",
            Self::Name => "name",
            Self::Open => "open",
            Self::Popover => "popover",
            Self::Property => "property",
            Self::Role => "role",
            Self::Rowspan => "rowspan",
            Self::Src => "src",
            Self::Srcset => "srcset",
            Self::Start => "start",
            Self::Style => "style",
            Self::Title => "title",
            Self::Type => "type",
            Self::Value => "value",
            Self::Width => "width",
        }
    }

    /// The attribute of that name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "alt" => Self::Alt,
            "aria-hidden" => Self::AriaHidden,
            "class" => Self::Class,
            "colspan" => Self::Colspan,
            "content" => Self::Content,
            "data-lang" | "data-language" => Self::DataLang,
            "data-src" | "data-original" => Self::DataSrc,
            "hidden" => Self::Hidden,
            "height" => Self::Height,
            "href" => Self::Href,
            "http-equiv" => Self::HttpEquiv,
            "id" => Self::Id,
            "name" => Self::Name,
            "open" => Self::Open,
            "popover" => Self::Popover,
            "property" => Self::Property,
            "role" => Self::Role,
            "rowspan" => Self::Rowspan,
            "src" => Self::Src,
            "srcset" => Self::Srcset,
            "start" => Self::Start,
            "style" => Self::Style,
            "title" => Self::Title,
            "type" => Self::Type,
            "value" => Self::Value,
            "width" => Self::Width,
            _ => return None,
        })
    }
}
