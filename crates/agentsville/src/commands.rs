//! One module a command.

pub(crate) mod audit;
pub(crate) mod chat;
pub(crate) mod config;
pub(crate) mod conversation;
pub(crate) mod demo;
pub(crate) mod demo_mcp;
pub(crate) mod grant;
pub(crate) mod guard;
pub(crate) mod healthcheck;
pub(crate) mod keys;
pub(crate) mod mcp;
pub(crate) mod migrate;
pub(crate) mod npc;
pub(crate) mod openapi;
pub(crate) mod player;
pub(crate) mod secrets;
pub(crate) mod serve;
pub(crate) mod turn;

use serde::Deserialize;

use crate::{
    app::App,
    client::{Rows, read},
    failure::Failure,
    output::Format,
    render::Table,
};

/// Prints a list: one JSON array, or a table whose cells `cells` takes from each row.
fn print_list<T: for<'de> Deserialize<'de>>(
    app: &App,
    list: &Rows,
    headings: &[&str],
    nothing: &str,
    cells: impl Fn(T) -> Vec<String>,
) -> Result<(), Failure> {
    match app.output.format() {
        Format::Json => app.output.json_of(&list.rows)?,
        Format::Text => {
            let mut table = Table::new(headings);
            for row in &list.rows {
                let row = cells(read(row)?);
                table.row(row.iter().map(String::as_str));
            }
            let text = if table.is_empty() {
                nothing.to_owned()
            } else {
                table.to_string()
            };
            app.output.line(&text)?;
        }
    }
    if list.cut {
        app.output.remark(&format!(
            "there are more: only the newest {} are listed",
            list.rows.len()
        ))?;
    }
    Ok(())
}

/// `yes`, or nothing.
fn yes(flag: bool) -> String {
    if flag { "yes" } else { "" }.to_owned()
}

/// A time, to the second.
fn short_time(time: &str) -> String {
    match time.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => time.to_owned(),
    }
}
