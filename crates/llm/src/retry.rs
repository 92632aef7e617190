//! When a request is sent again. The only layer that does so: two of them multiply (anthropic-sdk-typescript#791).

#[cfg(test)]
mod tests;

use std::time::Duration;

use http::HeaderMap;
use kernel::{Clock, SystemClock};
use time::{OffsetDateTime, format_description::well_known::Rfc2822};

use crate::ProviderError;

/// How often and after how long a request that brought no event is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Requests after the first.
    pub max_retries: u32,
    /// The wait before the first retry, if the Provider does not say; doubled for each further one.
    pub first_wait: Duration,
    /// The longest wait. A Provider that asks for more is not waited for: its error says for how long.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 2,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_mins(1),
        }
    }
}

impl RetryPolicy {
    /// How long to wait before the next request, if there should be one.
    ///
    /// `retries` is how many there have been; `roll`, between 0 and 1, spreads those who were refused at the same time: a
    /// wait of our own is shortened by up to half, one that the Provider asked for is lengthened by up to a tenth.
    pub fn wait(&self, error: &ProviderError, retries: u32, roll: f64) -> Option<Duration> {
        if !error.retryable() || retries >= self.max_retries {
            return None;
        }
        let roll = roll.clamp(0.0, 1.0);
        match error.retry_after() {
            Some(asked) if asked > self.longest_wait => None,
            Some(asked) => Some(asked.mul_f64(1.0 + roll / 10.0).min(self.longest_wait)),
            None => {
                let doubled = self
                    .first_wait
                    .saturating_mul(2_u32.saturating_pow(retries));
                Some(doubled.min(self.longest_wait).mul_f64(1.0 - roll / 2.0))
            }
        }
    }
}

/// What the headers ask to wait: `retry-after-ms` (OpenAI), else `Retry-After` in seconds or as a date (RFC 9110, §10.2.3).
/// A date is compared with the answer's own, so that a wrong clock here does no harm.
pub(crate) fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let seconds = |text: &str, unit: f64| {
        let number: f64 = text.parse().ok()?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    if let Some(wait) = text("retry-after-ms").and_then(|text| seconds(text, 0.001)) {
        return Some(wait);
    }
    let asked = text("retry-after")?;
    if let Some(wait) = seconds(asked, 1.0) {
        return Some(wait);
    }
    let until = unix_seconds(asked)?;
    let now = text("date")
        .and_then(unix_seconds)
        .unwrap_or_else(|| SystemClock.now().as_seconds());
    Some(Duration::from_secs(
        u64::try_from(until.saturating_sub(now)).unwrap_or(0),
    ))
}

fn unix_seconds(date: &str) -> Option<i64> {
    OffsetDateTime::parse(date, &Rfc2822)
        .ok()
        .map(OffsetDateTime::unix_timestamp)
}
