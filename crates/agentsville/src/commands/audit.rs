//! `audit list`.

use serde::Deserialize;

use super::{print_list, short_time};
use crate::{app::App, cli::AuditCommand, failure::Failure};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    at: String,
    actor: String,
    action: String,
    subject_kind: String,
    subject_id: String,
}

pub(crate) async fn run(app: &App, command: &AuditCommand) -> Result<(), Failure> {
    let AuditCommand::List = command;
    let list = app.village()?.list(&["audit"]).await?;
    print_list(
        app,
        &list,
        &["WHEN", "WHO", "DID", "TO"],
        "Nothing was changed yet.",
        |row: Row| {
            vec![
                short_time(&row.at),
                row.actor,
                row.action,
                format!("{} {}", row.subject_kind, row.subject_id),
            ]
        },
    )
}
