//! The gRPC face. Only this file names tonic and the generated types.

use std::time::Duration;

use kernel::{Act, Caller, decide};
use proto::fetch::v1::{
    FetchRequest, FetchResponse, Page, PageForm, PageOrigin, Refusal as WireRefusal, RefusalReason,
    fetch_response::Outcome,
    fetch_service_server::{FetchService, FetchServiceServer},
};
use reader::Form;
use runtime::GrpcServer;
use tonic::{Request, Response, Status};
use tracing::Instrument as _;
use url::Url;

use crate::{
    Error, HostList,
    body::End,
    fetch::{Ask, Fetched, Fetcher, Origin, Progress, Snapshot},
    refusal::{Reason, Refusal},
    report,
};

/// Time left for the answer's way back, so that a caller in a hurry still gets a sentence.
const WAY_BACK: Duration = Duration::from_millis(200);

/// Bytes of a URL that redirected.
const SHOWN_URL_BYTES: usize = 512;

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
        Ok(Response::new(render(outcome?)))
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
    let Caller::Npc { npc, player } = *caller else {
        return Err(Error::NotAllowed(caller.label()));
    };
    if !decide(caller, Act::Fetch).allows() {
        return Err(Error::NotAllowed(caller.label()));
    }
    Ok(Ask {
        owner: (npc, player),
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
    let snapshot = &*fetched.snapshot;
    let reading = &snapshot.reading;
    let left_out = left_out(snapshot);
    Page {
        final_url: snapshot.url.to_string(),
        status: u32::from(snapshot.status.as_u16()),
        content_type: snapshot.content_type.clone(),
        text: fetched.page.text,
        start_index: fetched.page.start,
        next_start_index: fetched.page.next,
        total_characters: fetched.page.total,
        body_cut: matches!(snapshot.end, End::Cut | End::CutOnTheWire),
        body_short: matches!(snapshot.end, End::Short | End::Corrupt | End::Late),
        body_bytes: snapshot.body_bytes,
        redirects: u32::try_from(snapshot.passed.len()).unwrap_or(u32::MAX),
        fetched_at_micros: snapshot.at.as_micros(),
        media_type: reading.media_type.clone(),
        charset: reading.charset.clone().unwrap_or_default(),
        form: render_form(reading.form).into(),
        title: reading.title.clone().unwrap_or_default(),
        passed_urls: snapshot.passed.iter().map(shown).collect(),
        total_is_minimum: !left_out.is_empty(),
        left_out,
        origin: match fetched.origin {
            Origin::Host => PageOrigin::Host,
            Origin::HostAgain => PageOrigin::HostAgain,
            Origin::Snapshot => PageOrigin::Snapshot,
        }
        .into(),
        wire_bytes: snapshot.wire_bytes,
    }
}

fn render_form(form: Form) -> PageForm {
    match form {
        Form::Markdown => PageForm::Markdown,
        Form::Text => PageForm::Text,
        Form::Pdf => PageForm::Pdf,
        Form::Description => PageForm::Description,
        Form::Fallback => PageForm::Fallback,
    }
}

fn shown(url: &Url) -> String {
    let url = url.as_str();
    url[..kernel::floor_char_boundary(url, SHOWN_URL_BYTES)].to_owned()
}

/// What of a page is missing, in words.
fn left_out(snapshot: &Snapshot) -> Vec<String> {
    let of_body = match snapshot.end {
        End::Complete => None,
        End::Cut => Some(format!(
            "the page is longer than what is read of one: the first {} bytes",
            snapshot.body_bytes
        )),
        End::CutOnTheWire => Some(format!(
            "the page is longer than what is read of one: the first {} bytes as they are sent",
            snapshot.wire_bytes
        )),
        End::Short => Some("the connection ended before the page did".to_owned()),
        End::Corrupt => {
            Some("the page's compression is broken, and this is what comes before".to_owned())
        }
        End::Late => Some("the host is too slow, and this is what came in time".to_owned()),
    };
    let of_text = snapshot
        .reading
        .truncated
        .map(|truncated| truncated.to_string());
    let of_error = snapshot
        .is_excerpt
        .then(|| "this is the beginning of what the host says about the error".to_owned());
    of_body.into_iter().chain(of_text).chain(of_error).collect()
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
        Reason::Robots => RefusalReason::Robots,
        Reason::Unreadable => RefusalReason::Unreadable,
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
