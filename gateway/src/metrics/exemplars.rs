//! A histogram that keeps the last traced request of each bucket.

use jiff::Timestamp;

use domain::histogram::Histogram;
use domain::record::RequestRecord;
use domain::trace::{SpanId, TraceId};

/// A histogram with an exemplar for each bucket.
#[derive(Clone, Debug)]
pub(super) struct TracedHistogram {
    histogram: Histogram,
    /// One for each bucket; empty until a request was traced.
    exemplars: Vec<Option<Exemplar>>,
}

/// A traced request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Exemplar {
    pub(super) trace_id: TraceId,
    pub(super) span_id: SpanId,
    pub(super) value: f64,
    /// When the request ended.
    pub(super) at: Timestamp,
}

impl TracedHistogram {
    /// Creates an empty histogram with these bounds, in ascending order.
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { histogram: Histogram::new(bounds), exemplars: Vec::new() }
    }

    /// Counts a value of a request.
    pub(super) fn observe(&mut self, value: f64, record: &RequestRecord) {
        self.histogram.observe(value);
        let Some(trace) = &record.trace else { return };
        let exemplar = Exemplar {
            trace_id: trace.trace_id,
            span_id: trace.span_id,
            value,
            at: record.started_at.checked_add(record.duration).unwrap_or(record.started_at),
        };
        self.exemplars.resize(self.histogram.buckets(), None);
        self.exemplars[self.histogram.bucket(value)] = Some(exemplar);
    }

    /// Returns the histogram.
    pub(super) fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// Returns the last traced request of each bucket; empty if none was traced.
    pub(super) fn exemplars(&self) -> &[Option<Exemplar>] {
        &self.exemplars
    }
}
