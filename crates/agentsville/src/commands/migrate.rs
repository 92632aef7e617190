//! `migrate`: the database, brought to this release's schema.

use runtime::process;

use crate::{app::App, compose, failure::Failure, output::Format};

pub(crate) async fn run(app: &App) -> Result<(), Failure> {
    process::install_crypto();
    let settings = app.settings()?;
    let engine = compose::migrate(&settings).await?;
    let version = migrations::SCHEMA.version;
    match app.output.format() {
        Format::Json => app
            .output
            .json_of(&serde_json::json!({ "schema": version, "database": engine }))?,
        Format::Text => app
            .output
            .line(&format!("the {engine} database has schema {version}"))?,
    }
    Ok(())
}
