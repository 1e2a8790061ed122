//! The OpenTelemetry protocol (OTLP), version 1.10.0: its messages, and the servers of its services.
//!
//! The `.proto` files in `opentelemetry/` are those of the OpenTelemetry authors, unchanged. They are compiled here
//! because the crate `opentelemetry-proto` depends on the SDK, of which the gateway needs nothing: its spans and
//! metrics are made from request records.

/// The generated code, in modules by package.
#[expect(
    clippy::pedantic,
    missing_docs,
    unreachable_pub,
    reason = "generated from files with comments"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/otlp.rs"));
}

pub use generated::opentelemetry::proto::*;
