//! The way from a body to a reading.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use encoding_rs::{Encoding, UTF_8};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

use crate::{
    Config, Error, Form, Reading, Source, Truncated,
    charset::{self, Markup},
    describe, fallback,
    frame::{Request, Task},
    process::{self, Answer, Outcome},
    sniff::{self, Kind, Sniffed},
    text, visible,
};

/// What is kept of the time for a plain text of a page that took too long.
const RESERVE: Duration = Duration::from_millis(400);
/// The file that a process runs, also after another has taken its name (proc(5)).
const RUNNING_PROGRAM: &str = "/proc/self/exe";
/// Bytes of a body that a plain text is made of.
const FALLBACK_BYTES: usize = 1_024 * 1_024;

/// Reads bodies. One for a process: it bounds how many are read at the same time.
#[derive(Debug)]
pub struct Reader {
    config: Config,
    program: PathBuf,
    turns: Arc<Semaphore>,
}

impl Reader {
    /// A reader whose children run `program`, the first line of whose `main` is [`crate::child_main`]: usually the running program
    /// itself (`std::env::current_exe`), which is then started from memory, so that it may be replaced on disk while it runs.
    pub fn new(config: Config, program: PathBuf) -> Self {
        let is_this = std::env::current_exe().is_ok_and(|this| this == program);
        let running = Path::new(RUNNING_PROGRAM);
        let program = if is_this && running.exists() {
            running.to_owned()
        } else {
            program
        };
        let turns = Arc::new(Semaphore::new(config.at_once.max(1)));
        Self {
            config,
            program,
            turns,
        }
    }

    /// The body as text, before the deadline. A page that cannot be read properly is read as plain text as far as it goes, and
    /// says so; an error is left for when there is nothing to give.
    ///
    /// Dropping the future ends the work and its process.
    pub async fn read(&self, source: Source, deadline: Instant) -> Result<Reading, Error> {
        let sniffed = sniff::sniff(&source.bytes, &source.content_type);
        if source.bytes.is_empty() {
            return Ok(description(
                "[The body is empty.]".to_owned(),
                sniffed.media_type,
            ));
        }
        match sniffed.kind {
            Kind::Html => self.html(&source, sniffed.media_type, deadline).await,
            Kind::Pdf => self.pdf(&source, sniffed.media_type, deadline).await,
            Kind::Other => Ok(description(
                describe::describe(&source, &sniffed.media_type),
                sniffed.media_type,
            )),
            Kind::Text | Kind::Json | Kind::Xml => Ok(self.text(&source, sniffed).await),
        }
    }

    async fn text(&self, source: &Source, sniffed: Sniffed) -> Reading {
        let markup = match sniffed.kind {
            Kind::Json => Markup::Json,
            Kind::Xml => Markup::Xml,
            Kind::Html | Kind::Text | Kind::Pdf | Kind::Other => Markup::Plain,
        };
        let encoding = encoding_of(source, markup);
        let limit = self.config.text_bytes;
        let decoded = text::decode(&source.bytes, encoding, source.complete, limit).await;
        let is_blank = decoded.text.trim().is_empty();
        Reading {
            truncated: decoded.is_cut.then(|| kept(&decoded.text)),
            text: if is_blank {
                "[The body has no text, only white space.]".to_owned()
            } else {
                decoded.text
            },
            form: Form::Text,
            media_type: sniffed.media_type,
            charset: Some(encoding.name().to_ascii_lowercase()),
            title: None,
            cost: None,
        }
    }

    async fn html(
        &self,
        source: &Source,
        media_type: String,
        deadline: Instant,
    ) -> Result<Reading, Error> {
        let encoding = encoding_of(source, Markup::Html);
        let charset = Some(encoding.name().to_ascii_lowercase());
        let task = if media_type == "application/xhtml+xml" {
            Task::Xhtml
        } else {
            Task::Html
        };
        let (answer, reason) = match self.child(source, task, encoding, deadline).await {
            Ok((answer, Outcome::TooSlow)) => (answer, "it took too long"),
            Ok((answer, Outcome::Died | Outcome::Done)) => (
                answer,
                "it took too much memory or time, or is not built as pages are",
            ),
            Err(Error::Failed(error)) => {
                tracing::error!(%error, program = %self.program.display(), "the child that reads pages did not start");
                (Answer::default(), "its reader did not start")
            }
            Err(error) => return Err(error),
        };
        if let Some(text) = answer.text {
            let text = visible::clean(&text).into_owned();
            return Ok(Reading {
                truncated: if answer.is_cut {
                    Some(kept(&text))
                } else {
                    answer.truncated
                },
                text,
                form: Form::Markdown,
                media_type,
                charset,
                title: answer.title,
                cost: answer.cost,
            });
        }
        if Instant::now() >= deadline {
            return Err(Error::TooSlow);
        }
        let looked_at = &source.bytes[..source.bytes.len().min(FALLBACK_BYTES)];
        let is_whole = looked_at.len() == source.bytes.len() && source.complete;
        let limit = self.config.text_bytes;
        let decoded = text::decode(looked_at, encoding, is_whole, limit).await;
        let stripped = fallback::strip(&decoded.text);
        // What its references stand for is seen only now.
        let stripped = visible::clean(&stripped);
        Ok(Reading {
            text: format!(
                "[The page could not be read properly: {reason}. This is its text without its structure.]\n\n{stripped}"
            ),
            form: Form::Fallback,
            media_type,
            charset,
            title: None,
            cost: None,
            truncated: (!is_whole || decoded.is_cut).then_some(Truncated::Effort),
        })
    }

    async fn pdf(
        &self,
        source: &Source,
        media_type: String,
        deadline: Instant,
    ) -> Result<Reading, Error> {
        let (answer, outcome) = self.child(source, Task::Pdf, UTF_8, deadline).await?;
        let failure = match (answer.failure, &answer.text) {
            (Some(failure), _) => Some(failure.to_string()),
            (None, Some(_)) => None,
            (None, None) => Some(match outcome {
                Outcome::TooSlow => "it took too long to read".to_owned(),
                Outcome::Died | Outcome::Done => {
                    "it took too much memory or time to read".to_owned()
                }
            }),
        };
        if let Some(failure) = failure {
            let text = describe::unread(source, "A PDF document that could not be read", &failure);
            return Ok(Reading {
                cost: answer.cost,
                ..description(visible::clean(&text).into_owned(), media_type)
            });
        }
        let text = visible::clean(&answer.text.unwrap_or_default()).into_owned();
        let truncated = match outcome {
            _ if answer.is_cut => Some(kept(&text)),
            Outcome::Done => answer.truncated,
            Outcome::Died | Outcome::TooSlow => answer.truncated.or(Some(Truncated::Effort)),
        };
        Ok(Reading {
            text,
            form: Form::Pdf,
            media_type,
            charset: None,
            title: answer.title,
            truncated,
            cost: answer.cost,
        })
    }

    /// Has a child read the body, once it is its turn.
    async fn child(
        &self,
        source: &Source,
        task: Task,
        encoding: &'static Encoding,
        deadline: Instant,
    ) -> Result<(Answer, Outcome), Error> {
        // Never closed, so that an error is the deadline.
        let Ok(Ok(_turn)) = timeout_at(deadline, self.turns.acquire()).await else {
            return Err(Error::Busy);
        };
        let remaining = deadline.saturating_duration_since(Instant::now());
        let until = deadline - RESERVE.min(remaining / 4);
        let request = Request {
            task,
            charset: encoding.name().to_owned(),
            url: source.url.to_string(),
            is_complete: source.complete,
            text_bytes: self.config.text_bytes,
            memory_bytes: self.config.memory_bytes,
            cpu_seconds: self.config.cpu_seconds,
        };
        process::run(&self.program, &request, source.bytes.clone(), until)
            .await
            .map_err(Error::Failed)
    }
}

fn encoding_of(source: &Source, markup: Markup) -> &'static Encoding {
    charset::detect(&source.bytes, &source.content_type, markup, &source.url)
}

fn kept(text: &str) -> Truncated {
    Truncated::Text {
        kept: u64::try_from(text.len()).unwrap_or(u64::MAX),
    }
}

fn description(text: String, media_type: String) -> Reading {
    Reading {
        text,
        form: Form::Description,
        media_type,
        charset: None,
        title: None,
        truncated: None,
        cost: None,
    }
}
