//! A starter, as a gateway is one, and a look at the processes of this machine.

use std::{
    fs,
    io::{BufRead as _, BufReader, PipeReader, PipeWriter, Read as _, Write as _},
    net::Shutdown,
    os::{fd::AsFd as _, unix::net::UnixStream},
    path::Path,
    process::Child,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use reaper::{Report, Spec};

/// How long anything of a test may take; none needs this long.
const LONG: Duration = Duration::from_mins(1);

/// The program that supervises.
pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_reaper-child"))
}

/// A script of the shell, with nothing in its environment but where its programs are.
pub(crate) fn script(text: &str) -> Spec {
    Spec {
        command: "/bin/sh".to_owned(),
        arguments: vec!["-c".to_owned(), text.to_owned()],
        environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        directory: None,
        grace: Duration::from_millis(200),
    }
}

/// A word that stands in the arguments of this test's processes alone.
pub(crate) fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("reaper-test-{}-{number}", std::process::id())
}

/// A supervisor, its command's streams, and what it told.
pub(crate) struct Supervised {
    supervisor: Child,
    control: BufReader<UnixStream>,
    pub(crate) input: Option<PipeWriter>,
    pub(crate) output: PipeReader,
    _errors: PipeReader,
}

impl Supervised {
    pub(crate) fn start(spec: &Spec) -> Self {
        let (mut command, control) = reaper::supervisor(program()).unwrap();
        let supervisor = command.spawn().unwrap();
        drop(command);
        let (its_input, input) = std::io::pipe().unwrap();
        let (output, its_output) = std::io::pipe().unwrap();
        let (errors, its_errors) = std::io::pipe().unwrap();
        let streams = [its_input.as_fd(), its_output.as_fd(), its_errors.as_fd()];
        reaper::hand_over(&control, streams).unwrap();
        (&control).write_all(&spec.encode().unwrap()).unwrap();
        control.set_read_timeout(Some(LONG)).unwrap();
        Self {
            supervisor,
            control: BufReader::new(control),
            input: Some(input),
            output,
            _errors: errors,
        }
    }

    /// Starts it, and takes the line that says so.
    pub(crate) fn started(spec: &Spec) -> Self {
        let mut supervised = Self::start(spec);
        match supervised.report() {
            Some(Report::Started { .. }) => supervised,
            other => panic!("{other:?}"),
        }
    }

    /// The number of the supervisor's process.
    pub(crate) fn id(&self) -> u32 {
        self.supervisor.id()
    }

    /// The next line; None when no process is left.
    pub(crate) fn report(&mut self) -> Option<Report> {
        let mut line = String::new();
        self.control.read_line(&mut line).unwrap();
        (!line.is_empty()).then(|| Report::parse(&line).unwrap())
    }

    /// A line of the command's output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.output.read(&mut byte).unwrap() == 1 && byte != [b'\n'] {
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }

    /// All that the command said, when nobody holds its output any more.
    pub(crate) fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        rest
    }

    /// Says that it shall end.
    pub(crate) fn stop(&mut self) {
        self.control.get_ref().shutdown(Shutdown::Write).unwrap();
    }

    /// Waits until the supervisor is gone, and says what it told until then.
    pub(crate) fn gone(mut self) -> Vec<Report> {
        let reports = std::iter::from_fn(|| self.report()).collect();
        assert!(self.supervisor.wait().unwrap().success());
        reports
    }
}

/// How many processes have this word in their arguments.
pub(crate) fn count(marker: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|process| {
            let arguments = fs::read(process.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&arguments).contains(marker)
        })
        .count()
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
