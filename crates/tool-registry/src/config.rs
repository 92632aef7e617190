//! What the registry takes from the settings.

use std::collections::BTreeMap;

use kernel::Secret;
use runtime::{BoxError, Settings};
use serde::{Deserialize, de::IgnoredAny};

use crate::Error;

/// The Operator's token in the data directory, when the settings have none.
pub const OPERATOR_TOKEN_FILE: &str = "operator.token";

/// What the registry needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// The Operator's bearer token, at least 32 bytes. See [`operator_token`].
    pub operator_token: Secret,
    /// The names of the Village's Providers.
    pub providers: Vec<String>,
    /// NPCs that one Player may own.
    pub npcs_per_player: u64,
    /// MCP Servers that one Player may own.
    pub mcp_servers_per_player: u64,
}

/// The settings' section `limits`, as far as it is the registry's.
#[derive(Debug, Deserialize)]
struct Limits {
    npcs_per_player: u64,
    mcp_servers_per_player: u64,
}

impl Config {
    /// Reads what the settings have. Makes the Operator's token when there is none yet.
    ///
    /// # Errors
    /// A section does not fit, or the token's file cannot be used.
    #[expect(
        clippy::zero_sized_map_values,
        reason = "what a Provider's section holds is for others, and a set cannot skip it"
    )]
    pub fn from_settings(settings: &Settings) -> Result<Self, BoxError> {
        let providers: BTreeMap<String, IgnoredAny> = settings.section("providers")?;
        let limits: Limits = settings.section("limits")?;
        Ok(Self {
            operator_token: operator_token(settings)?,
            providers: providers.into_keys().collect(),
            npcs_per_player: limits.npcs_per_player,
            mcp_servers_per_player: limits.mcp_servers_per_player,
        })
    }
}

/// Judges the setting `operator_token` without making one: empty is right, and so is what is long enough.
///
/// # Errors
/// It is too short.
pub fn check_operator_token(token: &Secret) -> Result<(), Error> {
    match token.expose().len() {
        0 => Ok(()),
        short if short < vault::SECRET_BYTES => Err(Error::ShortOperatorToken(short)),
        _ => Ok(()),
    }
}

/// The Operator's token: the setting, else `operator.token` in the data directory, which is made at the first start.
///
/// # Errors
/// The file cannot be read or made, or others can read it.
pub fn operator_token(settings: &Settings) -> Result<Secret, BoxError> {
    let set: Secret = settings.value("operator_token")?;
    if !set.is_empty() {
        return Ok(set);
    }
    let data_dir = settings.data_dir()?;
    Ok(vault::load_or_create_secret_file(
        &data_dir,
        OPERATOR_TOKEN_FILE,
    )?)
}
