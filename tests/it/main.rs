//! The product as its users meet it: real sockets, a real database, the simulator or an upstream of
//! the test's own.
//!
//! A file per area; [`tests`] is the harness.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails a test")]

mod admin_calls;
mod agents;
mod auth;
mod balance;
mod bodies;
mod books;
mod breaker;
mod caps;
mod catalogue;
mod chat;
mod cli;
mod client_gone;
mod connections;
mod counts;
mod crash;
mod data_dir;
mod demo;
mod diagnostics;
mod drills;
mod endpoints;
mod errors;
mod examples;
mod filter;
mod growth;
mod input_bounds;
mod isolation;
mod limits;
mod names;
mod power;
mod quotas;
mod readme;
mod records;
mod replay;
mod responses;
mod retention;
mod secrets;
mod shutdown;
mod sign_in;
mod standing;
mod story_ctl;
mod story_tui;
mod stream;
mod stream_ends;
mod tail;
mod tidy;
mod traffic;
mod upstream;
mod usage_bounds;
