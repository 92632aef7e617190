//! When a request is sent again, and when it is not.

use std::time::Duration;

use llm::ErrorKind;
use testkit::provider::{Manner, Step, Wire};
use tokio_util::sync::CancellationToken;

use crate::support::{Pair, ask, outcome, outcome_until};

fn busy(status: u16) -> Step {
    Step::refusal(status, r#"{"error":{"message":"slow down"}}"#).header("retry-after-ms", "1")
}

#[tokio::test]
async fn q26_rate_limits_and_overloads_are_waited_out_twice() {
    for wire in [Wire::ChatCompletions, Wire::Anthropic] {
        let pair = Pair::new(wire).await;
        pair.scripted
            .script([busy(429), busy(529), Step::new().text("a")]);
        assert_eq!(outcome(&*pair.provider, &ask("hi")).await.text, "a");
        pair.scripted.script([busy(503), busy(503), busy(503)]);
        let failed = outcome(&*pair.provider, &ask("hi")).await;
        assert_eq!(
            failed.failure(),
            (
                ErrorKind::Overloaded {
                    retry_after: Some(Duration::from_millis(1))
                },
                "Provider test answered 503: slow down (it asks to wait 1 s); try again later"
            )
        );
        assert_eq!(pair.scripted.requests().len(), 6);
    }
}

#[tokio::test]
async fn q26_retry_after_in_seconds_is_honoured() {
    let pair = Pair::new(Wire::ChatCompletions).await;
    let busy = Step::refusal(429, "{}").header("retry-after", "1");
    pair.scripted.script([busy, Step::new().text("a")]);
    let before = std::time::Instant::now();
    assert_eq!(outcome(&*pair.provider, &ask("hi")).await.text, "a");
    assert!(before.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn q26_a_wait_of_an_hour_is_told_and_not_waited_for() {
    let pair = Pair::new(Wire::ChatCompletions).await;
    let failed = pair
        .run(Step::refusal(429, "{}").header("retry-after", "3600"))
        .await;
    let error = failed.error.unwrap();
    assert_eq!(error.retry_after(), Some(Duration::from_hours(1)));
    assert_eq!(
        error.sentence,
        "Provider test answered 429 (it asks to wait 3600 s); try again later"
    );
    assert_eq!(pair.scripted.requests().len(), 1);
}

#[tokio::test]
async fn q26_a_wait_ends_when_the_step_is_cancelled() {
    let pair = Pair::new(Wire::ChatCompletions).await;
    pair.scripted
        .script([Step::refusal(429, "{}").header("retry-after", "50")]);
    let cancel = CancellationToken::new();
    let request = ask("hi");
    let (step, ()) = tokio::join!(outcome_until(&*pair.provider, &request, &cancel), async {
        pair.scripted.wait_for_requests(1).await;
        cancel.cancel();
    });
    assert_eq!(step.failure().0, ErrorKind::Cancelled);
}

#[tokio::test]
async fn q26_what_broke_in_the_middle_is_not_sent_again() {
    let pair = Pair::new(Wire::ChatCompletions).await;
    let step = pair.run(Step::new().text("hal").cut()).await;
    assert!(step.error.unwrap().retryable());
    assert_eq!(pair.scripted.requests().len(), 1);
}

#[tokio::test]
async fn refusals_for_good_are_not_sent_again() {
    let pair = Pair::new(Wire::ChatCompletions).await;
    for (step, kind) in [
        (Step::refusal(400, "{}"), ErrorKind::BadRequest),
        (Step::refusal(401, "{}"), ErrorKind::Auth),
        (Step::refusal(404, "{}"), ErrorKind::NotFound),
        (Step::refusal(413, "{}"), ErrorKind::ContentTooLarge),
    ] {
        assert_eq!(pair.run(step).await.failure().0, kind);
    }
    assert_eq!(pair.scripted.requests().len(), 4);
}

#[tokio::test]
async fn retries_can_be_turned_off() {
    let pair = Pair::with(Wire::ChatCompletions, Manner::Strict, |config| {
        config.retries = 0;
    })
    .await;
    pair.run(busy(503)).await;
    assert_eq!(pair.scripted.requests().len(), 1);
}
