//! Colours, where they are wanted.

/// What the output can bear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Not a terminal: text only, no progress.
    Plain,
    /// A terminal without colours.
    Terminal,
    /// A terminal with colours.
    Colours,
}

/// What a piece of text is, and so how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// Who speaks.
    Speaker,
    /// A Tool's name.
    Tool,
    /// It went well.
    Good,
    /// It failed.
    Bad,
    /// Something to know.
    Notice,
    /// Less important than the rest.
    Quiet,
}

impl Style {
    /// Whether it is a terminal, where progress can be shown and taken back.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Plain => false,
            Self::Terminal | Self::Colours => true,
        }
    }

    /// The text in this ink.
    pub fn paint(self, ink: Ink, text: &str) -> String {
        match self {
            Self::Plain | Self::Terminal => text.to_owned(),
            Self::Colours => format!("\u{1b}[{}m{text}\u{1b}[0m", ink.code()),
        }
    }
}

impl Ink {
    /// Select Graphic Rendition (ECMA-48 §8.3.117). The basic colours only, which follow the person's theme.
    const fn code(self) -> &'static str {
        match self {
            Self::Speaker => "1",
            Self::Tool => "1;36",
            Self::Good => "32",
            Self::Bad => "1;31",
            Self::Notice => "33",
            Self::Quiet => "2",
        }
    }
}
