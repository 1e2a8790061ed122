//! The place of a request in a distributed trace (W3C Trace Context, level 1), and the times of its attempts.
//!
//! Pure. A trace exists only for requests that are sampled, and is not stored: it ends with the record of its request
//! at the exporter.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;

use super::id::RequestId;
use super::record::ServedBy;
use super::traced_content::ContentSlot;

/// The id of a trace; never all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// The id of a span; never all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

/// The header `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace_id: TraceId,
    /// The span that is the parent of the receiver's spans.
    pub parent_id: SpanId,
    /// Whether the sender may have recorded its span.
    pub is_sampled: bool,
}

/// The trace of a sampled request. Times are monotonic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTrace {
    /// The trace.
    pub trace_id: TraceId,
    /// The span of the request.
    pub span_id: SpanId,
    /// The client's span; `None` if the trace begins here.
    pub parent_id: Option<SpanId>,
    /// When the request arrived.
    pub arrived_at: Duration,
    /// When the ledger had its record; `None` until then.
    pub settled_at: Option<Duration>,
    /// The text of the request and its answer; `None` unless the key has opted in.
    pub content: Option<Arc<ContentSlot>>,
    /// The attempts before the last one, in the order in which they began.
    earlier: Vec<AttemptTrace>,
    /// Not in a vector, which most requests would need for one element.
    last: Option<AttemptTrace>,
}

/// An attempt at a deployment. Times are monotonic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptTrace {
    /// The deployment.
    pub served_by: ServedBy,
    /// The number of the credential, if the upstream has several.
    pub credential: Option<u32>,
    /// When it began.
    pub began_at: Duration,
    /// When it failed or was cancelled; `None` if its answer served the client.
    pub ended_at: Option<Duration>,
    /// How long it waited for a connection, if it had to.
    pub queued_for: Option<Duration>,
    /// The label of its error; contains no text of the upstream.
    pub error: Option<Cow<'static, str>>,
}

/// The number of an attempt within its request, from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptNumber(usize);

/// A span of a request besides that of the request itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildSpan {
    /// From the arrival to the first attempt.
    Admission,
    /// From the first attempt to the first output.
    FirstToken,
    /// From the end of the answer to the record in the ledger.
    Settlement,
    /// An attempt.
    Attempt(AttemptNumber),
    /// The wait of an attempt for a connection.
    Queue(AttemptNumber),
}

// === impl TraceId ===

impl TraceId {
    /// Returns the id of the trace that begins with a request: it is the request's own id.
    pub const fn of_request(id: RequestId) -> Self {
        Self(*id.0.as_bytes())
    }

    /// Returns the last seven bytes, which are random, as a number below 2⁵⁶.
    pub const fn random_bits(self) -> u64 {
        u64::from_be_bytes(last_half(self.0)) & (u64::MAX >> 8)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show_hex(&self.0, &mut [0; 32], f)
    }
}

// === impl SpanId ===

impl SpanId {
    /// Returns the id of the span of a request: the random half of the request's id.
    pub const fn of_request(id: RequestId) -> Self {
        Self(last_half(*id.0.as_bytes()))
    }

    /// Returns the id at a distance from this one, which is as unique within a trace.
    fn at_distance(self, distance: u64) -> Self {
        let (id, has_wrapped) = u64::from_be_bytes(self.0).overflowing_add(distance);
        // Zero is no id, and is skipped.
        Self((id + u64::from(has_wrapped)).to_be_bytes())
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show_hex(&self.0, &mut [0; 16], f)
    }
}

// === impl TraceParent ===

impl TraceParent {
    /// The length of the header in version 00, in bytes.
    pub const LENGTH: usize = 55;

    /// Reads the header. Later versions may have more fields after those of version 00.
    pub fn parse(header: &[u8]) -> Option<Self> {
        let fields = header.get(..Self::LENGTH)?;
        let dashes = [2, 35, 52];
        if dashes.iter().any(|&at| fields[at] != b'-') {
            return None;
        }
        let [version] = hex(&fields[..2])?;
        match (version, header.get(Self::LENGTH)) {
            (0xff, _) | (0, Some(_)) => return None,
            (_, None | Some(b'-')) => {}
            (_, Some(_)) => return None,
        }
        let (trace_id, parent_id) = (hex(&fields[3..35])?, hex(&fields[36..52])?);
        let [flags] = hex(&fields[53..])?;
        if trace_id == [0; 16] || parent_id == [0; 8] {
            return None;
        }
        let is_sampled = flags & 1 != 0;
        Some(Self { trace_id: TraceId(trace_id), parent_id: SpanId(parent_id), is_sampled })
    }

    /// Returns the header in version 00.
    pub fn to_header(self) -> [u8; Self::LENGTH] {
        let mut header = *b"00-00000000000000000000000000000000-0000000000000000-00";
        HEXLOWER.encode_mut(&self.trace_id.0, &mut header[3..35]);
        HEXLOWER.encode_mut(&self.parent_id.0, &mut header[36..52]);
        header[54] = if self.is_sampled { b'1' } else { b'0' };
        header
    }
}

const fn last_half(bytes: [u8; 16]) -> [u8; 8] {
    let [_, _, _, _, _, _, _, _, half @ ..] = bytes;
    half
}

/// Returns the bytes that lower-case hexadecimal digits stand for; `None` for other characters.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// Shows bytes in lower-case hexadecimal digits, which are first written to `buffer`.
fn show_hex(bytes: &[u8], buffer: &mut [u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    HEXLOWER.encode_mut(bytes, buffer);
    f.write_str(std::str::from_utf8(buffer).map_err(|_| fmt::Error)?)
}

// === impl RequestTrace ===

impl RequestTrace {
    /// Begins the trace of a request, as a part of its client's if there is a `parent`.
    pub fn new(id: RequestId, parent: Option<TraceParent>, arrived_at: Duration) -> Self {
        Self {
            trace_id: parent.map_or(TraceId::of_request(id), |parent| parent.trace_id),
            span_id: SpanId::of_request(id),
            parent_id: parent.map(|parent| parent.parent_id),
            arrived_at,
            settled_at: None,
            content: None,
            earlier: Vec::new(),
            last: None,
        }
    }

    /// Records that an attempt begins.
    pub fn begin_attempt(
        &mut self,
        served_by: ServedBy,
        credential: Option<u32>,
        now: Duration,
    ) -> AttemptNumber {
        let attempt = AttemptTrace {
            served_by,
            credential,
            began_at: now,
            ended_at: None,
            queued_for: None,
            error: None,
        };
        self.earlier.extend(self.last.replace(attempt));
        AttemptNumber(self.earlier.len())
    }

    /// Returns an attempt to record its end; `None` if there is none with the number.
    pub fn attempt_mut(&mut self, number: AttemptNumber) -> Option<&mut AttemptTrace> {
        self.earlier.iter_mut().chain(&mut self.last).nth(number.0)
    }

    /// Returns the attempts in the order in which they began.
    pub fn attempts(&self) -> impl Iterator<Item = (AttemptNumber, &AttemptTrace)> {
        (0..).map(AttemptNumber).zip(self.earlier.iter().chain(&self.last))
    }

    /// Returns the id of a span of the request.
    pub fn child(&self, span: ChildSpan) -> SpanId {
        self.span_id.at_distance(match span {
            ChildSpan::Admission => 1,
            ChildSpan::FirstToken => 2,
            ChildSpan::Settlement => 3,
            ChildSpan::Attempt(number) => 4 + 2 * number.0 as u64,
            ChildSpan::Queue(number) => 5 + 2 * number.0 as u64,
        })
    }

    /// Returns the header for the upstream of an attempt.
    pub fn header(&self, number: AttemptNumber) -> [u8; TraceParent::LENGTH] {
        let parent_id = self.child(ChildSpan::Attempt(number));
        TraceParent { trace_id: self.trace_id, parent_id, is_sampled: true }.to_header()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_is_read_and_written() {
        let parent = TraceParent::parse(HEADER.as_bytes()).unwrap();
        assert_eq!(parent.trace_id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(parent.parent_id.to_string(), "00f067aa0ba902b7");
        assert!(parent.is_sampled);
        assert_eq!(parent.to_header(), HEADER.as_bytes());
        let unsampled = TraceParent { is_sampled: false, ..parent };
        assert_eq!(TraceParent::parse(&unsampled.to_header()), Some(unsampled));
    }

    #[test]
    fn later_versions_may_have_more_fields() {
        let later = HEADER.replacen("00-", "cc-", 1);
        assert_eq!(TraceParent::parse(later.as_bytes()), TraceParent::parse(HEADER.as_bytes()));
        assert!(TraceParent::parse(format!("{later}-what").as_bytes()).is_some());
        assert_eq!(TraceParent::parse(format!("{later}.what").as_bytes()), None);
        assert_eq!(TraceParent::parse(format!("{HEADER}-what").as_bytes()), None);
    }

    #[test]
    fn invalid_headers_are_not_read() {
        let zero_trace = HEADER.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let zero_parent = HEADER.replace("00f067aa0ba902b7", &"0".repeat(16));
        let long = HEADER.replacen("00-", "0-0", 1);
        let upper = HEADER.to_uppercase();
        let later = HEADER.replacen("00-", "ff-", 1);
        for header in [&*zero_trace, &zero_parent, &long, &upper, &later, "", &HEADER[..54]] {
            assert_eq!(TraceParent::parse(header.as_bytes()), None, "{header}");
        }
    }

    #[test]
    fn the_spans_of_a_request_have_different_ids() {
        let id = RequestId(Uuid::from_u128(u128::MAX));
        let mut trace = RequestTrace::new(id, None, Duration::ZERO);
        let served_by =
            ServedBy { upstream: crate::id::UpstreamName::new("u"), upstream_model: "m".into() };
        let numbers =
            [0, 1, 2].map(|_| trace.begin_attempt(served_by.clone(), None, Duration::ZERO));
        trace.attempt_mut(numbers[1]).unwrap().error = Some("unreachable".into());
        let errors: Vec<_> = trace.attempts().map(|(_, it)| it.error.as_deref()).collect();
        assert_eq!(errors, [None, Some("unreachable"), None]);
        let attempts =
            numbers.iter().flat_map(|&it| [ChildSpan::Attempt(it), ChildSpan::Queue(it)]);
        let others = [ChildSpan::Admission, ChildSpan::FirstToken, ChildSpan::Settlement];
        let mut ids: Vec<_> =
            others.into_iter().chain(attempts).map(|it| trace.child(it).0).collect();
        ids.push(trace.span_id.0);
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 10);
        assert!(!ids.contains(&[0; 8]));
    }
}
