//! Encodes metrics as text, in the format of Prometheus (0.0.4) or of OpenMetrics (1.0.0).

use std::fmt::{Display, Write as _};

use super::encoder::{Kind, Labels, Number, Sink};
use super::exemplars::Exemplar;
use domain::histogram::Histogram;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The format that Prometheus and compatible programs have always read.
    Prometheus,
    /// OpenMetrics, which Prometheus prefers.
    OpenMetrics,
}

/// Takes metrics as text.
pub(super) struct Text {
    format: Format,
    encoded: String,
    /// The name of the family whose samples are being written.
    name: &'static str,
}

// === impl Format ===

impl Format {
    /// Returns the format that the value of an `Accept` header prefers.
    pub fn preferred(accept: Option<&str>) -> Self {
        let quality = |wanted: &str| {
            let types = accept.unwrap_or_default().split(',').filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                parts.next().filter(|name| name.eq_ignore_ascii_case(wanted))?;
                let weight = parts.find_map(|part| part.strip_prefix("q="));
                Some(weight.map_or(1.0, |weight| weight.parse::<f32>().unwrap_or_default()))
            });
            types.fold(0.0, f32::max)
        };
        let open_metrics = quality("application/openmetrics-text");
        if open_metrics > 0.0 && open_metrics >= quality("text/plain") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// Returns the media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

// === impl Text ===

impl Text {
    /// Creates an empty text.
    pub(super) fn new(format: Format) -> Self {
        Self { format, encoded: String::new(), name: "" }
    }

    /// Returns the text.
    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.encoded.push_str("# EOF\n");
        }
        self.encoded
    }

    /// Writes a sample without the end of its line.
    fn begin_sample(
        &mut self,
        suffix: &str,
        labels: Labels<'_>,
        more: Option<(&str, &str)>,
        value: impl Display,
    ) {
        let text = &mut self.encoded;
        text.push_str(self.name);
        text.push_str(suffix);
        let shown = labels.iter().copied().chain(more).filter(|(_, value)| !value.is_empty());
        let mut separator = '{';
        for (name, value) in shown {
            text.push(separator);
            text.push_str(name);
            text.push_str("=\"");
            push_escaped(text, value);
            text.push('"');
            separator = ',';
        }
        if separator == ',' {
            text.push('}');
        }
        _ = write!(text, " {value}");
    }

    fn end_sample(&mut self) {
        self.encoded.push('\n');
    }
}

impl Sink for Text {
    fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        self.name = name;
        // OpenMetrics names the family without the suffix of its samples.
        let family = match self.format {
            Format::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
            Format::Prometheus => name,
        };
        let kind_name = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        _ = writeln!(self.encoded, "# HELP {family} {help}\n# TYPE {family} {kind_name}");
    }

    fn sample(&mut self, labels: Labels<'_>, value: Number) {
        self.begin_sample("", labels, None, value);
        self.end_sample();
    }

    fn histogram(
        &mut self,
        labels: Labels<'_>,
        histogram: &Histogram,
        exemplars: &[Option<Exemplar>],
    ) {
        for (index, (bound, count)) in histogram.cumulative().enumerate() {
            let bound = match self.format {
                _ if bound.is_infinite() => "+Inf".to_owned(),
                // OpenMetrics demands the form of a float.
                Format::OpenMetrics => format!("{bound:?}"),
                Format::Prometheus => bound.to_string(),
            };
            self.begin_sample("_bucket", labels, Some(("le", &bound)), count);
            // The older format has none.
            if let (Format::OpenMetrics, Some(Some(exemplar))) = (self.format, exemplars.get(index))
            {
                let Exemplar { trace_id, span_id, value, at } = exemplar;
                let at = at.as_duration().as_secs_f64();
                _ = write!(
                    self.encoded,
                    " # {{trace_id=\"{trace_id}\",span_id=\"{span_id}\"}} {value:?} {at:.3}"
                );
            }
            self.end_sample();
        }
        self.begin_sample("_sum", labels, None, histogram.sum());
        self.end_sample();
        self.begin_sample("_count", labels, None, histogram.count());
        self.end_sample();
    }
}

/// Appends the value of a label.
fn push_escaped(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            _ => text.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::encoder::Encoder;
    use super::*;
    use domain::trace::{SpanId, TraceId};

    fn encoded(format: Format) -> String {
        let mut text = Text::new(format);
        let mut encoder = Encoder::new(&mut text);
        let labels = &[("model", "a\"b\\c\nd"), ("error_code", "")];
        encoder.counter("t_requests_total", "Requests.").sample(labels, 7);
        encoder.gauge("t_up", "State.").sample(&[], 1);
        let mut histogram = Histogram::new(&[0.5, 1.0]);
        histogram.observe(0.75);
        encoder.histogram("t_seconds", "Times.").buckets(&[("model", "m")], &histogram);
        text.finish()
    }

    #[test]
    fn both_formats_have_their_names_bounds_and_end() {
        let prometheus = "\
# HELP t_requests_total Requests.
# TYPE t_requests_total counter
t_requests_total{model=\"a\\\"b\\\\c\\nd\"} 7
# HELP t_up State.
# TYPE t_up gauge
t_up 1
# HELP t_seconds Times.
# TYPE t_seconds histogram
t_seconds_bucket{model=\"m\",le=\"0.5\"} 0
t_seconds_bucket{model=\"m\",le=\"1\"} 1
t_seconds_bucket{model=\"m\",le=\"+Inf\"} 1
t_seconds_sum{model=\"m\"} 0.75
t_seconds_count{model=\"m\"} 1
";
        assert_eq!(encoded(Format::Prometheus), prometheus);
        let open_metrics = prometheus
            .replace("HELP t_requests_total", "HELP t_requests")
            .replace("TYPE t_requests_total", "TYPE t_requests")
            .replace("le=\"1\"", "le=\"1.0\"");
        assert_eq!(encoded(Format::OpenMetrics), open_metrics + "# EOF\n");
    }

    #[test]
    fn only_open_metrics_has_exemplars() {
        let exemplar = Exemplar {
            trace_id: TraceId([0xab; 16]),
            span_id: SpanId([1; 8]),
            value: 0.75,
            at: Timestamp::from_millisecond(1_500).unwrap(),
        };
        let mut histogram = Histogram::new(&[0.5, 1.0]);
        histogram.observe(exemplar.value);
        let encoded = |format| {
            let mut text = Text::new(format);
            text.family("t_seconds", Kind::Histogram, "Times.");
            text.histogram(&[], &histogram, &[None, Some(exemplar), None]);
            text.finish()
        };
        let expected = format!(
            "t_seconds_bucket{{le=\"1.0\"}} 1 # {{trace_id=\"{}\",span_id=\"{}\"}} 0.75 1.500\n",
            "ab".repeat(16),
            "01".repeat(8)
        );
        let text = encoded(Format::OpenMetrics);
        assert!(text.contains(&expected), "{text}");
        assert_eq!(text.matches("trace_id").count(), 1);
        assert!(!encoded(Format::Prometheus).contains("trace_id"));
    }

    #[test]
    fn the_client_chooses_the_format() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
            application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        for (accept, expected) in [
            (None, Format::Prometheus),
            (Some("*/*"), Format::Prometheus),
            (Some("text/plain"), Format::Prometheus),
            (Some(prometheus), Format::OpenMetrics),
            (Some("application/openmetrics-text;q=0.1, text/plain"), Format::Prometheus),
            (Some("application/openmetrics-text;q=0"), Format::Prometheus),
        ] {
            assert_eq!(Format::preferred(accept), expected, "{accept:?}");
        }
    }
}
