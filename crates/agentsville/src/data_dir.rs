//! The data directory, and the Operator's token in it.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use kernel::Secret;
use runtime::Settings;

use crate::failure::Failure;

/// Makes the directory if it is missing, and closes it to everybody but its owner (0700).
pub(crate) fn prepare(settings: &Settings) -> Result<PathBuf, Failure> {
    let path = settings.data_dir().map_err(Failure::precondition)?;
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&path)
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o700)));
    made.map_err(|error| {
        Failure::precondition(format!(
            "cannot use {} as data directory: {error}; name another with AGENTSVILLE__DATA_DIR",
            path.display()
        ))
    })?;
    Ok(path)
}

/// The Operator's token, and the file that it is in, if it is in one.
#[derive(Debug, Clone)]
pub struct OperatorToken {
    /// The token.
    pub token: Secret,
    /// Where a person finds it; `None` when the settings hold it.
    pub file: Option<PathBuf>,
}

impl OperatorToken {
    /// Says where a token that the registry found is kept.
    pub(crate) fn of(token: Secret, settings: &Settings, data_dir: &Path) -> Result<Self, Failure> {
        let set: Secret = settings
            .value("operator_token")
            .map_err(Failure::precondition)?;
        let file = set
            .is_empty()
            .then(|| data_dir.join(tool_registry::OPERATOR_TOKEN_FILE));
        Ok(Self { token, file })
    }
}
