//! Reports the state of a request's limits in OpenAI's `x-ratelimit-*` headers.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use domain::limit::{LimitState, LimitStatus};

/// The header names for one kind of limit.
struct HeaderNames {
    limit: HeaderName,
    remaining: HeaderName,
    reset: HeaderName,
}

const REQUESTS: HeaderNames = HeaderNames {
    limit: HeaderName::from_static("x-ratelimit-limit-requests"),
    remaining: HeaderName::from_static("x-ratelimit-remaining-requests"),
    reset: HeaderName::from_static("x-ratelimit-reset-requests"),
};
const TOKENS: HeaderNames = HeaderNames {
    limit: HeaderName::from_static("x-ratelimit-limit-tokens"),
    remaining: HeaderName::from_static("x-ratelimit-remaining-tokens"),
    reset: HeaderName::from_static("x-ratelimit-reset-tokens"),
};

/// More than the total length of all values, in bytes.
const MAX_VALUE_BYTES: usize = 144;

/// Adds the `x-ratelimit-*` headers of the limits that are set. The values share one buffer.
pub fn insert(headers: &mut HeaderMap, limit_status: &LimitStatus) {
    if limit_status.requests.is_none() && limit_status.tokens.is_none() {
        return;
    }
    let mut text = BytesMut::with_capacity(MAX_VALUE_BYTES);
    for (names, gauge) in [(REQUESTS, limit_status.requests), (TOKENS, limit_status.tokens)] {
        let Some(LimitState { limit, remaining, reset }) = gauge else { continue };
        headers.insert(names.limit, number(&mut text, limit));
        headers.insert(names.remaining, number(&mut text, remaining));
        headers.insert(names.reset, span(&mut text, reset));
    }
}

/// Removes the headers from an answer that is stored: they describe the limits at its time.
pub(super) fn remove(headers: &mut HeaderMap) {
    for names in [REQUESTS, TOKENS] {
        for name in [names.limit, names.remaining, names.reset] {
            headers.remove(name);
        }
    }
}

fn number(text: &mut BytesMut, number: u64) -> HeaderValue {
    put_number(text, number);
    value(text)
}

/// Formats a duration as OpenAI does, rounded up to seconds: `0s`, `59s`, `6m0s`.
fn span(text: &mut BytesMut, duration: Duration) -> HeaderValue {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    if minutes > 0 {
        put_number(text, minutes);
        text.put_u8(b'm');
    }
    put_number(text, seconds);
    text.put_u8(b's');
    value(text)
}

fn put_number(text: &mut BytesMut, number: u64) {
    text.put_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Takes the formatted text as a header value.
fn value(text: &mut BytesMut) -> HeaderValue {
    let text = text.split().freeze();
    HeaderValue::from_maybe_shared(text).expect("digits and letters are a header value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_as_the_original_writes_them() {
        for (millis, expected) in
            [(0, "0s"), (1, "1s"), (59_000, "59s"), (59_001, "1m0s"), (360_000, "6m0s")]
        {
            assert_eq!(span(&mut BytesMut::new(), Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn what_is_not_limited_is_not_shown() {
        let mut headers = HeaderMap::new();
        insert(&mut headers, &LimitStatus::default());
        assert!(headers.is_empty());
        let gauge = LimitState { limit: 9, remaining: 2, reset: Duration::from_secs(61) };
        insert(&mut headers, &LimitStatus { tokens: Some(gauge), requests: None });
        assert_eq!(headers.len(), 3);
        assert_eq!(headers["x-ratelimit-limit-tokens"], "9");
        assert_eq!(headers["x-ratelimit-remaining-tokens"], "2");
        assert_eq!(headers["x-ratelimit-reset-tokens"], "1m1s");
        remove(&mut headers);
        assert!(headers.is_empty());
    }
}
