//! `check-config`.

use kernel::{ErrorCode, JsonText};

use crate::{app::App, failure::Failure, output::Format};

/// Prints what holds in the end, secrets masked. Every section is also read by those who use it, so that what is printed would serve.
pub(crate) fn check(app: &App) -> Result<(), Failure> {
    let settings = app.settings()?;
    crate::compose::check(&settings)?;
    let toml = settings.effective_toml().map_err(Failure::precondition)?;
    match app.output.format() {
        Format::Text => app.output.line(toml.trim_end())?,
        Format::Json => {
            let table: toml::Table = toml.parse().map_err(|error| {
                Failure::of(
                    ErrorCode::Internal,
                    format!("the settings cannot be printed: {error}"),
                )
            })?;
            app.output.json(&JsonText::of(&table))?;
        }
    }
    Ok(())
}
