//! Where the Village listens, for whoever must not connect there.

use std::net::SocketAddr;

use crate::{Lifecycle, Settings, SettingsError};

/// The settings that say where the Village listens.
const SETTINGS: [&str; 4] = [
    "edge.listen",
    "grpc.listen",
    "admin.listen",
    "egress.listen",
];

/// Tells every listener of the Village: those that the settings give a port, here or elsewhere, and all that this process binds, those
/// to come included. `tell` must not wait.
///
/// # Errors
/// A setting cannot be read.
pub fn of_the_village(
    settings: &Settings,
    lifecycle: &Lifecycle,
    tell: impl Fn(SocketAddr) + Send + 'static,
) -> Result<(), SettingsError> {
    for setting in SETTINGS {
        let address: String = settings.value(setting)?;
        if let Ok(address) = address.parse::<SocketAddr>()
            && address.port() != 0
        {
            tell(address);
        }
    }
    lifecycle.on_listener(tell);
    Ok(())
}
