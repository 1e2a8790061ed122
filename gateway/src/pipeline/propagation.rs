//! Passes the trace context of clients on to upstreams (W3C Trace Context), and begins the traces of sampled requests.
//!
//! Without an exporter the gateway takes no part in traces, and forwards `traceparent` and `tracestate` unchanged. With
//! one, each attempt of a sampled request is a span, and the upstream gets that span as its parent. Both headers are
//! bounded: an upstream that refuses a long head would be taken for a faulty one.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::open_request::Arrival;
use domain::trace::{AttemptNumber, RequestTrace, SpanId, TraceId, TraceParent};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// The length above which a `traceparent` is dropped, in bytes. Version 00 has 55; later ones may have more fields.
const MAX_TRACEPARENT_BYTES: usize = 256;
/// The length of a `tracestate` that is always forwarded as a whole (W3C Trace Context, 3.3.1.5), in bytes.
const MAX_TRACESTATE_BYTES: usize = 512;
/// The length above which a member of a `tracestate` that is too long is removed first, in bytes.
const MAX_MEMBER_BYTES: usize = 128;

/// Decides which requests are traced. A request of a trace is sampled if its client's span is; a request that begins a
/// trace is sampled at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSampler {
    /// Traces whose random bits are below are sampled.
    threshold: u64,
}

/// The headers that upstreams get.
#[derive(Clone, Debug)]
pub(super) struct TraceHeaders {
    traceparent: HeaderValue,
    tracestate: Option<HeaderValue>,
}

/// What an attempt carries of a trace.
#[derive(Clone, Debug)]
pub(super) struct AttemptContext {
    pub(super) headers: TraceHeaders,
    /// `None` if the request is not sampled.
    pub(super) number: Option<AttemptNumber>,
}

/// What a request carries of a trace.
#[derive(Default)]
pub(super) struct TraceContext {
    /// `None` if the request is not sampled.
    pub(super) trace: Option<Box<RequestTrace>>,
    /// What to pass on. For a sampled request only the `tracestate` is; `None` if there is none.
    pub(super) headers: Option<Box<TraceHeaders>>,
}

// === impl TraceSampler ===

impl TraceSampler {
    /// Creates a sampler that samples this part of the traces that begin here, between zero and one.
    pub fn new(ratio: f64) -> Self {
        const RANDOM_BITS: i32 = 56;
        let threshold = ratio.clamp(0.0, 1.0) * 2_f64.powi(RANDOM_BITS);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 2⁵⁶")]
        let threshold = threshold as u64;
        Self { threshold }
    }

    fn samples(self, trace_id: TraceId) -> bool {
        trace_id.random_bits() < self.threshold
    }
}

// === impl TraceContext ===

impl TraceContext {
    /// Takes the context from the headers of a client. Without a `sampler`, nothing is sampled.
    pub(super) fn of(sampler: Option<TraceSampler>, client: &HeaderMap, arrival: &Arrival) -> Self {
        let Some(sampler) = sampler else { return Self::forwarded(client) };
        let trace = |parent| RequestTrace::new(arrival.id, parent, arrival.monotonic);
        let mut values = client.get_all(TRACEPARENT).iter();
        let parent = values.next().and_then(|value| TraceParent::parse(value.as_bytes()));
        match parent.filter(|_| values.next().is_none()) {
            Some(parent) if parent.is_sampled => Self {
                trace: Some(Box::new(trace(Some(parent)))),
                headers: client
                    .contains_key(TRACESTATE)
                    .then(|| TraceHeaders::of(client))
                    .flatten(),
            },
            Some(_) => Self::forwarded(client),
            // A `tracestate` belongs to the trace of its `traceparent`.
            None if sampler.samples(TraceId::of_request(arrival.id)) => {
                Self { trace: Some(Box::new(trace(None))), headers: None }
            }
            None => {
                let (trace_id, parent_id) =
                    (TraceId::of_request(arrival.id), SpanId::of_request(arrival.id));
                let parent = TraceParent { trace_id, parent_id, is_sampled: false };
                let traceparent = header_value(&parent.to_header());
                let headers = TraceHeaders { traceparent, tracestate: None };
                Self { trace: None, headers: Some(Box::new(headers)) }
            }
        }
    }

    fn forwarded(client: &HeaderMap) -> Self {
        Self { trace: None, headers: TraceHeaders::of(client) }
    }
}

// === impl TraceHeaders ===

impl TraceHeaders {
    /// Copies the headers of a client: they would keep the buffer of its whole head alive. Returns `None` unless there
    /// is one `traceparent`, of a bounded length.
    fn of(client: &HeaderMap) -> Option<Box<Self>> {
        let mut parents = client.get_all(TRACEPARENT).iter();
        let traceparent = parents.next().filter(|_| parents.next().is_none())?;
        if traceparent.len() > MAX_TRACEPARENT_BYTES {
            return None;
        }
        let traceparent = header_value(traceparent.as_bytes());
        let states: Vec<_> = client.get_all(TRACESTATE).iter().map(HeaderValue::as_bytes).collect();
        let tracestate = bounded_state(states.join(&b','));
        let tracestate = (!tracestate.is_empty()).then(|| header_value(&tracestate));
        Some(Box::new(Self { traceparent, tracestate }))
    }

    /// Returns the context of an attempt of a request with this context.
    pub(super) fn of_attempt(&self) -> AttemptContext {
        AttemptContext { headers: self.clone(), number: None }
    }

    /// Returns the context of an attempt of a sampled request.
    pub(super) fn of_traced_attempt(
        forwarded: Option<&Self>,
        trace: &RequestTrace,
        number: AttemptNumber,
    ) -> AttemptContext {
        let headers = Self {
            traceparent: header_value(&trace.header(number)),
            tracestate: forwarded.and_then(|headers| headers.tracestate.clone()),
        };
        AttemptContext { headers, number: Some(number) }
    }

    /// Adds the headers to a request.
    pub(super) fn insert_into(&self, headers: &mut HeaderMap) {
        headers.insert(TRACEPARENT, self.traceparent.clone());
        if let Some(tracestate) = &self.tracestate {
            headers.insert(TRACESTATE, tracestate.clone());
        }
    }
}

/// Returns a `tracestate` without the members that exceed [`MAX_TRACESTATE_BYTES`]: first the long ones go, then the last
/// ones, which are the oldest.
fn bounded_state(state: Vec<u8>) -> Vec<u8> {
    if state.len() <= MAX_TRACESTATE_BYTES {
        return state;
    }
    let mut bounded = Vec::with_capacity(MAX_TRACESTATE_BYTES);
    let members = state.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    for member in members.filter(|it| !it.is_empty() && it.len() <= MAX_MEMBER_BYTES) {
        if bounded.len() + 1 + member.len() > MAX_TRACESTATE_BYTES {
            break;
        }
        if !bounded.is_empty() {
            bounded.push(b',');
        }
        bounded.extend_from_slice(member);
    }
    bounded
}

fn header_value(bytes: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(bytes).expect("it is part of a header, or made of digits and dashes")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;
    use domain::id::RequestId;

    const ID: Uuid = Uuid::from_u128(0x0192_0000_0000_7000_8080_0000_0000_0000);
    const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const UNSAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

    /// Returns the trace and the headers for upstreams of a request with these headers.
    fn context(ratio: Option<f64>, headers: &[(HeaderName, &str)]) -> (TraceContext, [String; 2]) {
        let client = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        let mut map = HeaderMap::new();
        client.for_each(|(name, value)| _ = map.append(name, value));
        let arrival =
            Arrival { id: RequestId(ID), at: Timestamp::UNIX_EPOCH, monotonic: Duration::ZERO };
        let context = TraceContext::of(ratio.map(TraceSampler::new), &map, &arrival);
        let mut sent = HeaderMap::new();
        if let Some(headers) = &context.headers {
            headers.insert_into(&mut sent);
        }
        let sent = [TRACEPARENT, TRACESTATE]
            .map(|name| sent.get(name).map_or("", |value| value.to_str().unwrap()).to_owned());
        (context, sent)
    }

    #[test]
    fn without_an_exporter_the_headers_are_forwarded_unchanged() {
        let headers = [(TRACEPARENT, "what-ever"), (TRACESTATE, "a=1"), (TRACESTATE, "b=2")];
        let (context, sent) = context(None, &headers);
        assert!(context.trace.is_none());
        assert_eq!(sent, ["what-ever", "a=1,b=2"]);
        assert_eq!(super::tests::context(None, &[(TRACESTATE, "a=1")]).1, ["", ""]);
        let twice = [(TRACEPARENT, SAMPLED), (TRACEPARENT, SAMPLED)];
        assert_eq!(super::tests::context(None, &twice).1, ["", ""]);
    }

    #[test]
    fn headers_that_are_too_long_are_dropped_or_cut_after_a_member() {
        let state = |members: &[(char, usize)]| {
            let members = members.iter().map(|&(name, length)| format!("{name}={:1$}", "", length));
            members.collect::<Vec<_>>().join(",").replace(' ', "x")
        };
        for (sent, expected) in [
            (state(&[('a', 510)]), state(&[('a', 510)])),
            (state(&[('a', 511)]), String::new()),
            // The long member goes before one that follows it.
            (state(&[('a', 100), ('b', 400), ('c', 100)]), state(&[('a', 100), ('c', 100)])),
            (state(&[('a', 100); 6]), state(&[('a', 100); 4])),
            (",".repeat(8_000), String::new()),
        ] {
            let headers = [(TRACEPARENT, UNSAMPLED), (TRACESTATE, &*sent)];
            for ratio in [None, Some(1.0)] {
                assert_eq!(context(ratio, &headers).1, [UNSAMPLED, &*expected], "{sent}");
            }
            let headers = [(TRACEPARENT, SAMPLED), (TRACESTATE, &*sent)];
            assert_eq!(context(Some(1.0), &headers).1[1], expected, "{sent}");
        }
        let invalid = "x".repeat(MAX_TRACEPARENT_BYTES + 1);
        let of_later_version = format!("01{}-{invalid}", &UNSAMPLED[2..]);
        for (ratio, parent) in
            [(None, &invalid), (None, &of_later_version), (Some(1.0), &of_later_version)]
        {
            let headers = [(TRACEPARENT, &**parent), (TRACESTATE, "a=1")];
            assert_eq!(context(ratio, &headers).1, ["", ""], "{parent}");
        }
    }

    #[test]
    fn the_client_decides_about_its_trace() {
        let (sampled, sent) = context(Some(0.0), &[(TRACEPARENT, SAMPLED), (TRACESTATE, "a=1")]);
        let trace = sampled.trace.unwrap();
        assert_eq!(trace.trace_id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(trace.parent_id.unwrap().to_string(), "00f067aa0ba902b7");
        assert_eq!(sent[1], "a=1");
        let (unsampled, sent) = context(Some(1.0), &[(TRACEPARENT, UNSAMPLED)]);
        assert!(unsampled.trace.is_none());
        assert_eq!(sent, [UNSAMPLED, ""]);
    }

    #[test]
    fn a_trace_that_begins_here_has_the_id_of_its_request() {
        let invalid = [(TRACEPARENT, "00-0-0-01"), (TRACESTATE, "a=1")];
        for headers in [&[][..], &invalid] {
            let (sampled, sent) = context(Some(1.0), headers);
            let trace = sampled.trace.unwrap();
            assert_eq!(trace.trace_id.to_string(), ID.simple().to_string());
            assert_eq!((trace.parent_id, sent), (None, [String::new(), String::new()]));
            let (unsampled, sent) = context(Some(0.0), headers);
            assert!(unsampled.trace.is_none());
            assert_eq!(sent, [format!("00-{}-8080000000000000-00", ID.simple()), String::new()]);
        }
    }

    #[test]
    fn the_ratio_is_that_of_the_random_bits() {
        let samples = |ratio, bits: u64| {
            let trace_id = TraceId(Uuid::from_u64_pair(1, bits).into_bytes());
            TraceSampler::new(ratio).samples(trace_id)
        };
        let half = 1 << 55;
        assert!(samples(0.5, half - 1) && !samples(0.5, half));
        assert!(samples(1.0, u64::MAX) && !samples(0.0, 0));
    }
}
