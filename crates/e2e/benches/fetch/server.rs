//! Web servers and DNS in a process of their own, so that no client's processor time holds theirs.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::Stdio,
};

use serde::{Deserialize, Serialize};
use testkit::{
    dns::{Answer, Entry, Family, ScriptedDns},
    origin::{Authority, Reply, TlsOrigin},
};

use crate::process::{Process, this_program};

/// The servers' name.
pub(crate) const HOST: &str = "site.test";
/// The page of a plain GET.
pub(crate) const PLAIN_PATH: &str = "/plain";
/// So many URLs have the same page, so that no cache helps.
pub(crate) const COPIES: usize = 2_000;

/// Where things are.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Places {
    pub(crate) http1: u16,
    pub(crate) http2: u16,
    pub(crate) dns: SocketAddr,
    pub(crate) authority: PathBuf,
}

/// The servers' process.
pub(crate) struct Server {
    pub(crate) places: Places,
    _process: Process,
}

impl Server {
    pub(crate) fn start() -> Self {
        let mut child = this_program()
            .arg("server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            places: serde_json::from_str(&line).unwrap(),
            _process: Process(child),
        }
    }
}

/// The child's side: serves until it is killed.
pub(crate) async fn run() {
    let authority = Authority::new();
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let names = [HOST, "127.0.0.1"];
    let http1 = TlsOrigin::start_speaking(&authority, &names, anywhere, &["http/1.1"]).await;
    let http2 = TlsOrigin::start_speaking(&authority, &names, anywhere, &["h2"]).await;
    let dns = ScriptedDns::start().await;
    // As most names are: known for a minute.
    let entry = Entry::address(HOST, "127.0.0.1").with_ttl(60);
    dns.script(HOST, Family::V4, [Answer::Records(vec![entry])]);
    let (small, large) = (article(2_000), article(200_000));
    for origin in [&http1, &http2] {
        origin.serve(PLAIN_PATH, Reply::ok("text/plain", "x".repeat(2_000)));
        for copy in 0..COPIES {
            for (name, page) in [("small", &small), ("large", &large)] {
                let reply = Reply::ok("text/html; charset=utf-8", page.clone());
                origin.serve(&format!("/{name}?{copy}"), reply);
            }
        }
    }
    let places = Places {
        http1: http1.port(),
        http2: http2.port(),
        dns: dns.address(),
        authority: authority.pem_path().to_owned(),
    };
    println!("{}", serde_json::to_string(&places).unwrap());
    std::future::pending::<()>().await;
}

/// An article of about so many bytes, with navigation around it, links and tables.
fn article(size: usize) -> bytes::Bytes {
    let mut html = "<!doctype html><html><head><title>On bees</title><style>p { margin: 1em }</style></head><body>\
        <nav><a href=/>Home</a> <a href=/about>About</a></nav><article><h1>On bees</h1>"
        .to_owned();
    let mut number = 0;
    while html.len() < size {
        number += 1;
        write!(
            html,
            "<h2>Chapter {number}</h2><p>A colony of bees keeps its nest at <b>35 degrees</b>, whatever the weather: it <a href=\"/heat/{number}\">\
            shivers</a> when it is cold, and when it is hot it carries water in and fans. No bee knows the temperature of the whole.</p>\
            <table><tr><th>Month</th><th>Degrees</th></tr><tr><td>May</td><td>35.{number}</td></tr></table>"
        )
        .unwrap();
    }
    html.push_str("</article><footer>Printed on paper</footer></body></html>");
    html.into()
}
