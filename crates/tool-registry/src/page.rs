//! Pages of lists. Ids are UUIDv7, so the newest is the largest, and a page goes on below the last id of the one before.

use kernel::limits::{PAGE_ROWS, RPC_MESSAGE_BYTES};
use uuid::Uuid;

use crate::Error;

/// Bytes after which a page ends. With its last row it stays below 4 MiB, which is all that tonic's clients take unless told otherwise.
const PAGE_BYTES: usize = RPC_MESSAGE_BYTES / 4;

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

    /// Takes one row more than the page has, which says whether there is a next one. A page with long rows ends early, at
    /// [`PAGE_BYTES`], so that it always fits into an answer; it has at least one row.
    pub(crate) fn cut<T>(
        self,
        mut rows: Vec<T>,
        id: impl Fn(&T) -> Uuid,
        bytes: impl Fn(&T) -> usize,
    ) -> Paged<T> {
        let wanted = usize::try_from(self.rows).unwrap_or(usize::MAX);
        let mut room = PAGE_BYTES;
        let fitting = rows
            .iter()
            .take(wanted)
            .take_while(|row| {
                let fits = room > 0;
                room = room.saturating_sub(bytes(row));
                fits
            })
            .count();
        let more = rows.len() > fitting;
        rows.truncate(fitting);
        let next = match rows.last() {
            Some(last) if more => id(last).to_string(),
            Some(_) | None => String::new(),
        };
        Paged { rows, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_at_its_rows_or_its_bytes_and_has_one_row_at_least() {
        let page = Page::parse(3, "").expect("a page");
        let cut = |sizes: &[usize]| {
            let rows: Vec<(u128, usize)> = (0..).zip(sizes.iter().copied()).collect();
            let paged = page.cut(rows, |row| Uuid::from_u128(row.0), |row| row.1);
            (paged.rows.len(), !paged.next.is_empty())
        };
        assert_eq!(cut(&[]), (0, false));
        assert_eq!(cut(&[1, 1, 1]), (3, false));
        assert_eq!(cut(&[1, 1, 1, 1]), (3, true));
        assert_eq!(cut(&[PAGE_BYTES, 1]), (1, true));
        assert_eq!(cut(&[PAGE_BYTES * 9, 1]), (1, true));
        assert_eq!(cut(&[PAGE_BYTES - 1, 1, 1]), (2, true));
    }
}
