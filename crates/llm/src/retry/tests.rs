use super::*;
use crate::ErrorKind;

fn error(kind: ErrorKind) -> ProviderError {
    ProviderError {
        kind,
        provider: "p".to_owned(),
        status: None,
        sentence: String::new(),
    }
}

fn asked(pairs: &[(&'static str, &str)]) -> Option<Duration> {
    let headers = pairs
        .iter()
        .map(|(name, value)| {
            (
                http::HeaderName::from_static(name),
                http::HeaderValue::from_str(value).unwrap(),
            )
        })
        .collect();
    asked_wait(&headers)
}

#[test]
fn a_provider_asks_in_milliseconds_seconds_or_with_a_date() {
    assert_eq!(
        asked(&[("retry-after-ms", "250"), ("retry-after", "9")]),
        Some(Duration::from_millis(250))
    );
    assert_eq!(
        asked(&[("retry-after", "1.5")]),
        Some(Duration::from_millis(1_500))
    );
    assert_eq!(
        asked(&[
            ("date", "Mon, 30 Nov 2026 10:00:00 GMT"),
            ("retry-after", "Mon, 30 Nov 2026 10:00:07 GMT")
        ]),
        Some(Duration::from_secs(7))
    );
    assert_eq!(
        asked(&[("retry-after", "Mon, 30 Nov 1999 10:00:07 GMT")]),
        Some(Duration::ZERO)
    );
}

#[test]
fn a_wait_that_is_no_number_is_none() {
    for odd in ["", "soon", "-1", "NaN", "inf", "1e300"] {
        assert_eq!(asked(&[("retry-after", odd)]), None, "{odd}");
    }
    assert_eq!(asked(&[]), None);
}

#[test]
fn waits_double_and_are_spread() {
    let policy = RetryPolicy::default();
    let overloaded = error(ErrorKind::Overloaded { retry_after: None });
    assert_eq!(
        policy.wait(&overloaded, 0, 0.0),
        Some(Duration::from_millis(500))
    );
    assert_eq!(
        policy.wait(&overloaded, 1, 1.0),
        Some(Duration::from_millis(500))
    );
    assert_eq!(policy.wait(&overloaded, 2, 0.0), None);
}

#[test]
fn what_the_provider_asks_is_honoured_up_to_a_minute() {
    let policy = RetryPolicy::default();
    let asks = |seconds| {
        let retry_after = Some(Duration::from_secs(seconds));
        policy.wait(&error(ErrorKind::RateLimited { retry_after }), 0, 1.0)
    };
    assert_eq!(asks(10), Some(Duration::from_secs(11)));
    assert_eq!(asks(60), Some(Duration::from_mins(1)));
    assert_eq!(asks(3_600), None);
}

#[test]
fn what_cannot_succeed_is_not_sent_again() {
    for kind in [
        ErrorKind::Auth,
        ErrorKind::OutOfCredit,
        ErrorKind::BadRequest,
        ErrorKind::NotFound,
        ErrorKind::ContentTooLarge,
        ErrorKind::Cancelled,
    ] {
        assert_eq!(
            RetryPolicy::default().wait(&error(kind), 0, 0.5),
            None,
            "{kind:?}"
        );
    }
}
