//! Metrics for Prometheus, in its text format and in that of OpenMetrics, and for an OpenTelemetry collector.
//!
//! [`RequestMetrics`] counts ended requests from their records; [`Exporter`] adds the state of the process and serves
//! both at `/metrics`; the exporter of OTLP has it collect the same. Names follow the conventions of Prometheus: base units, the unit at the end, `_total` for
//! counters. No label has the name of an account or a key, or any text of a request.

mod encoder;
mod exemplars;
mod exporter;
mod gen_ai;
mod points;
mod requests;
mod scrapes;
mod serve;
mod text;

pub use exporter::{Exporter, Sources};
pub use requests::RequestMetrics;
pub use scrapes::Scrapes;
pub use serve::serve;
pub use text::Format;
