//! The registry's tables.
//!
//! Rows that are read to be changed are locked first: `FOR UPDATE` on PostgreSQL; on SQLite, where sea-orm leaves the clause
//! out, the one writer is the lock.

pub(crate) mod audit;
pub(crate) mod grant;
pub(crate) mod mcp_server;
pub(crate) mod npc;
pub(crate) mod pin;
pub(crate) mod player;

use kernel::JsonText;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select};
use store::Json;

use crate::page::Page;

/// Names among which the nearest to one that was not found is looked for.
const SUGGESTED_FROM: u64 = 1_000;

/// How a row is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    /// To look at it.
    None,
    /// To refer to it: it stays until the transaction ends.
    Shared,
    /// To change it.
    Exclusive,
}

impl Lock {
    fn on<E: EntityTrait>(self, select: Select<E>) -> Select<E> {
        match self {
            Self::None => select,
            Self::Shared => select.lock_shared(),
            Self::Exclusive => select.lock_exclusive(),
        }
    }
}

/// Newest first, one row more than the page has.
fn paged<E: EntityTrait>(select: Select<E>, id: impl ColumnTrait, page: Page) -> Select<E> {
    let select = match page.below {
        Some(below) => select.filter(id.lt(below)),
        None => select,
    };
    select.order_by_desc(id).limit(page.rows + 1)
}

/// A list of texts, as it is stored.
fn list(texts: &[String]) -> Json {
    Json(JsonText::of(&texts))
}

fn read_list(json: &Json) -> Result<Vec<String>, serde_json::Error> {
    serde_json::from_str(json.0.as_str())
}
