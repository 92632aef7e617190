//! Running the program, and small servers for it to meet.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

/// What a run of the program came to.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// The lines of standard output, each of them JSON.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
            })
            .collect()
    }

    /// The only line of standard output, as JSON.
    pub(crate) fn json(&self) -> Value {
        let mut lines = self.json_lines();
        assert_eq!(lines.len(), 1, "{self:?}");
        lines.remove(0)
    }

    /// Standard error as problem JSON.
    pub(crate) fn problem(&self) -> Value {
        serde_json::from_str(self.err.trim()).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }
}

/// A person at this machine: a home directory, and an environment with nothing else in it.
#[derive(Debug)]
pub(crate) struct Person {
    home: TempDir,
    environment: Vec<(String, String)>,
}

impl Person {
    pub(crate) fn new() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
            environment: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Where the data is unless something else is said.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.home().join(".local/share/agentsville")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentsville"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.home())
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        finished(&mut self.command(arguments))
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Run {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        run_of(output.status, &output.stdout, &output.stderr)
    }
}

pub(crate) fn finished(command: &mut Command) -> Run {
    let output = command.output().unwrap();
    run_of(output.status, &output.stdout, &output.stderr)
}

fn run_of(status: ExitStatus, out: &[u8], err: &[u8]) -> Run {
    Run {
        code: status.code(),
        out: String::from_utf8(out.to_vec()).unwrap(),
        err: String::from_utf8(err.to_vec()).unwrap(),
    }
}

/// A Village that a person serves.
#[derive(Debug)]
pub(crate) struct Served {
    child: Child,
    pub(crate) http: String,
    pub(crate) admin: String,
    pub(crate) grpc: String,
    pub(crate) token_file: PathBuf,
    log: Arc<Mutex<String>>,
}

/// The environment of a Village whose listeners get in nobody's way.
pub(crate) const FREE_PORTS: [(&str, &str); 4] = [
    ("AGENTSVILLE__EDGE__LISTEN", "127.0.0.1:0"),
    ("AGENTSVILLE__GRPC__LISTEN", "127.0.0.1:0"),
    ("AGENTSVILLE__ADMIN__LISTEN", "127.0.0.1:0"),
    ("AGENTSVILLE__EGRESS__LISTEN", "127.0.0.1:0"),
];

impl Served {
    /// Serves, and waits until the Village is open.
    pub(crate) fn by(person: &Person) -> Self {
        let mut child = person
            .command(&["--json"])
            .envs(FREE_PORTS)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let kept = Arc::clone(&log);
        let logging = std::thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).is_ok_and(|read| read > 0) {
                kept.lock().unwrap().push_str(&std::mem::take(&mut line));
            }
        });
        let mut opened = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut opened)
            .unwrap();
        if opened.is_empty() {
            let status = child.wait().unwrap();
            logging.join().unwrap();
            panic!(
                "the Village did not open ({status}): {}",
                log.lock().unwrap()
            );
        }
        let opened: Value = serde_json::from_str(&opened).unwrap();
        let text = |key: &str| opened[key].as_str().unwrap_or_default().to_owned();
        Self {
            child,
            http: text("http"),
            admin: text("admin"),
            grpc: text("grpc"),
            token_file: text("operatorTokenFile").into(),
            log,
        }
    }

    /// Asks it to stop, and waits for it.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        self.signal("TERM");
        let status = self.child.wait().unwrap();
        (status.code(), self.log.lock().unwrap().clone())
    }

    fn signal(&self, signal: &str) {
        signal_to(self.child.id(), signal);
    }
}

/// Sends a signal to one process, by the id that it has.
pub(crate) fn signal_to(process: u32, signal: &str) {
    let process = i32::try_from(process).unwrap();
    let process = rustix::process::Pid::from_raw(process).unwrap();
    let signal = match signal {
        "TERM" => rustix::process::Signal::TERM,
        "INT" => rustix::process::Signal::INT,
        other => panic!("no use for SIG{other}"),
    };
    rustix::process::kill_process(process, signal).unwrap();
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A server that answers every request with the next of its answers, and the last one again and again.
#[derive(Debug)]
pub(crate) struct Canned {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Canned {
    pub(crate) fn answering(answers: &[String]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (kept, answers) = (Arc::clone(&requests), answers.to_vec());
        std::thread::spawn(move || {
            for (at, stream) in listener.incoming().enumerate() {
                let answer = &answers[at.min(answers.len() - 1)];
                let mut stream = stream.unwrap();
                let request = request_of(&mut stream);
                kept.lock().unwrap().push(request);
                drop(stream.write_all(answer.as_bytes()));
            }
        });
        Self { url, requests }
    }

    /// What it was asked, head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn request_of(stream: &mut TcpStream) -> String {
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut bytes = Vec::new();
    let mut buffer = [0; 4_096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_lowercase()
                        .strip_prefix("content-length: ")?
                        .parse()
                        .ok()
                })
                .unwrap_or(0_usize);
            if body.len() >= length {
                return text;
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return String::from_utf8_lossy(&bytes).into_owned(),
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

/// An HTTP answer that ends with its connection.
pub(crate) fn answer(status: &str, content_type: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The same for JSON.
pub(crate) fn json_answer(body: &str) -> String {
    answer("200 OK", "application/json", body)
}

/// A stream of chunks, as the edge sends it, that ends with its connection.
pub(crate) fn stream_answer(chunks: &[&str]) -> String {
    let body = chunks.iter().fold(String::new(), |body, chunk| {
        body + "data: " + chunk + "\n\n"
    });
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}")
}
