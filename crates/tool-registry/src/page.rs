//! Pages of lists. Ids are UUIDv7, so the newest is the largest, and a page goes on below the last id of the one before.

use kernel::limits::PAGE_ROWS;
use uuid::Uuid;

use crate::Error;

/// Which rows are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) rows: u64,
    /// Only older ones than this.
    pub(crate) below: Option<Uuid>,
}

/// Rows, and where the next page begins.
#[derive(Debug)]
pub(crate) struct Paged<T> {
    pub(crate) rows: Vec<T>,
    pub(crate) next: String,
}

impl Page {
    pub(crate) fn parse(size: u32, token: &str) -> Result<Self, Error> {
        if size > PAGE_ROWS {
            return Err(Error::invalid(
                "page_size",
                format_args!("{size} rows are too many; at most {PAGE_ROWS} are allowed"),
            ));
        }
        let below = if token.is_empty() {
            None
        } else {
            let token = Uuid::try_parse(token).map_err(|_source| {
                Error::invalid(
                    "page_token",
                    "it is not one that a page gave; leave it out for the first page",
                )
            })?;
            Some(token)
        };
        let rows = u64::from(if size == 0 { PAGE_ROWS } else { size });
        Ok(Self { rows, below })
    }

    /// Takes one row more than the page has, which says whether there is a next one.
    pub(crate) fn cut<T>(self, mut rows: Vec<T>, id: impl Fn(&T) -> Uuid) -> Paged<T> {
        let wanted = usize::try_from(self.rows).unwrap_or(usize::MAX);
        let more = rows.len() > wanted;
        rows.truncate(wanted);
        let next = match rows.last() {
            Some(last) if more => id(last).to_string(),
            Some(_) | None => String::new(),
        };
        Paged { rows, next }
    }
}
