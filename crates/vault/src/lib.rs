//! Seals and unseals credentials.
//!
//! A key is derived from the Village's root secret by HKDF-SHA-256 (RFC 5869); values are sealed with AES-256-GCM (NIST SP 800-38D) under a
//! random nonce, and bound to where they are stored: what was sealed for one row and field does not unseal in another. Beside
//! the ciphertext stands an id of the key, so that a rotated secret is told from damage.
//!
//! **Architecture invariant:** knows nothing of what it seals, nor where that is stored.

mod file;
mod sealed;
#[cfg(test)]
mod tests;

use std::fmt;

use aes_gcm::{
    Aes256Gcm, KeyInit as _, Nonce,
    aead::{Aead as _, Generate as _, Payload, consts::U12},
};
use hkdf::Hkdf;
use kernel::Secret;
use sha2::Sha256;
use zeroize::Zeroizing;

pub use file::{
    SECRET_FILE, SecretFileError, load_or_create_secret, load_or_create_secret_file, random_secret,
};
pub use sealed::{InvalidSealed, KeyId, Sealed};

/// The fewest bytes of a root secret.
pub const SECRET_BYTES: usize = 32;
/// The most bytes of one sealed value: a header, a token, an environment value.
pub const VALUE_BYTES: usize = 64 * 1_024;

const SALT: &[u8] = b"agentsville/vault/v1";
const KEY_INFO: &[u8] = b"credentials/aes-256-gcm";
const KEY_ID_INFO: &[u8] = b"credentials/key-id";

/// Where a sealed value is stored. It is authenticated with the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'i> {
    /// The kind of row: `mcp_server`.
    pub kind: &'i str,
    /// The row's id.
    pub id: &'i str,
    /// The field, and within it what is named: `headers.authorization`.
    pub field: &'i str,
}

impl Identity<'_> {
    /// Unambiguous bytes: each part behind its length.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in [self.kind, self.id, self.field] {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes
    }
}

/// Why a value was not sealed, or no vault was made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The root secret is too short.
    #[error(
        "the root secret has {0} bytes, and at least {SECRET_BYTES} are needed; set BETTER_AUTH_SECRET to the output of `openssl rand -base64 32`"
    )]
    ShortSecret(usize),
    /// The value is too long.
    #[error("a value of {0} bytes is too long to be sealed; at most {VALUE_BYTES} are allowed")]
    TooLong(usize),
}

/// Why a value cannot be read any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsealError {
    /// It was sealed under another root secret.
    #[error(
        "credentials unreadable, enter them again: the root secret was changed since they were saved"
    )]
    WrongKey,
    /// It is not what was sealed for this row and field.
    #[error("credentials unreadable, enter them again: what is stored is damaged")]
    Corrupt,
}

/// Seals and unseals under one root secret. `Debug` shows the key's id only.
pub struct Vault {
    cipher: Aes256Gcm,
    key_id: KeyId,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

impl Vault {
    /// Derives the key from the root secret.
    ///
    /// # Errors
    /// [`SealError::ShortSecret`] below [`SECRET_BYTES`].
    pub fn new(secret: &Secret) -> Result<Self, SealError> {
        let secret = secret.expose().as_bytes();
        let short = || SealError::ShortSecret(secret.len());
        if secret.len() < SECRET_BYTES {
            return Err(short());
        }
        let derived = Hkdf::<Sha256>::new(Some(SALT), secret);
        let mut key = Zeroizing::new([0; 32]);
        let mut key_id = [0; KeyId::BYTES];
        // Neither length is one that HKDF or the cipher refuses.
        derived
            .expand(KEY_INFO, key.as_mut())
            .map_err(|_length| short())?;
        derived
            .expand(KEY_ID_INFO, &mut key_id)
            .map_err(|_length| short())?;
        let cipher = Aes256Gcm::new_from_slice(key.as_ref()).map_err(|_length| short())?;
        Ok(Self {
            cipher,
            key_id: KeyId::new(key_id),
        })
    }

    /// The id of this vault's key. It says nothing of the key.
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// Seals a value for where it is stored.
    ///
    /// # Errors
    /// [`SealError::TooLong`] beyond [`VALUE_BYTES`].
    pub fn seal(&self, identity: &Identity<'_>, value: &Secret) -> Result<Sealed, SealError> {
        let value = value.expose().as_bytes();
        let too_long = || SealError::TooLong(value.len());
        if value.len() > VALUE_BYTES {
            return Err(too_long());
        }
        let nonce = Nonce::<U12>::generate();
        let payload = Payload {
            msg: value,
            aad: &identity.bytes(),
        };
        // The cipher fails on lengths beyond 64 GiB only.
        let ciphertext = self
            .cipher
            .encrypt(&nonce, payload)
            .map_err(|_length| too_long())?;
        let mut bytes = nonce.to_vec();
        bytes.extend_from_slice(&ciphertext);
        Ok(Sealed::new(self.key_id, bytes))
    }

    /// Unseals a value that is stored there.
    ///
    /// # Errors
    /// [`UnsealError::WrongKey`] when the root secret was changed, [`UnsealError::Corrupt`] when the value was damaged, or belongs to another row or field.
    pub fn unseal(&self, identity: &Identity<'_>, sealed: &Sealed) -> Result<Secret, UnsealError> {
        if sealed.key_id() != self.key_id {
            return Err(UnsealError::WrongKey);
        }
        let (nonce, ciphertext) = sealed.split().ok_or(UnsealError::Corrupt)?;
        let payload = Payload {
            msg: ciphertext,
            aad: &identity.bytes(),
        };
        let value = self
            .cipher
            .decrypt(&Nonce::<U12>::from(nonce), payload)
            .map_err(|_opaque| UnsealError::Corrupt)?;
        String::from_utf8(value)
            .map(Secret::new)
            .map_err(|_not_text| UnsealError::Corrupt)
    }
}
