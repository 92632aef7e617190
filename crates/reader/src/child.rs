//! The process that reads one hostile body and ends.
//!
//! **Architecture invariants:** it gives up everything that it could do before it looks at a byte of the body: files, new
//! descriptors, memory and time beyond its bounds. What it says goes through the pipe that was its standard output; that name then
//! leads to nowhere, so that a library that prints cannot forge an answer.

use std::{
    fs::File,
    io::{self, Read},
    process::ExitCode,
};

use encoding_rs::{Encoding, UTF_8};
use rustix::{
    io::dup,
    process::{Resource, Rlimit, setrlimit},
    stdio::{dup2_stdout, stderr, stdout},
};
use url::Url;

use crate::{
    effort::{self, Effort},
    frame::{HEAD_BYTES, Head, Order, Request, Task, write_answer},
    html::{self, Syntax},
    pdf,
    reading::Cost,
    text::{End, Pieces},
};

/// What makes a program the reader's child.
pub(crate) const ARGUMENT: &str = "reader-child";
/// Stack for reading. Nothing of ours recurses; the libraries do, along trees whose depth is bounded.
const STACK_BYTES: usize = 8 * 1_024 * 1_024;
/// Bytes of the body that are taken at once.
const PIECE_BYTES: usize = 16 * 1_024;

/// See [`crate::child_main`].
pub(crate) fn main() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let is_child = arguments.next().is_some_and(|first| first == ARGUMENT);
    if !is_child || arguments.next().is_some() {
        return None;
    }
    let reading = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(read);
    Some(match reading.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(()))) => ExitCode::SUCCESS,
        Ok(_) | Err(_) => ExitCode::FAILURE,
    })
}

fn read() -> io::Result<()> {
    let answers = File::from(dup(stdout())?);
    dup2_stdout(stderr())?;
    let mut input = io::stdin().lock();
    let request = read_request(&mut input)?;
    // It is opened while that may be done, and tells what is true when it is read.
    let status = File::open("/proc/self/status").ok();
    limit(&request)?;
    match request.task {
        Task::Html => read_html(&request, Syntax::Html, input, &answers)?,
        Task::Xhtml => read_html(&request, Syntax::Xml, input, &answers)?,
        Task::Pdf => pdf::read(&request, input, &answers)?,
    }
    let end = Head {
        order: Order::End,
        title: None,
        truncated: None,
        failure: None,
        cost: status.and_then(cost),
    };
    write_answer(&answers, &end, "")
}

/// What this process took until now.
fn cost(mut status: File) -> Option<Cost> {
    let mut text = String::new();
    status.read_to_string(&mut text).ok()?;
    let kilobytes = text
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?;
    Some(Cost {
        memory_bytes: kilobytes * 1_024,
        core_micros: u64::try_from(effort::now().as_micros()).unwrap_or(u64::MAX),
    })
}

fn read_request(input: &mut impl Read) -> io::Result<Request> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    let mut request = vec![0; length.min(HEAD_BYTES)];
    input.read_exact(&mut request)?;
    Ok(serde_json::from_slice(&request)?)
}

/// Gives up what is not needed.
fn limit(request: &Request) -> io::Result<()> {
    let limits = [
        (Resource::Data, request.memory_bytes),
        (Resource::Cpu, request.cpu_seconds),
        (Resource::Nofile, 0),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Nproc, 0),
    ];
    for (resource, most) in limits {
        let most = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, most)?;
    }
    Ok(())
}

fn read_html(
    request: &Request,
    syntax: Syntax,
    mut input: impl Read,
    answers: &File,
) -> io::Result<()> {
    let encoding = Encoding::for_label(request.charset.as_bytes()).unwrap_or(UTF_8);
    let mut pieces = Pieces::new(encoding, request.is_complete);
    let mut parser = html::Parser::new(syntax, Effort::begin());
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = input.read(&mut piece)?;
        let end = if read == 0 { End::Here } else { End::Later };
        let mut stop = None;
        pieces.decode(&piece[..read], end, |text| stop = parser.feed(text));
        if read == 0 || stop.is_some() {
            break;
        }
    }
    drop(piece);
    let options = html::Options {
        url: Url::parse(&request.url).map_err(io::Error::other)?,
        text_bytes: request.text_bytes,
    };
    html::read(parser, &options, |page| {
        let head = Head {
            order: Order::Instead,
            title: page.title.clone(),
            truncated: page.truncated,
            failure: None,
            cost: None,
        };
        write_answer(answers, &head, &page.markdown)
    })
}
