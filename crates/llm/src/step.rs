//! Reads one step: bytes → events of the stream → what happened.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::{
    ErrorKind, ProviderError, StepEvent, StepStream,
    endpoint::{Endpoint, Opened, cancelled, drain},
    http_error::content_type_is,
    outbox::{Fault, Outbox, STEP_BYTES},
    sse::{FrameTooLong, Framer},
};

/// How long the end of the body may take once the wire said that there is nothing more.
const DRAIN: Duration = Duration::from_millis(5);

/// Whether more is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    More,
    /// The wire's own word for the end was read.
    End,
}

/// What one wire format makes of the data of its events.
pub(crate) trait Decode: Send {
    /// Reads the data of one event.
    fn data(&mut self, data: &str, out: &mut Outbox) -> Result<Flow, Fault>;

    /// Whether the reason for the end has been read: from then on a stream that just stops is complete.
    fn knows_its_end(&self) -> bool;

    /// Says how the step ended: every open call and [`StepEvent::Done`]. Called once, when `knows_its_end`.
    fn finish(&mut self, out: &mut Outbox);
}

/// The stream of one opened step.
pub(crate) fn read(
    opened: Opened,
    decoder: Box<dyn Decode>,
    endpoint: Arc<Endpoint>,
    provider: Arc<str>,
    cancel: CancellationToken,
) -> StepStream {
    let one_document = content_type_is(opened.response.headers(), "application/json");
    let reader = Reader {
        opened: Some(opened),
        first: true,
        body: one_document.then(Vec::new),
        framer: Framer::default(),
        decoder,
        out: Outbox::default(),
        failed: None,
        endpoint,
        provider,
        cancel,
    };
    stream::unfold(reader, async |mut reader| {
        let item = reader.next().await?;
        Some((item, reader))
    })
    .boxed()
}

struct Reader {
    /// The answer, until it ended one way or the other.
    opened: Option<Opened>,
    /// Whether no byte has come yet.
    first: bool,
    /// The body of an endpoint that answers with one document although it was asked to stream.
    body: Option<Vec<u8>>,
    framer: Framer,
    decoder: Box<dyn Decode>,
    out: Outbox,
    /// Told after what happened before it.
    failed: Option<Fault>,
    endpoint: Arc<Endpoint>,
    provider: Arc<str>,
    cancel: CancellationToken,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<StepEvent, ProviderError>> {
        loop {
            if let Some(event) = self.out.take() {
                return Some(Ok(event));
            }
            if let Some(fault) = self.failed.take() {
                return Some(Err(fault.of(&self.provider)));
            }
            let mut opened = self.opened.take()?;
            match self.advance(&mut opened).await {
                Ok(Flow::More) => self.opened = Some(opened),
                Ok(Flow::End) => drain(opened.response, DRAIN).await,
                Err(fault) => self.failed = Some(fault),
            }
        }
    }

    /// Reads one chunk.
    async fn advance(&mut self, opened: &mut Opened) -> Result<Flow, Fault> {
        let until = if self.first {
            opened.first_byte_until
        } else {
            Instant::now() + self.endpoint.timeouts.idle
        };
        let chunk = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(cancelled()),
            chunk = timeout_at(until, opened.response.chunk()) => chunk,
        };
        match chunk {
            Ok(Ok(Some(chunk))) => {
                self.first = false;
                self.chunk(&chunk)
            }
            Ok(Ok(None)) => self.end_of_body("ended without a finish reason"),
            Ok(Err(_broken)) => self.end_of_body("broke off"),
            Err(_elapsed) if self.decoder.knows_its_end() => self.finish(),
            Err(_elapsed) if self.first => Err(self.endpoint.late("answered nothing")),
            Err(_elapsed) => Err(Fault::new(
                ErrorKind::Timeout,
                format!(
                    "went silent in the middle of its answer for {} s; try again",
                    self.endpoint.timeouts.idle.as_secs_f64()
                ),
            )),
        }
    }

    fn chunk(&mut self, chunk: &[u8]) -> Result<Flow, Fault> {
        if let Some(body) = &mut self.body {
            if body.len() + chunk.len() > STEP_BYTES {
                return Err(too_long());
            }
            body.extend_from_slice(chunk);
            return Ok(Flow::More);
        }
        self.framer.push(chunk);
        while let Some(data) = self.framer.next().map_err(|FrameTooLong| too_long())? {
            if self.decoder.data(&data, &mut self.out)? == Flow::End {
                return self.finish();
            }
        }
        Ok(Flow::More)
    }

    fn end_of_body(&mut self, how: &str) -> Result<Flow, Fault> {
        if let Some(body) = self.body.take() {
            // Servers that mislabel a stream exist as well as those that do not stream.
            if body.trim_ascii_start().starts_with(b"{") {
                let document = String::from_utf8_lossy(&body);
                self.decoder.data(&document, &mut self.out)?;
            } else if self.chunk(&body)? == Flow::End {
                return Ok(Flow::End);
            }
        }
        let cut = || {
            Fault::new(
                ErrorKind::CutStream,
                format!("cut its answer short: the stream {how}; try again"),
            )
        };
        if let Some(data) = self.framer.end().map_err(|FrameTooLong| too_long())? {
            match self.decoder.data(&data, &mut self.out) {
                Ok(_) => {}
                // Half an event is the cut, not a mistake in the wire.
                Err(fault) if fault.kind == ErrorKind::Malformed => {
                    if !self.decoder.knows_its_end() {
                        return Err(cut());
                    }
                }
                Err(fault) => return Err(fault),
            }
        }
        if self.decoder.knows_its_end() {
            self.finish()
        } else {
            Err(cut())
        }
    }

    /// The end, where the wire may have said so before the reason was known.
    fn finish(&mut self) -> Result<Flow, Fault> {
        if !self.decoder.knows_its_end() {
            return Err(Fault::new(
                ErrorKind::CutStream,
                "cut its answer short: the stream was closed without a finish reason; try again",
            ));
        }
        self.decoder.finish(&mut self.out);
        Ok(Flow::End)
    }
}

fn too_long() -> Fault {
    Fault::new(
        ErrorKind::ContentTooLarge,
        format!("sent an event of more than {STEP_BYTES} bytes, which is the bound"),
    )
}
