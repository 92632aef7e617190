//! Secrets of a Village in one process, which nobody has to set.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use aes_gcm::{Aes256Gcm, Key, aead::Generate as _};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use kernel::Secret;

use crate::SECRET_BYTES;

/// The root secret's file in the data directory.
pub const SECRET_FILE: &str = "root.secret";
/// More than any secret is long.
const FILE_BYTES: u64 = 4_096;

/// Why the secret cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// The file cannot be read or made.
    #[error("the secret {} cannot be read or made: {source}; make its directory writable for this user, or set the secret", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others may read the file.
    #[error("the secret {} can be read by other users (mode {mode:04o}); run chmod 600 on it, and set a new secret if somebody may have", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file holds something else.
    #[error("the secret {} is damaged: it holds {bytes} bytes, and at least {SECRET_BYTES} are needed; restore it from a copy, since what was sealed with it is lost without it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How many bytes it holds.
        bytes: usize,
    },
}

/// A secret of 32 random bytes, in base64url (RFC 4648 §5) without padding: 43 characters.
pub fn random_secret() -> Secret {
    Secret::new(BASE64_URL_SAFE_NO_PAD.encode(Key::<Aes256Gcm>::generate()))
}

/// Reads the root secret of this data directory, and makes one when there is none. See [`load_or_create_secret_file`].
///
/// # Errors
/// [`SecretFileError`].
pub fn load_or_create_secret(data_dir: &Path) -> Result<Secret, SecretFileError> {
    load_or_create_secret_file(data_dir, SECRET_FILE)
}

/// Reads a secret from a file of this data directory, and makes a [`random_secret`] when there is none; the directory too, for this
/// user alone. Several that come first at the same time get the same secret, and a crash leaves either none or all of it. It
/// blocks on the disk.
///
/// # Errors
/// [`SecretFileError`].
pub fn load_or_create_secret_file(data_dir: &Path, name: &str) -> Result<Secret, SecretFileError> {
    let path = data_dir.join(name);
    let failed = |source| SecretFileError::Io {
        path: path.clone(),
        source,
    };
    match read(&path)? {
        Some(secret) => return Ok(secret),
        None => create(data_dir, name).map_err(failed)?,
    }
    read(&path)?.ok_or_else(|| failed(io::Error::from(io::ErrorKind::NotFound)))
}

fn read(path: &Path) -> Result<Option<Secret>, SecretFileError> {
    let failed = |source| SecretFileError::Io {
        path: path.to_owned(),
        source,
    };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mode = file.metadata().map_err(failed)?.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(SecretFileError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    let mut text = String::new();
    file.take(FILE_BYTES)
        .read_to_string(&mut text)
        .map_err(failed)?;
    let secret = Secret::new(text.trim());
    let bytes = secret.expose().len();
    if bytes < SECRET_BYTES {
        return Err(SecretFileError::Damaged {
            path: path.to_owned(),
            bytes,
        });
    }
    Ok(Some(secret))
}

/// Writes the secret aside, and links it into place only when it is whole and no other is there.
fn create(data_dir: &Path, name: &str) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data_dir)?;
    let path = data_dir.join(name);
    let aside = data_dir.join(format!("{name}.{}", &random_secret().expose()[..16]));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&aside)?;
    let linked = file
        .write_all(random_secret().expose().as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&aside, &path));
    fs::remove_file(&aside)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => fs::File::open(data_dir)?.sync_all(),
    }
}
