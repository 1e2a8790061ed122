//! How the limits of a request stand, in the headers that the original has for it.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::domain::limit::{Gauge, Standing};

/// The names for one kind of limit.
struct Names {
    limit: HeaderName,
    remaining: HeaderName,
    reset: HeaderName,
}

const REQUESTS: Names = Names {
    limit: HeaderName::from_static("x-ratelimit-limit-requests"),
    remaining: HeaderName::from_static("x-ratelimit-remaining-requests"),
    reset: HeaderName::from_static("x-ratelimit-reset-requests"),
};
const TOKENS: Names = Names {
    limit: HeaderName::from_static("x-ratelimit-limit-tokens"),
    remaining: HeaderName::from_static("x-ratelimit-remaining-tokens"),
    reset: HeaderName::from_static("x-ratelimit-reset-tokens"),
};

/// Adds the `x-ratelimit-*` headers, for what is limited.
pub fn show(headers: &mut HeaderMap, standing: &Standing) {
    for (names, gauge) in [(REQUESTS, standing.requests), (TOKENS, standing.tokens)] {
        let Some(Gauge { limit, remaining, reset }) = gauge else { continue };
        headers.insert(names.limit, limit.into());
        headers.insert(names.remaining, remaining.into());
        headers.insert(names.reset, span(reset));
    }
}

/// Takes them away again, from an answer that is kept: they say how the limits stood at its time.
pub(super) fn hide(headers: &mut HeaderMap) {
    for names in [REQUESTS, TOKENS] {
        for name in [names.limit, names.remaining, names.reset] {
            headers.remove(name);
        }
    }
}

/// A duration as the original writes it, to the next second: `0s`, `59s`, `6m0s`.
fn span(duration: Duration) -> HeaderValue {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    let (minutes, seconds, mut digits) = (seconds / 60, seconds % 60, itoa::Buffer::new());
    let mut text = BytesMut::with_capacity(32);
    if minutes > 0 {
        text.put_slice(digits.format(minutes).as_bytes());
        text.put_u8(b'm');
    }
    text.put_slice(digits.format(seconds).as_bytes());
    text.put_u8(b's');
    HeaderValue::from_maybe_shared(text.freeze()).expect("digits and letters are a header value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_as_the_original_writes_them() {
        for (millis, expected) in
            [(0, "0s"), (1, "1s"), (59_000, "59s"), (59_001, "1m0s"), (360_000, "6m0s")]
        {
            assert_eq!(span(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn what_is_not_limited_is_not_shown() {
        let mut headers = HeaderMap::new();
        show(&mut headers, &Standing::default());
        assert!(headers.is_empty());
        let gauge = Gauge { limit: 9, remaining: 2, reset: Duration::from_secs(61) };
        show(&mut headers, &Standing { tokens: Some(gauge), requests: None });
        assert_eq!(headers.len(), 3);
        assert_eq!(headers["x-ratelimit-limit-tokens"], "9");
        assert_eq!(headers["x-ratelimit-remaining-tokens"], "2");
        assert_eq!(headers["x-ratelimit-reset-tokens"], "1m1s");
        hide(&mut headers);
        assert!(headers.is_empty());
    }
}
