//! What reading costs: `cargo run --release -p reader --example measure [FILE…]`.
//!
//! Without files, ordinary pages of three sizes, a text and what a child costs that has nothing to do. The program is its own
//! child, as services are.
#![expect(clippy::print_stdout, reason = "it is all that a measurement is for")]

use std::{
    error::Error,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use reader::{Config, Reader, Source};
use url::Url;

fn main() -> ExitCode {
    if let Some(code) = reader::child_main() {
        return code;
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let reader = Reader::new(Config::default(), std::env::current_exe()?);
    println!(
        "{:<34} {:>10} {:>9} {:>9} {:>9} {:>11} {:>9}",
        "", "bytes", "p50 ms", "p95 ms", "core ms", "memory KiB", "text"
    );
    let mut pages: Vec<(String, Vec<u8>, &str)> = Vec::new();
    for file in std::env::args().skip(1) {
        let bytes = std::fs::read(Path::new(&file))?;
        pages.push((file, bytes, ""));
    }
    if pages.is_empty() {
        pages.push(("an empty page".to_owned(), b"<p>x".to_vec(), "text/html"));
        for bytes in [2_000, 20_000, 200_000, 2_000_000] {
            pages.push((
                format!("an article of {bytes}"),
                article(bytes),
                "text/html",
            ));
            pages.push((
                format!("a reference of {bytes}"),
                manual(bytes),
                "text/html",
            ));
        }
        pages.push((
            "text".to_owned(),
            b"A line of text.\n".repeat(12_500),
            "text/plain",
        ));
    }
    for (name, bytes, content_type) in pages {
        let source = Source {
            bytes: bytes.into(),
            content_type: content_type.to_owned(),
            url: Url::parse("https://example.com/page")?,
            file_name: None,
            complete: true,
            announced_bytes: None,
        };
        let rounds = if source.bytes.len() > 1_000_000 {
            20
        } else {
            100
        };
        let mut times = Vec::new();
        let mut last = None;
        for _ in 0..rounds {
            let begin = Instant::now();
            let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
            last = Some(runtime.block_on(reader.read(source.clone(), deadline))?);
            times.push(begin.elapsed());
        }
        times.sort();
        let milliseconds = |time: Duration| time.as_secs_f64() * 1_000.0;
        let Some(reading) = last else { continue };
        let (core, memory) = reading
            .cost
            .map_or((0, 0), |cost| (cost.core_micros, cost.memory_bytes));
        println!(
            "{name:<34} {:>10} {:>9.2} {:>9.2} {:>9.2} {:>11} {:>9} {}{}",
            source.bytes.len(),
            milliseconds(times[times.len() / 2]),
            milliseconds(times[times.len() * 95 / 100]),
            milliseconds(Duration::from_micros(core)),
            memory / 1_024,
            reading.text.len(),
            reading.form.as_str(),
            reading
                .truncated
                .map_or_else(String::new, |truncated| format!(" ({truncated})")),
        );
    }
    Ok(())
}

/// An article with the usual things around it.
fn article(bytes: usize) -> Vec<u8> {
    let mut page = String::from(
        "<!doctype html><html><head><meta charset=utf-8><title>An article</title><style>p{}</style></head><body>\
         <nav><ul><li><a href=/a>A</a><li><a href=/b>B</a></ul></nav><div class=content><h1>An article</h1>",
    );
    let mut number = 0;
    while page.len() < bytes {
        number += 1;
        if number % 8 == 0 {
            page.push_str("<h2>A heading</h2>");
        }
        page.push_str("<p class=\"text body\">It was, they said, the <b>best</b> of times; and the <a href=\"/worst?n=1\">worst</a>, \
                       which is a longer story, of two cities, and of more people than <i>anyone</i> can count, or cares to.</p>\n");
    }
    page.push_str("</div><footer>Foot</footer></body></html>");
    page.into_bytes()
}

/// A reference with code, tables and lists.
fn manual(bytes: usize) -> Vec<u8> {
    let mut page =
        String::from("<!doctype html><title>A reference</title><main><h1>A reference</h1>");
    while page.len() < bytes {
        page.push_str(
            "<h3><code>call(x)</code></h3><p>Calls <code>x</code>, see <a href=\"other.html#y\">the other</a>.</p>\
             <pre><code class=language-rust>let a = call(1);\nassert_eq!(a, 2);\n</code></pre>\
             <table><tr><th>x<th>result<tr><td>1<td>2<tr><td>2<td>4</table><ul><li>one<li>two<ul><li>three</ul></ul>\n",
        );
    }
    page.push_str("</main>");
    page.into_bytes()
}
