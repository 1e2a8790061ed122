//! Encodes metrics as data points of OTLP.
//!
//! Names and labels are those of the scrape, except that the metrics of the semantic conventions have the names that
//! these define for OpenTelemetry, with dots and without units.

use jiff::Timestamp;

use super::encoder::{Kind, Labels, Number, Sink};
use super::exemplars::Exemplar;
use domain::histogram::Histogram;
use otlp_proto::common::v1::any_value::Value;
use otlp_proto::common::v1::{AnyValue, KeyValue};
use otlp_proto::metrics::v1::metric::Data;
use otlp_proto::metrics::v1::{
    AggregationTemporality, Exemplar as ExemplarPoint, Gauge, Histogram as Histograms,
    HistogramDataPoint, Metric, NumberDataPoint, Sum, exemplar, number_data_point,
};

/// The names of the semantic conventions, by those in the text of a scrape.
const CONVENTIONS: &[(&str, &str)] = &[
    ("gen_ai_server_request_duration_seconds", "gen_ai.server.request.duration"),
    ("gen_ai_server_time_to_first_token_seconds", "gen_ai.server.time_to_first_token"),
    ("gen_ai_server_time_per_output_token_seconds", "gen_ai.server.time_per_output_token"),
    ("gen_ai_client_token_usage", "gen_ai.client.token.usage"),
    ("gen_ai_operation_name", "gen_ai.operation.name"),
    ("gen_ai_provider_name", "gen_ai.provider.name"),
    ("gen_ai_request_model", "gen_ai.request.model"),
    ("gen_ai_token_type", "gen_ai.token.type"),
    ("error_type", "error.type"),
];

/// Takes metrics as data points.
pub(super) struct Points {
    metrics: Vec<Metric>,
    /// The time since which counters count, in nanoseconds since 1970.
    started_at: u64,
    now: u64,
}

impl Points {
    /// Creates an empty set of metrics that have counted since `started_at` until `now`.
    pub(super) fn new(started_at: Timestamp, now: Timestamp) -> Self {
        Self { metrics: Vec::new(), started_at: unix_nanos(started_at), now: unix_nanos(now) }
    }

    /// Returns the metrics that have data points.
    pub(super) fn finish(mut self) -> Vec<Metric> {
        self.metrics.retain(|metric| match &metric.data {
            Some(Data::Gauge(gauge)) => !gauge.data_points.is_empty(),
            Some(Data::Sum(sum)) => !sum.data_points.is_empty(),
            Some(Data::Histogram(histograms)) => !histograms.data_points.is_empty(),
            Some(Data::ExponentialHistogram(_) | Data::Summary(_)) | None => false,
        });
        self.metrics
    }

    fn data(&mut self) -> Option<&mut Data> {
        self.metrics.last_mut()?.data.as_mut()
    }
}

impl Sink for Points {
    fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        let cumulative = AggregationTemporality::Cumulative.into();
        let data = match kind {
            Kind::Counter => Data::Sum(Sum {
                data_points: Vec::new(),
                aggregation_temporality: cumulative,
                is_monotonic: true,
            }),
            Kind::Gauge => Data::Gauge(Gauge::default()),
            Kind::Histogram => Data::Histogram(Histograms {
                data_points: Vec::new(),
                aggregation_temporality: cumulative,
            }),
        };
        self.metrics.push(Metric {
            name: converted(name).to_owned(),
            description: help.to_owned(),
            unit: unit(name).to_owned(),
            data: Some(data),
            ..Metric::default()
        });
    }

    fn sample(&mut self, labels: Labels<'_>, value: Number) {
        let mut point = NumberDataPoint {
            attributes: attributes(labels),
            time_unix_nano: self.now,
            value: Some(number(value)),
            ..NumberDataPoint::default()
        };
        let started_at = self.started_at;
        match self.data() {
            Some(Data::Gauge(gauge)) => gauge.data_points.push(point),
            Some(Data::Sum(sum)) => {
                point.start_time_unix_nano = started_at;
                sum.data_points.push(point);
            }
            _ => debug_assert!(false, "the family is a counter or a gauge"),
        }
    }

    fn histogram(
        &mut self,
        labels: Labels<'_>,
        histogram: &Histogram,
        exemplars: &[Option<Exemplar>],
    ) {
        let bounds = histogram.cumulative().map(|(bound, _)| bound);
        let point = HistogramDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano: self.started_at,
            time_unix_nano: self.now,
            count: histogram.count(),
            sum: Some(histogram.sum()),
            bucket_counts: histogram.counts().to_vec(),
            explicit_bounds: bounds.filter(|bound| bound.is_finite()).collect(),
            exemplars: exemplars.iter().flatten().map(exemplar_point).collect(),
            ..HistogramDataPoint::default()
        };
        match self.data() {
            Some(Data::Histogram(histograms)) => histograms.data_points.push(point),
            _ => debug_assert!(false, "the family is one of histograms"),
        }
    }
}

/// Returns the name of the semantic conventions for a name of theirs, and any other name as it is.
fn converted(name: &'static str) -> &'static str {
    let found = CONVENTIONS.iter().find(|(text, _)| *text == name);
    found.map_or(name, |(_, convention)| convention)
}

/// Returns the unit that a name ends with, as a code of UCUM.
fn unit(name: &str) -> &'static str {
    let units = [("_seconds", "s"), ("_bytes", "By"), ("_usd", "USD"), ("_usage", "{token}")];
    let name = name.strip_suffix("_total").unwrap_or(name);
    units.iter().find(|(suffix, _)| name.ends_with(suffix)).map_or("", |(_, unit)| unit)
}

fn attributes(labels: Labels<'_>) -> Vec<KeyValue> {
    let labels = labels.iter().filter(|(_, value)| !value.is_empty());
    let attribute = |(name, value): &(&'static str, &str)| KeyValue {
        key: converted(name).to_owned(),
        value: Some(AnyValue { value: Some(Value::StringValue((*value).to_owned())) }),
        ..KeyValue::default()
    };
    labels.map(attribute).collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact to the nanodollar up to nine million dollars"
)]
fn number(value: Number) -> number_data_point::Value {
    match value {
        Number::Whole(value) => {
            number_data_point::Value::AsInt(value.try_into().unwrap_or(i64::MAX))
        }
        Number::Float(value) => number_data_point::Value::AsDouble(value),
        Number::Dollars(value) => number_data_point::Value::AsDouble(value.0 as f64 / 1e9),
    }
}

fn exemplar_point(exemplar: &Exemplar) -> ExemplarPoint {
    ExemplarPoint {
        time_unix_nano: unix_nanos(exemplar.at),
        span_id: exemplar.span_id.0.to_vec(),
        trace_id: exemplar.trace_id.0.to_vec(),
        value: Some(exemplar::Value::AsDouble(exemplar.value)),
        ..ExemplarPoint::default()
    }
}

fn unix_nanos(at: Timestamp) -> u64 {
    u64::try_from(at.as_nanosecond()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::encoder::Encoder;
    use super::*;
    use domain::money::Nanos;

    #[test]
    fn families_are_sums_gauges_and_histograms_with_the_names_of_the_conventions() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut points = Points::new(at(1), at(2));
        let mut encoder = Encoder::new(&mut points);
        let labels = &[("model", "m"), ("error_code", "")];
        encoder.counter("tollgate_cost_usd_total", "Cost.").sample(labels, Nanos(1_500));
        encoder.gauge("tollgate_connections", "Open.").sample(&[], 7_usize);
        encoder.gauge("tollgate_empty", "No sample.");
        let mut histogram = Histogram::new(&[0.5, 1.0]);
        for value in [0.25, 0.75, 2.0] {
            histogram.observe(value);
        }
        encoder
            .histogram("gen_ai_server_request_duration_seconds", "Times.")
            .buckets(&[("gen_ai_request_model", "m")], &histogram);
        let [cost, connections, durations] = &points.finish()[..] else { panic!("three") };
        assert_eq!((&*cost.name, &*cost.unit), ("tollgate_cost_usd_total", "USD"));
        let Some(Data::Sum(sum)) = &cost.data else { panic!("{cost:?}") };
        assert!(sum.is_monotonic);
        let point = &sum.data_points[0];
        assert_eq!(point.value, Some(number_data_point::Value::AsDouble(0.000_001_5)));
        assert_eq!(
            (point.start_time_unix_nano, point.time_unix_nano),
            (1_000_000_000, 2_000_000_000)
        );
        assert_eq!(point.attributes.len(), 1);
        let Some(Data::Gauge(gauge)) = &connections.data else { panic!("{connections:?}") };
        assert_eq!(gauge.data_points[0].value, Some(number_data_point::Value::AsInt(7)));
        assert_eq!((&*durations.name, &*durations.unit), ("gen_ai.server.request.duration", "s"));
        let Some(Data::Histogram(histograms)) = &durations.data else { panic!("{durations:?}") };
        let point = &histograms.data_points[0];
        assert_eq!(
            (&*point.bucket_counts, &*point.explicit_bounds),
            (&[1, 1, 1][..], &[0.5, 1.0][..])
        );
        assert_eq!(point.attributes[0].key, "gen_ai.request.model");
    }
}
