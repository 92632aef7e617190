//! Typed ids: UUIDv7 (RFC 9562 §5.7), so that they sort by the time they were minted.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Clock, Timestamp};

/// Text that is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an id: ids are UUIDs")]
pub struct InvalidId {
    /// What was given, cut at 64 characters.
    pub text: String,
}

/// Makes a UUIDv7 whose sub-millisecond part fills `rand_a` (RFC 9562 §6.2, method 3), so that ids order to the microsecond.
fn uuid_at(at: Timestamp) -> Uuid {
    let micros = u64::try_from(at.as_micros()).unwrap_or(0);
    let (millis, rest) = (micros / 1_000, micros % 1_000);
    let fraction = u16::try_from(rest * 4_096 / 1_000).unwrap_or(0);
    let mut tail = [0_u8; 10];
    tail.copy_from_slice(&Uuid::new_v4().as_bytes()[6..]);
    tail[..2].copy_from_slice(&fraction.to_be_bytes());
    uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
}

macro_rules! typed_ids {
    ($($(#[$doc:meta])* $name:ident,)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Mints a new id at the clock's time.
            pub fn mint(clock: &dyn Clock) -> Self {
                Self(uuid_at(clock.now()))
            }

            /// Takes an id that was stored.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The id as it is stored.
            pub const fn as_uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            /// Reads the hyphenated form only: one id has one spelling.
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let invalid = || InvalidId { text: text.chars().take(64).collect() };
                if text.len() != uuid::fmt::Hyphenated::LENGTH {
                    return Err(invalid());
                }
                Uuid::try_parse(text).map(Self).map_err(|_source| invalid())
            }
        }
    )+};
}

typed_ids! {
    /// An agent.
    NpcId,
    /// A user. The Operator is one too.
    PlayerId,
    /// One row of the grants table.
    GrantId,
    /// A Conversation between a Player and an NPC.
    ConversationId,
    /// A Message of a Conversation.
    MessageId,
    /// One running or finished Turn.
    TurnId,
    /// A Tool call. Never the Provider's id, which may repeat.
    CallId,
    /// What a Tool gave that is no text.
    MediaId,
    /// A registered MCP Server.
    McpServerId,
    /// A Skill.
    SkillId,
    /// An audit row.
    AuditId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct At(i64);
    impl Clock for At {
        fn now(&self) -> Timestamp {
            Timestamp::from_micros(self.0)
        }
    }

    #[test]
    fn ids_sort_by_the_microsecond_they_were_minted_at() {
        let minted: Vec<NpcId> = (0..500)
            .map(|n| NpcId::mint(&At(1_800_000_000_000_000 + n)))
            .collect();
        assert!(minted.is_sorted());
        assert_eq!(minted[0].as_uuid().get_version_num(), 7);
    }

    #[test]
    fn an_id_has_one_spelling() {
        let id = PlayerId::mint(&At(1));
        assert_eq!(id.to_string().parse::<PlayerId>(), Ok(id));
        for bad in [
            "",
            "nope",
            &id.to_string().replace('-', ""),
            &format!("{{{id}}}"),
            &format!("urn:uuid:{id}"),
        ] {
            assert!(bad.parse::<PlayerId>().is_err(), "{bad}");
        }
    }
}
