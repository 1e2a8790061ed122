//! Tests of the whole product: real sockets, a real database, and the simulator or an upstream that
//! the test controls.
//!
//! One file per area. [`tests`] is the harness.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

mod account_lifecycle;
mod account_names;
mod admin_calls;
mod agents;
mod auth;
mod balance;
mod breaker;
mod catalogue;
mod chat;
mod cli;
mod client_gone;
mod connections;
mod cors;
mod crash;
mod credentials;
mod data_dir;
mod demo;
mod diagnostics;
mod drills;
mod edge_settings;
mod endpoints;
mod errors;
mod examples;
mod filter;
mod fleet;
mod health_check;
mod hold_growth;
mod http2_frames;
mod input_bounds;
mod isolation;
mod ledger;
mod limits;
mod output_caps;
mod postgres;
mod power_durability;
mod protocol_errors;
mod quotas;
mod readme;
mod records;
mod replay;
mod request_bodies;
mod request_framing;
mod responses;
mod retention;
mod routing;
mod secrets;
mod shutdown;
mod sign_in;
mod story_ctl;
mod story_tui;
mod stream;
mod stream_ends;
mod tail;
mod tidy;
mod token_counts;
mod traffic;
mod transports;
mod trusted_proxies;
mod upstream;
mod upstream_bounds;
mod upstream_proxy;
mod usage_bounds;
