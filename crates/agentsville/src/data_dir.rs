//! The data directory, and the Operator's token in it.

use std::path::{Path, PathBuf};

use kernel::Secret;
use runtime::Settings;

use crate::failure::Failure;

/// Makes the directory if it is missing, and closes it to everybody but its owner (0700), as [`store::prepare_data_dir`] says.
pub(crate) fn prepare(settings: &Settings) -> Result<PathBuf, Failure> {
    let path = settings.data_dir().map_err(Failure::precondition)?;
    store::prepare_data_dir(&path).map_err(Failure::precondition)?;
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
