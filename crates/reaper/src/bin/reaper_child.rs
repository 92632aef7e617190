//! A program that is nothing but a supervisor: for this crate's own tests.
//!
//! Besides, `reaper-child starts SCRIPT` starts a shell script under a supervisor, says so, and waits to be killed: what a gateway
//! does, as far as a test of its death is concerned.

use std::{
    error::Error,
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::fd::AsFd as _,
    process::ExitCode,
    time::Duration,
};

fn main() -> ExitCode {
    if let Some(code) = reaper::child_main() {
        return code;
    }
    match starts() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Its test reads it; when nobody does, nothing is lost.
            writeln!(io::stderr(), "{error}").unwrap_or_default();
            ExitCode::FAILURE
        }
    }
}

fn starts() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some("starts"), Some(script)) = (arguments.next().as_deref(), arguments.next()) else {
        return Err("write: reaper-child starts SCRIPT".into());
    };
    let spec = reaper::Spec {
        command: "/bin/sh".to_owned(),
        arguments: vec!["-c".to_owned(), script],
        environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        directory: None,
        grace: Duration::from_millis(200),
    };
    let (mut command, mut control) = reaper::supervisor(&std::env::current_exe()?)?;
    let _supervisor = command.spawn()?;
    drop(command);
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let null = null.as_fd();
    reaper::hand_over(&control, [null, null, null])?;
    control.write_all(&spec.encode()?)?;
    let mut line = String::new();
    BufReader::new((&control).take(64)).read_line(&mut line)?;
    write!(io::stdout(), "{line}")?;
    io::stdout().flush()?;
    control.read_to_end(&mut Vec::new())?;
    Ok(())
}
