//! The `grpc-timeout` header: at most eight digits and a unit (gRPC over HTTP/2, "Requests").

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header.
pub(crate) const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// A `grpc-timeout` that is no timeout.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header grpc-timeout must be one to eight digits and one of H, M, S, m, u, n")]
pub(crate) struct InvalidTimeout;

/// Reads the header, if it is there.
pub(crate) fn read(headers: &HeaderMap) -> Result<Option<Duration>, InvalidTimeout> {
    let Some(value) = headers.get(GRPC_TIMEOUT) else {
        return Ok(None);
    };
    let text = value.to_str().map_err(|_not_ascii| InvalidTimeout)?;
    let unit = text.chars().next_back().ok_or(InvalidTimeout)?;
    let digits = text.strip_suffix(unit).ok_or(InvalidTimeout)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(InvalidTimeout);
    }
    let count: u64 = digits.parse().map_err(|_too_long| InvalidTimeout)?;
    match unit {
        'H' => Ok(Some(Duration::from_secs(count * 3_600))),
        'M' => Ok(Some(Duration::from_secs(count * 60))),
        'S' => Ok(Some(Duration::from_secs(count))),
        'm' => Ok(Some(Duration::from_millis(count))),
        'u' => Ok(Some(Duration::from_micros(count))),
        'n' => Ok(Some(Duration::from_nanos(count))),
        _ => Err(InvalidTimeout),
    }
}

/// Writes a timeout in the finest unit that eight digits hold. A timeout beyond 27 hours is said in seconds.
pub(crate) fn write(timeout: Duration) -> HeaderValue {
    const MOST: u128 = 99_999_999;
    let text = if timeout.as_micros() <= MOST {
        format!("{}u", timeout.as_micros())
    } else if timeout.as_millis() <= MOST {
        format!("{}m", timeout.as_millis())
    } else {
        format!("{}S", u128::from(timeout.as_secs()).min(MOST))
    };
    HeaderValue::try_from(text).unwrap_or_else(|_error| HeaderValue::from_static("0u"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Option<Duration>, InvalidTimeout> {
        let mut headers = HeaderMap::new();
        headers.insert(GRPC_TIMEOUT, text.parse().unwrap());
        read(&headers)
    }

    #[test]
    fn what_is_written_is_read() {
        for timeout in [
            Duration::ZERO,
            Duration::from_micros(1),
            Duration::from_millis(1_500),
            Duration::from_mins(10),
            Duration::from_secs(99_999_999),
        ] {
            let text = write(timeout);
            assert_eq!(read_text(text.to_str().unwrap()), Ok(Some(timeout)));
        }
    }

    #[test]
    fn a_timeout_that_is_none_is_refused() {
        for text in [
            "",
            "S",
            "10",
            "-1S",
            "+1S",
            "123456789S",
            "1 S",
            "1x",
            "1.5S",
        ] {
            assert_eq!(read_text(text), Err(InvalidTimeout), "{text:?}");
        }
        assert_eq!(read(&HeaderMap::new()), Ok(None));
    }
}
