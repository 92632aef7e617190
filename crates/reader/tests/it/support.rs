//! A reader whose children are this crate's own program.

use std::{path::PathBuf, time::Duration};

use reader::{Config, Error, Reader, Reading, Source};
use tokio::time::Instant;
use url::Url;

/// Time enough for a debug build on a machine however busy; no test waits for it to pass. What hangs is ended by the test runner.
pub(crate) const PLENTY: Duration = Duration::from_hours(1);

pub(crate) fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_reader-child"))
}

pub(crate) fn reader() -> Reader {
    Reader::new(Config::default(), program())
}

pub(crate) fn source(bytes: impl Into<Vec<u8>>, content_type: &str) -> Source {
    Source {
        bytes: bytes.into().into(),
        content_type: content_type.to_owned(),
        url: Url::parse("https://example.com/dir/page.html?q=1").unwrap(),
        file_name: None,
        complete: true,
        announced_bytes: None,
    }
}

pub(crate) async fn read(source: Source) -> Result<Reading, Error> {
    reader().read(source, Instant::now() + PLENTY).await
}

pub(crate) async fn read_html(page: &str) -> Reading {
    read(source(page, "text/html; charset=utf-8"))
        .await
        .unwrap()
}
