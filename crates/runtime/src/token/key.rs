//! Ed25519 keys.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jsonwebtoken::EncodingKey;
use kernel::Secret;
use ring::{
    rand::{SecureRandom as _, SystemRandom},
    signature::{Ed25519KeyPair, KeyPair as _},
};

/// What stands before the 32 bytes of a private key in PKCS #8 (RFC 8410 §7).
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// What stands before the 32 bytes of a public key in a `SubjectPublicKeyInfo` (RFC 8410 §4).
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// Bytes of a key in either half.
pub(super) const KEY_BYTES: usize = 32;

/// Why a key cannot be used. The key's text is not in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not an Ed25519 private key in PKCS #8.
    #[error(
        "the private key is not an Ed25519 key in PKCS #8, as PEM or base64; `agentsville keys` prints one, and so does `openssl genpkey -algorithm ed25519`"
    )]
    Private,
    /// Not an Ed25519 public key.
    #[error(
        "the public key of {issuer:?} is not base64 of the 32 bytes of an Ed25519 key, nor its PEM; `agentsville keys` prints it"
    )]
    Public {
        /// Whose key it should be.
        issuer: String,
    },
    /// The system gives no random bytes.
    #[error("the system gives no random bytes to make a key from")]
    Random,
}

/// The private half of a key: it signs caller tokens.
#[derive(Clone)]
pub struct SigningKey {
    private: Secret,
    public: [u8; KEY_BYTES],
    encoding: EncodingKey,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey")
            .field("public", &self.public_key())
            .finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Makes a new key.
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = [0_u8; KEY_BYTES];
        SystemRandom::new()
            .fill(&mut seed)
            .map_err(|_unspecified| KeyError::Random)?;
        let mut der = PKCS8_PREFIX.to_vec();
        der.extend_from_slice(&seed);
        Self::from_der(&der)
    }

    /// Reads a key as settings hold it: PKCS #8, as PEM or as base64 of its DER.
    pub fn from_setting(text: &Secret) -> Result<Self, KeyError> {
        let der = decode(text.expose(), "PRIVATE KEY").ok_or(KeyError::Private)?;
        Self::from_der(&der)
    }

    fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der)
            .map_err(|_rejected| KeyError::Private)?;
        let mut public = [0_u8; KEY_BYTES];
        public.copy_from_slice(pair.public_key().as_ref());
        Ok(Self {
            private: Secret::new(BASE64_STANDARD.encode(der)),
            public,
            encoding: EncodingKey::from_ed_der(der),
        })
    }

    /// The public half, as settings hold it: base64 of its 32 bytes.
    pub fn public_key(&self) -> String {
        BASE64_STANDARD.encode(self.public)
    }

    /// The private half, as settings hold it: base64 of PKCS #8.
    pub fn private_key(&self) -> Secret {
        self.private.clone()
    }

    pub(super) fn encoding(&self) -> &EncodingKey {
        &self.encoding
    }
}

/// Reads a public key: base64 of its 32 bytes, or PEM.
pub(super) fn public_key(issuer: &str, text: &str) -> Result<[u8; KEY_BYTES], KeyError> {
    let invalid = || KeyError::Public {
        issuer: issuer.to_owned(),
    };
    let bytes = decode(text, "PUBLIC KEY").ok_or_else(invalid)?;
    let bare = bytes.strip_prefix(&SPKI_PREFIX).unwrap_or(&bytes);
    bare.try_into().map_err(|_wrong_length| invalid())
}

/// The bytes of PEM with this label, or of plain base64.
fn decode(text: &str, label: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    let base64 = match text.strip_prefix(&format!("-----BEGIN {label}-----")) {
        Some(rest) => rest.split_once(&format!("-----END {label}-----"))?.0,
        None => text,
    };
    // A key of any length comes from outside; ours have less than a hundred bytes.
    if base64.len() > 1_024 {
        return None;
    }
    let base64: String = base64.split_whitespace().collect();
    BASE64_STANDARD.decode(base64).ok()
}
