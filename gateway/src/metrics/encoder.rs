//! Writes families of metrics to a sink: the text of a scrape, or data points for a collector.

use std::fmt;

use super::exemplars::{Exemplar, TracedHistogram};
use domain::histogram::Histogram;
use domain::money::Nanos;

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The value of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Whole(i128),
    Float(f64),
    Dollars(Nanos),
}

/// A set of labels: names and values.
pub(super) type Labels<'a> = &'a [(&'static str, &'a str)];

/// Takes families one after the other, each followed by its samples. Samples with an empty value of a label lack that
/// label.
pub(super) trait Sink {
    /// Begins a family. The name of a counter ends with `_total`.
    fn family(&mut self, name: &'static str, kind: Kind, help: &str);

    /// Adds a sample to the family, which is a counter or a gauge.
    fn sample(&mut self, labels: Labels<'_>, value: Number);

    /// Adds a histogram to the family. `exemplars` has one for each bucket, or is empty.
    fn histogram(
        &mut self,
        labels: Labels<'_>,
        histogram: &Histogram,
        exemplars: &[Option<Exemplar>],
    );
}

/// Writes families of metrics one after the other.
pub(super) struct Encoder<'a>(&'a mut dyn Sink);

/// A family whose samples are being written.
pub(super) struct Family<'a> {
    sink: &'a mut dyn Sink,
    kind: Kind,
}

// === impl Number ===

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Dollars(value) => value.fmt(f),
        }
    }
}

macro_rules! whole {
    ($($integer:ty),*) => {
        $(impl From<$integer> for Number {
            fn from(value: $integer) -> Self {
                Self::Whole(i128::from(value))
            }
        })*
    };
}

whole!(u8, i32, u32, i64, u64);

impl From<&u64> for Number {
    fn from(value: &u64) -> Self {
        Self::from(*value)
    }
}

impl From<usize> for Number {
    fn from(value: usize) -> Self {
        Self::from(value as u64)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<Nanos> for Number {
    fn from(value: Nanos) -> Self {
        Self::Dollars(value)
    }
}

// === impl Encoder ===

impl<'a> Encoder<'a> {
    pub(super) fn new(sink: &'a mut dyn Sink) -> Self {
        Self(sink)
    }

    /// Begins a family of counters. `name` ends with `_total`.
    pub(super) fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, Kind::Counter, help)
    }

    /// Begins a family of gauges.
    pub(super) fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, Kind::Gauge, help)
    }

    /// Begins a family of histograms.
    pub(super) fn histogram(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, Kind::Histogram, help)
    }

    fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        self.0.family(name, kind, help);
        Family { sink: self.0, kind }
    }
}

// === impl Family ===

impl Family<'_> {
    /// Writes a sample.
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: impl Into<Number>) -> &mut Self {
        debug_assert!(self.kind != Kind::Histogram, "a histogram has several samples");
        self.sink.sample(labels, value.into());
        self
    }

    /// Writes the samples of a histogram.
    pub(super) fn buckets(&mut self, labels: Labels<'_>, histogram: &Histogram) -> &mut Self {
        debug_assert!(self.kind == Kind::Histogram, "the family has another type");
        self.sink.histogram(labels, histogram, &[]);
        self
    }

    /// Writes the samples of a histogram with its exemplars.
    pub(super) fn traced_buckets(
        &mut self,
        labels: Labels<'_>,
        histogram: &TracedHistogram,
    ) -> &mut Self {
        debug_assert!(self.kind == Kind::Histogram, "the family has another type");
        self.sink.histogram(labels, histogram.histogram(), histogram.exemplars());
        self
    }
}
