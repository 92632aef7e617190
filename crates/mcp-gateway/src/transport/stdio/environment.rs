//! What a command is given.

use std::{collections::BTreeMap, time::Duration};

use reaper::Spec;

use crate::{Failure, StdioEndpoint};

/// What a command finds besides its record's names: this process's own values, or these where it has none. A command that finds its
/// user's folder finds what `npx` and `uvx` keep there; one without a language writes no UTF-8.
const BASE: [(&str, &str); 4] = [
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("HOME", "/"),
    ("LANG", "C.UTF-8"),
    ("TMPDIR", "/tmp"),
];

/// What the supervisor is told.
pub(super) fn spec(endpoint: &StdioEndpoint, grace: Duration) -> Result<Spec, Failure> {
    let record = endpoint.environment.open();
    let record = record.map_err(|error| Failure::of_unsealing(&error))?;
    let record = record
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()));
    Ok(Spec {
        command: endpoint.command.clone(),
        arguments: endpoint.arguments.clone(),
        environment: environment(own, record),
        directory: Some(endpoint.working_directory.clone()).filter(|folder| !folder.is_empty()),
        grace,
    })
}

/// A variable of this process. They are for its children, and no setting of its own.
fn own(name: &str) -> Option<String> {
    std::env::var_os(name)?.into_string().ok()
}

fn environment<'r>(
    own: impl Fn(&str) -> Option<String>,
    record: impl Iterator<Item = (&'r str, &'r str)>,
) -> Vec<(String, String)> {
    let base = BASE.iter().map(|(name, usual)| {
        let value = own(name).filter(|value| !value.is_empty());
        (
            (*name).to_owned(),
            value.unwrap_or_else(|| (*usual).to_owned()),
        )
    });
    let mut environment: BTreeMap<String, String> = base.collect();
    environment.extend(record.map(|(name, value)| (name.to_owned(), value.to_owned())));
    environment.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_gets_four_names_and_those_of_its_record_which_win() {
        let own = |name: &str| match name {
            "HOME" => Some("/home/village".to_owned()),
            "LANG" => Some(String::new()),
            "PATH" => Some("/bin".to_owned()),
            "TMPDIR" => None,
            other => panic!("{other} is none of the four"),
        };
        let record = [("KEY", "s3cret"), ("PATH", "/opt/bin")];
        let found = environment(own, record.into_iter());
        let found: Vec<(&str, &str)> = found.iter().map(|(n, v)| (&**n, &**v)).collect();
        assert_eq!(
            found,
            [
                ("HOME", "/home/village"),
                ("KEY", "s3cret"),
                ("LANG", "C.UTF-8"),
                ("PATH", "/opt/bin"),
                ("TMPDIR", "/tmp"),
            ]
        );
    }
}
