//! Why a body was not read.

/// A reading that there is not, in a sentence for a person or a model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The deadline passed while the page was read, and not even a plain text of it could be made.
    #[error("the page took too long to read; try a smaller page of the same site")]
    TooSlow,
    /// The deadline passed while the page waited for its turn.
    #[error(
        "too many pages are being read at this moment, and this one had to wait too long; try again"
    )]
    Busy,
    /// The program that reads could not be started.
    #[error("the page arrived but could not be read, since its reader did not start")]
    Failed(#[source] std::io::Error),
}
