//! What a command is given, and why one is not started.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    process::Command,
};

use reaper::{Refusal, Report, Spec, Status};

use crate::support::{Supervised, script};

fn refusal(spec: &Spec) -> Report {
    let mut reports = Supervised::start(spec).gone();
    assert_eq!(reports.len(), 1, "{reports:?}");
    reports.remove(0)
}

fn command(command: &str) -> Spec {
    Spec {
        command: command.to_owned(),
        arguments: Vec::new(),
        ..script("")
    }
}

fn file(folder: &Path, name: &str, text: &str, mode: u32) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_command_gets_its_environment_and_nothing_else() {
    let mut spec = command("env");
    spec.arguments.push("-0".to_owned());
    for (name, value) in [("KEY", "a=b\nc"), ("EMPTY", ""), ("ÄÖ", "ü")] {
        spec.environment.push((name.to_owned(), value.to_owned()));
    }
    let mut supervised = Supervised::started(&spec);
    let output = supervised.rest();
    let mut found: Vec<&str> = output.split_terminator('\0').collect();
    found.sort_unstable();
    assert_eq!(
        found,
        ["EMPTY=", "KEY=a=b\nc", "PATH=/usr/bin:/bin", "ÄÖ=ü"]
    );
    assert_eq!(supervised.gone(), [Report::Ended(Status::Exited(0))]);
}

#[test]
fn a_command_gets_three_streams_and_no_descriptor_of_the_supervisor() {
    let look = "ls /proc/self/fd";
    let plain = Command::new("/bin/sh").args(["-c", look]).output().unwrap();
    // Whatever this test itself was given, any child of it has.
    let plain = String::from_utf8(plain.stdout).unwrap();
    assert_eq!(Supervised::started(&script(look)).rest(), plain);
}

#[test]
fn arguments_arrive_as_they_are() {
    let mut spec = script(r#"printf '<%s>' "$0" "$@""#);
    for argument in ["zero", "", "two words", "$(id)", "a\nb", "ü"] {
        spec.arguments.push(argument.to_owned());
    }
    let output = Supervised::started(&spec).rest();
    assert_eq!(output, "<zero><><two words><$(id)><a\nb><ü>");
}

#[test]
fn what_a_command_is_given_shows_in_no_other_process() {
    let mut spec = script("read -r line");
    let secret = format!("planted-{}", std::process::id());
    spec.environment.push(("KEY".to_owned(), secret.clone()));
    let supervised = Supervised::started(&spec);
    let shown_by = |file: &str| {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter(|process| {
                let text = fs::read(process.path().join(file)).unwrap_or_default();
                String::from_utf8_lossy(&text).contains(&secret)
            })
            .count()
    };
    assert_eq!((shown_by("environ"), shown_by("cmdline")), (1, 0));
    // That it cannot be looked into shows in whom its files belong to, when this is not root already; that it is empty, to all.
    let environment = fs::read(format!("/proc/{}/environ", supervised.id()));
    assert!(environment.is_ok_and(|text| text.is_empty()) || !is_root());
    drop(supervised);
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn a_fresh_folder_is_private_and_removed_in_the_end() {
    let temporary = tempfile::tempdir().unwrap();
    let mut spec =
        script("stat -c %a .; pwd; mkdir -p a/b; echo x > a/b/c; chmod 500 a; read -r line");
    let parent = temporary.path().to_str().unwrap();
    spec.environment
        .push(("TMPDIR".to_owned(), parent.to_owned()));
    let mut supervised = Supervised::started(&spec);
    assert_eq!(supervised.line(), "700");
    let folder = supervised.line();
    assert!(
        folder.starts_with(parent) && Path::new(&folder).exists(),
        "{folder}"
    );
    supervised.stop();
    supervised.gone();
    if is_root() {
        assert!(!Path::new(&folder).exists());
    }
}

#[test]
fn a_folder_that_was_there_before_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = script("pwd; echo x > file");
    spec.directory = Some(folder.path().to_str().unwrap().to_owned());
    let mut supervised = Supervised::started(&spec);
    assert_eq!(supervised.line(), spec.directory.unwrap());
    supervised.gone();
    assert!(folder.path().join("file").exists());
}

#[test]
fn a_command_that_is_not_there_is_not_found() {
    for name in ["no-such-command", "/no/such/command", ""] {
        assert_eq!(
            refusal(&command(name)),
            Report::Refused(Refusal::NotFound(2)),
            "{name}"
        );
    }
}

#[test]
fn a_file_that_is_no_program_is_told_from_one_that_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let plain = file(folder.path(), "plain", "#!/bin/sh\n", 0o644);
    assert_eq!(
        refusal(&command(&plain)),
        Report::Refused(Refusal::NotExecutable(13))
    );
    let path = folder.path().to_str().unwrap();
    assert_eq!(
        refusal(&command(path)),
        Report::Refused(Refusal::NotExecutable(21))
    );
    // The same by its name.
    let mut spec = command("plain");
    spec.environment = vec![("PATH".to_owned(), format!("{path}:/usr/bin"))];
    assert_eq!(refusal(&spec), Report::Refused(Refusal::NotExecutable(13)));
}

#[test]
fn a_missing_interpreter_is_told_from_a_missing_command() {
    let folder = tempfile::tempdir().unwrap();
    let script = file(folder.path(), "script", "#!/no/such/interpreter\n", 0o755);
    assert_eq!(
        refusal(&command(&script)),
        Report::Refused(Refusal::NotStarted(2))
    );
}

#[test]
fn a_missing_folder_is_told_from_a_missing_command() {
    let mut spec = command("no-such-command");
    spec.directory = Some("/no/such/folder".to_owned());
    assert_eq!(refusal(&spec), Report::Refused(Refusal::Folder(2)));
    spec.directory = Some("/etc/passwd".to_owned());
    assert_eq!(refusal(&spec), Report::Refused(Refusal::Folder(20)));
    spec.directory = None;
    spec.environment
        .push(("TMPDIR".to_owned(), "/no/such/folder".to_owned()));
    assert_eq!(refusal(&spec), Report::Refused(Refusal::Folder(2)));
}

#[test]
fn a_command_of_the_folder_is_found_by_its_path_in_it() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "here", "#!/bin/sh\necho \"$0\"\n", 0o755);
    let mut spec = command("./here");
    spec.directory = Some(folder.path().to_str().unwrap().to_owned());
    assert!(Supervised::started(&spec).rest().ends_with("/here\n"));
    // By its bare name it is not: the folder is in no PATH.
    spec.command = "here".to_owned();
    assert_eq!(refusal(&spec), Report::Refused(Refusal::NotFound(2)));
}

#[test]
fn more_arguments_than_the_system_takes_are_refused() {
    let mut spec = script("true");
    // One argument may have 128 KiB (execve(2)).
    spec.arguments.push("x".repeat(200 * 1_024));
    assert_eq!(refusal(&spec), Report::Refused(Refusal::NotStarted(7)));
}
