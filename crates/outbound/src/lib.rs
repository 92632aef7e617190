//! The address guard, and connections that go only where it allows.
//!
//! Everything that leaves the Village on the word of a model, a Player or a server goes through a [`Connector`]: it resolves the
//! name itself, judges every address, connects to exactly those, and checks who is at the other end before it sends a byte. A
//! redirect is a new [`Target`], judged as the first was.
//!
//! **Architecture invariants:** nothing that is checked is resolved again afterwards; no connection is used under another
//! judgement unless that approves its very address again ([`Lane`]); no proxy, hosts file or search list has a say; an unknown is
//! a refusal. Providers' URLs are the Operator's and do not come here.

mod address;
mod body;
mod check;
mod config;
mod connection;
mod connector;
mod error;
mod exemption;
mod guard;
mod lane;
mod meter;
mod name;
mod own;
mod resolver;
mod rule;
mod target;
mod tls;

pub use address::{BlockedAddress, InvalidNat64Prefix, Nat64Prefix, Policy, Verdict, judge};
pub use body::{Body, End, RequestBody};
pub use check::{Check, CheckVerdict, check, check_offline};
pub use config::{Config, Mode};
pub use connection::Connection;
pub use connector::{Approved, Connector};
pub use error::{Error, Phase, Refusal, RegistryRow, SetUpError};
pub use exemption::{Consumer, Exemption, InvalidOpening, Opening};
pub use guard::{Guard, Standing};
pub use lane::{Lane, LaneBounds};
pub use resolver::{LOOK_UP_TIME, Resolver};
pub use rule::Rule;
pub use target::{Schemes, Security, Target, URL_BYTES};
