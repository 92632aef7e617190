//! What may listen beyond this machine.

use std::net::SocketAddr;

use kernel::Secret;

/// The shortest secret that protects a listener beyond loopback, in bytes.
pub const SECRET_BYTES: usize = 32;

/// Why a listener is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExposureError {
    /// A key or secret is not set.
    #[error(
        "{what} would listen on {address}, which others can reach, and {setting} is not set; set it, or listen on 127.0.0.1"
    )]
    NotSet {
        /// The listener.
        what: String,
        /// Where.
        address: SocketAddr,
        /// The setting.
        setting: String,
    },
    /// A secret can be guessed.
    #[error(
        "{what} would listen on {address}, which others can reach, and {setting} has {bytes} bytes; at least {SECRET_BYTES} are needed"
    )]
    TooShort {
        /// The listener.
        what: String,
        /// Where.
        address: SocketAddr,
        /// The setting.
        setting: String,
        /// Its length.
        bytes: usize,
    },
}

/// Whether only this machine reaches an address. An IPv4 address inside IPv6 counts as that address.
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Refuses an address beyond loopback unless each of these settings holds at least [`SECRET_BYTES`] bytes.
pub fn check(
    what: &str,
    address: SocketAddr,
    secrets: &[(&str, &Secret)],
) -> Result<(), ExposureError> {
    if is_loopback(address) {
        return Ok(());
    }
    for (setting, secret) in secrets {
        let (what, setting) = (what.to_owned(), (*setting).to_owned());
        match secret.expose().len() {
            0 => {
                return Err(ExposureError::NotSet {
                    what,
                    address,
                    setting,
                });
            }
            bytes if bytes < SECRET_BYTES => {
                return Err(ExposureError::TooShort {
                    what,
                    address,
                    setting,
                    bytes,
                });
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_every_secret_must_be_set_and_long() {
        let (none, short, long) = (
            Secret::default(),
            Secret::new("x".repeat(31)),
            Secret::new("x".repeat(32)),
        );
        let open = SocketAddr::from(([0, 0, 0, 0], 1));
        assert_eq!(check("gRPC", open, &[("keys.private", &long)]), Ok(()));
        for local in [
            "127.0.0.1:1",
            "127.9.9.9:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert_eq!(
                check("gRPC", local.parse().unwrap(), &[("secret", &none)]),
                Ok(())
            );
        }
        assert_eq!(
            check("gRPC", open, &[("secret", &long), ("keys.private", &none)])
                .unwrap_err()
                .to_string(),
            "gRPC would listen on 0.0.0.0:1, which others can reach, and keys.private is not set; set it, or listen on 127.0.0.1"
        );
        assert!(matches!(
            check("gRPC", "[::]:1".parse().unwrap(), &[("secret", &short)]),
            Err(ExposureError::TooShort { bytes: 31, .. })
        ));
    }
}
