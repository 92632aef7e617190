//! `current_time`: the current time in UTC (RFC 3339).

use std::time::Duration;

use kernel::{BuiltinTool, Clock};
use serde_json::json;

use super::{Definition, Given, Ran};

pub(super) fn definition() -> Result<Definition, String> {
    Definition::of(
        BuiltinTool::CurrentTime,
        "Tells the current date and time in UTC, as RFC 3339.",
        &json!({ "type": "object", "properties": {} }),
        Duration::from_secs(5),
        kernel::limits::PARALLEL_CALLS,
    )
}

pub(super) fn run(clock: &dyn Clock) -> Ran {
    Ran::Gave(Given {
        lead: clock.now().to_string(),
        ..Given::default()
    })
}
