//! Metrics for Prometheus, in its text format and in that of OpenMetrics, and for an OpenTelemetry collector.
//!
//! [`RequestMetrics`] counts ended requests from their records; [`Exporter`] adds the state of the process and serves
//! both at `/metrics`; the exporter of OTLP has it collect the same. Names follow the conventions of Prometheus: base
//! units, the unit at the end, `_total` for counters. No label has the name of an account or of a key, or any text of a
//! request; ids of accounts and keys are labels only if an operator chooses so.

mod answering;
mod encoder;
mod exemplars;
mod exporter;
mod gen_ai;
mod points;
mod requests;
mod scrapes;
mod serve;
mod stalls;
mod text;
mod top;
mod upstreams;

pub use exporter::{Exporter, Sources};
pub use requests::{MAX_TOP, RequestMetrics};
pub use scrapes::Scrapes;
pub use serve::serve;
pub use stalls::WorkerStalls;
pub use text::Format;
