//! Nothing of a command outlives it, or its starter.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use reaper::{Report, Status};

use crate::support::{Supervised, count, marker, program, script, until};

/// Ignores what asks it to end, and says that it does. The word shows in its arguments.
const STUBBORN: &str = "trap '' TERM HUP INT; echo ready; while :; do sleep 1000; done";

/// A wrapper in the manner of `npx`: it ignores the end of its input and SIGTERM, and forks a server into a session of its own that
/// ignores SIGTERM as well.
fn wrapper(marker: &str) -> String {
    let server = format!("setsid sh -c \"{STUBBORN}\" {marker} &");
    format!("trap '' TERM; {server} {server} wait; wait; : {marker}")
}

#[test]
fn the_end_of_a_command_is_told() {
    let ends = [
        ("exit 0", Status::Exited(0)),
        ("exit 3", Status::Exited(3)),
        ("kill -9 $$", Status::Signalled(9)),
        ("kill -TERM $$", Status::Signalled(15)),
    ];
    for (text, status) in ends {
        let reports = Supervised::started(&script(text)).gone();
        assert_eq!(reports, [Report::Ended(status)], "{text}");
    }
}

#[test]
fn a_command_sees_the_end_of_its_input() {
    let mut supervised = Supervised::started(&script("cat; echo end"));
    supervised.input = None;
    assert_eq!(supervised.rest(), "end\n");
    assert_eq!(supervised.gone(), [Report::Ended(Status::Exited(0))]);
}

#[test]
fn a_command_may_clean_up_when_it_is_asked_to_end() {
    let mut spec =
        script("trap 'echo cleaned; exit 7' TERM; echo ready; while :; do sleep 0.01; done");
    // It takes what it needs, not all of this.
    spec.grace = Duration::from_mins(1);
    let mut supervised = Supervised::started(&spec);
    assert_eq!(supervised.line(), "ready");
    supervised.stop();
    assert_eq!(supervised.rest(), "cleaned\n");
    assert_eq!(supervised.gone(), [Report::Ended(Status::Exited(7))]);
}

#[test]
fn a_wrapper_that_ignores_everything_and_forks_away_leaves_nothing() {
    let marker = marker();
    let mut supervised = Supervised::started(&script(&wrapper(&marker)));
    assert_eq!(
        (supervised.line(), supervised.line()),
        ("ready".into(), "ready".into())
    );
    assert!(count(&marker) >= 3);
    supervised.input = None;
    supervised.stop();
    assert_eq!(supervised.gone(), [Report::Ended(Status::Signalled(9))]);
    assert_eq!(count(&marker), 0);
}

#[test]
fn what_a_command_leaves_behind_ends_with_it() {
    let marker = marker();
    let text = format!("setsid sh -c \"{STUBBORN}\" {marker} & read -r line");
    let mut supervised = Supervised::started(&script(&text));
    assert_eq!(supervised.line(), "ready");
    supervised.input = None;
    assert_eq!(supervised.gone(), [Report::Ended(Status::Exited(1))]);
    assert_eq!(count(&marker), 0);
}

#[test]
fn a_daemon_that_forked_twice_and_closed_everything_is_found() {
    let marker = marker();
    let folder = tempfile::tempdir().unwrap();
    let daemon = format!("touch runs; {STUBBORN}");
    let mut spec = script(&format!(
        "(setsid sh -c '(setsid sh -c \"{daemon}\" {marker} </dev/null >/dev/null 2>&1 &)' &); read -r line"
    ));
    spec.directory = Some(folder.path().to_str().unwrap().to_owned());
    let mut supervised = Supervised::started(&spec);
    until("the daemon runs", || folder.path().join("runs").exists());
    supervised.stop();
    supervised.gone();
    assert_eq!(count(&marker), 0);
}

#[test]
fn a_stopped_process_is_ended_too() {
    let marker = marker();
    let text = format!("sh -c 'echo ready; kill -STOP $$; :' {marker} & wait");
    let mut supervised = Supervised::started(&script(&text));
    assert_eq!(supervised.line(), "ready");
    supervised.stop();
    supervised.gone();
    assert_eq!(count(&marker), 0);
}

#[test]
fn processes_that_fork_faster_than_they_are_killed_all_end() {
    let marker = marker();
    // Each makes another before it ends, so that none is there for long: whoever kills what was seen a moment ago kills nothing.
    let runner = format!(
        "echo 'trap \"\" TERM; sh \"$0\" \"$0\" {marker} &' > run; for i in 1 2 3 4 5 6 7 8; do setsid sh run run {marker} & done; echo ready; read -r line"
    );
    let mut supervised = Supervised::started(&script(&runner));
    assert_eq!(supervised.line(), "ready");
    until("they run", || count(&marker) > 1);
    supervised.stop();
    supervised.gone();
    assert_eq!(count(&marker), 0);
}

#[test]
fn the_death_of_the_starter_is_the_end_of_the_command() {
    for text in [wrapper as fn(&str) -> String, |marker| {
        format!("sh -c 'sleep 1000; :' {marker}; :")
    }] {
        let marker = marker();
        let mut starter = Command::new(program())
            .args(["starts", &text(&marker)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = starter.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert!(line.starts_with("started "), "{line}");
        until("they run", || count(&marker) >= 2);
        // SIGKILL: it can do nothing more.
        starter.kill().unwrap();
        starter.wait().unwrap();
        until("nothing is left", || count(&marker) == 0);
    }
}

#[test]
fn orphans_that_end_by_themselves_leave_no_zombies() {
    let text = "for i in 1 2 3 4 5 6 7 8; do (setsid true &); done; echo forked; read -r line; ";
    let mut supervised = Supervised::started(&script(text));
    assert_eq!(supervised.line(), "forked");
    let parent = supervised.id().to_string();
    let children = || {
        let tasks = std::fs::read_dir("/proc").unwrap().flatten();
        tasks
            .filter(|process| {
                let stat = std::fs::read_to_string(process.path().join("stat"));
                let stat = stat.unwrap_or_default();
                let rest = stat.rsplit(')').next().unwrap_or_default();
                rest.split_whitespace().nth(1) == Some(&parent)
            })
            .count()
    };
    until("only the command is left", || children() == 1);
    supervised.stop();
    supervised.gone();
}

#[test]
fn a_command_that_the_streams_of_are_closed_is_ended_all_the_same() {
    let mut supervised =
        Supervised::started(&script("exec >&- 2>&- <&-; while :; do sleep 1000; done"));
    assert_eq!(supervised.rest(), "");
    supervised.stop();
    assert_eq!(supervised.gone(), [Report::Ended(Status::Signalled(15))]);
}

#[test]
fn a_program_that_is_not_told_what_to_run_ends() {
    let (mut command, control) = reaper::supervisor(program()).unwrap();
    let mut supervisor = command.spawn().unwrap();
    drop(command);
    drop(control);
    assert!(!supervisor.wait().unwrap().success());
}

#[test]
fn two_hundred_rounds_of_a_stubborn_wrapper_leave_nothing() {
    let marker = marker();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let mut spec = script(&wrapper(&marker));
                    spec.grace = Duration::from_millis(20);
                    let mut supervised = Supervised::started(&spec);
                    assert_eq!(supervised.line(), "ready");
                    supervised.input = None;
                    supervised.stop();
                    supervised.gone();
                }
            });
        }
    });
    assert_eq!(count(&marker), 0);
}
