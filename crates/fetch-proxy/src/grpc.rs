//! The gRPC face. Only this file names tonic and the generated types.

use std::time::Duration;

use kernel::{Act, Caller, decide};
use outbound::End;
use proto::fetch::v1::{
    FetchRequest, FetchResponse, Page, Refusal as WireRefusal, RefusalReason,
    fetch_response::Outcome,
    fetch_service_server::{FetchService, FetchServiceServer},
};
use runtime::GrpcServer;
use tonic::{Request, Response, Status};
use tracing::Instrument as _;

use crate::{
    Error, HostList,
    fetch::{Ask, Fetched, Fetcher, Progress},
    refusal::{Reason, Refusal},
    report,
};

/// Time left for the answer's way back, so that a caller in a hurry still gets a sentence.
const WAY_BACK: Duration = Duration::from_millis(200);

/// The services, without layers.
pub(crate) fn server(fetcher: Fetcher) -> GrpcServer {
    GrpcServer::new(kernel::ServiceName::FetchProxy)
        .add(FetchServiceServer::new(Service { fetcher }))
        .describe(proto::FILE_DESCRIPTOR_SET)
}

#[derive(Debug)]
struct Service {
    fetcher: Fetcher,
}

#[async_trait::async_trait]
impl FetchService for Service {
    async fn fetch(
        &self,
        request: Request<FetchRequest>,
    ) -> Result<Response<FetchResponse>, Status> {
        let caller = runtime::caller(&request)?;
        let patience = runtime::remaining(&request).saturating_sub(WAY_BACK);
        let ask = parse(&caller, request.into_inner(), patience)?;
        let mut event = report::begin(&caller, &ask);
        let span = event.span().clone();
        let mut recorded = Recorded {
            progress: Progress::default(),
            event: &mut event,
        };
        let work = self.fetcher.fetch(&ask, &mut recorded.progress);
        let outcome = work.instrument(span).await;
        drop(recorded);
        report::end(&mut event, &outcome);
        Ok(Response::new(render(outcome)))
    }
}

/// Puts into the event how far a fetch came, also when the caller hangs up.
struct Recorded<'e> {
    progress: Progress,
    event: &'e mut runtime::WideEvent,
}

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        report::progress(self.event, &self.progress);
    }
}

fn parse(caller: &Caller, request: FetchRequest, patience: Duration) -> Result<Ask, Error> {
    if !decide(caller, Act::Fetch).allows() {
        return Err(Error::NotAllowed(caller.label()));
    }
    Ok(Ask {
        url: request.url,
        start_index: request.start_index,
        hosts: HostList::parse(&request.allowed_hosts)?,
        patience,
    })
}

fn render(outcome: Result<Fetched, Refusal>) -> FetchResponse {
    let outcome = match outcome {
        Ok(fetched) => Outcome::Page(render_page(fetched)),
        Err(refusal) => Outcome::Refusal(render_refusal(refusal)),
    };
    FetchResponse {
        outcome: Some(outcome),
    }
}

fn render_page(fetched: Fetched) -> Page {
    Page {
        final_url: fetched.url.into(),
        status: u32::from(fetched.status.as_u16()),
        content_type: fetched.content_type,
        text: fetched.page.text,
        start_index: fetched.page.start,
        next_start_index: fetched.page.next,
        total_characters: fetched.page.total,
        body_cut: fetched.end == End::Cut,
        body_short: fetched.end == End::Broken,
        body_bytes: u64::try_from(fetched.body_bytes).unwrap_or(u64::MAX),
        redirects: fetched.redirects,
        fetched_at_micros: fetched.at.as_micros(),
    }
}

fn render_refusal(refusal: Refusal) -> WireRefusal {
    let reason = match refusal.reason {
        Reason::InvalidUrl => RefusalReason::InvalidUrl,
        Reason::NotHttps => RefusalReason::NotHttps,
        Reason::Blocked => RefusalReason::Blocked,
        Reason::Unresolvable => RefusalReason::Unresolvable,
        Reason::HostNotAllowed => RefusalReason::HostNotAllowed,
        Reason::Redirect => RefusalReason::Redirect,
        Reason::Timeout => RefusalReason::Timeout,
        Reason::Tls => RefusalReason::Tls,
        Reason::Unreachable => RefusalReason::Unreachable,
        Reason::BadResponse => RefusalReason::BadResponse,
    };
    WireRefusal {
        reason: reason.into(),
        sentence: refusal.sentence,
        hop: refusal.hop,
        rule: refusal
            .rule
            .map(|rule| rule.as_str().to_owned())
            .unwrap_or_default(),
        address: refusal
            .address
            .map(|address| address.to_string())
            .unwrap_or_default(),
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        runtime::status::from_error(&error, error.code(), error.field())
    }
}
