//! A sealed value, as it is stored.

use std::{fmt, str::FromStr};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};

use crate::VALUE_BYTES;

const VERSION: &str = "v1";
pub(crate) const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
/// The longest text that can be a sealed value.
const TEXT_BYTES: usize = (NONCE_BYTES + VALUE_BYTES + TAG_BYTES) * 4 / 3 + 64;

/// Which key sealed a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId([u8; Self::BYTES]);

impl KeyId {
    pub(crate) const BYTES: usize = 6;

    pub(crate) const fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64_URL_SAFE_NO_PAD.encode(self.0))
    }
}

/// A text that is no sealed value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("what is stored is not a sealed value")]
pub struct InvalidSealed;

/// A sealed value. Its text is `v1.KEY.BYTES`, in base64url (RFC 4648 §5) without padding; the bytes are nonce, ciphertext and tag.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    key_id: KeyId,
    bytes: Vec<u8>,
}

impl Sealed {
    pub(crate) const fn new(key_id: KeyId, bytes: Vec<u8>) -> Self {
        Self { key_id, bytes }
    }

    /// Which key sealed it.
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    pub(crate) fn split(&self) -> Option<([u8; NONCE_BYTES], &[u8])> {
        let (nonce, ciphertext) = self.bytes.split_first_chunk()?;
        Some((*nonce, ciphertext))
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({}, {} bytes)", self.key_id, self.bytes.len())
    }
}

impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = BASE64_URL_SAFE_NO_PAD.encode(&self.bytes);
        write!(f, "{VERSION}.{}.{bytes}", self.key_id)
    }
}

impl FromStr for Sealed {
    type Err = InvalidSealed;

    fn from_str(text: &str) -> Result<Self, InvalidSealed> {
        if text.len() > TEXT_BYTES {
            return Err(InvalidSealed);
        }
        let mut parts = text.split('.');
        let (Some(VERSION), Some(key_id), Some(bytes), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(InvalidSealed);
        };
        let decode = |text: &str| {
            BASE64_URL_SAFE_NO_PAD
                .decode(text)
                .map_err(|_encoding| InvalidSealed)
        };
        let key_id: [u8; KeyId::BYTES] = decode(key_id)?
            .try_into()
            .map_err(|_length| InvalidSealed)?;
        let bytes = decode(bytes)?;
        if bytes.len() < NONCE_BYTES + TAG_BYTES {
            return Err(InvalidSealed);
        }
        Ok(Self::new(KeyId(key_id), bytes))
    }
}
