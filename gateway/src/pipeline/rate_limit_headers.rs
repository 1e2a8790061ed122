//! Reports the state of a request's limits in OpenAI's `x-ratelimit-*` headers.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
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

/// The values of the headers for one kind of limit, as ranges of a text.
struct Values {
    names: HeaderNames,
    limit: Range<usize>,
    remaining: Range<usize>,
    reset: Range<usize>,
}

/// Adds the `x-ratelimit-*` headers of the limits that are set. The values share one buffer.
pub fn insert(headers: &mut HeaderMap, limit_status: &LimitStatus) {
    if limit_status.requests.is_none() && limit_status.tokens.is_none() {
        return;
    }
    let mut text = Vec::with_capacity(MAX_VALUE_BYTES);
    let kinds = [(REQUESTS, limit_status.requests), (TOKENS, limit_status.tokens)];
    let values = kinds.map(|(names, gauge)| {
        let LimitState { limit, remaining, reset } = gauge?;
        let limit = append(&mut text, |text| put_number(text, limit));
        let remaining = append(&mut text, |text| put_number(text, remaining));
        let reset = append(&mut text, |text| put_span(text, reset));
        Some(Values { names, limit, remaining, reset })
    });
    let text = Bytes::from(text);
    for Values { names, limit, remaining, reset } in values.into_iter().flatten() {
        for (name, range) in
            [(names.limit, limit), (names.remaining, remaining), (names.reset, reset)]
        {
            headers.insert(name, value(text.slice(range)));
        }
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

/// Returns the range of what `put` appends to `text`.
fn append(text: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
    let start = text.len();
    put(text);
    start..text.len()
}

/// Formats a duration as OpenAI does, rounded up to seconds: `0s`, `59s`, `6m0s`.
fn put_span(text: &mut Vec<u8>, duration: Duration) {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    if minutes > 0 {
        put_number(text, minutes);
        text.push(b'm');
    }
    put_number(text, seconds);
    text.push(b's');
}

fn put_number(text: &mut Vec<u8>, number: u64) {
    text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn value(text: Bytes) -> HeaderValue {
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
            let mut text = Vec::new();
            put_span(&mut text, Duration::from_millis(millis));
            assert_eq!(text, expected.as_bytes());
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
