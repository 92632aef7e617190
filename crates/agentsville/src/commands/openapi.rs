//! `openapi`.

use kernel::{ErrorCode, JsonText};

use crate::{app::App, failure::Failure, output::Format};

pub(crate) fn run(app: &App) -> Result<(), Failure> {
    let document = edge::openapi_json();
    match app.output.format() {
        Format::Json => {
            let compact = JsonText::parse(&document).map_err(|error| {
                Failure::of(
                    ErrorCode::Internal,
                    format!("the OpenAPI document is not JSON: {error}"),
                )
            })?;
            app.output.json(&compact)?;
        }
        Format::Text => app.output.line(document.trim_end())?,
    }
    Ok(())
}
