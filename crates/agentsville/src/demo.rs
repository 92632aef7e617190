//! What the demo needs besides a Village: a page to fetch, an MCP Server, and a Provider that plays from a script.
//!
//! **Architecture invariant:** the demo has no way into the Village that a Player does not have. The page is reached through the
//! guard, by an exemption as an Operator would write it, and the Provider over HTTP, as any Provider is.

pub(crate) mod ledger;
mod page;
mod provider;

pub(crate) use page::NoticeBoard;
pub(crate) use provider::Rehearsal;

/// An address inside the networks of many clouds, where machines keep their credentials. No page may ever be fetched there.
pub(crate) const METADATA_URL: &str = "https://169.254.169.254/latest/meta-data/";
