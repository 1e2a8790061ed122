//! Tests of `ctl` against a fake gateway with canned answers, over real sockets.
//!
//! `fake` is the gateway and `harness` runs command lines; the other modules each test one area.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod accounts;
mod admin_api;
mod agents;
mod apply;
mod catalogue;
mod completions;
mod confirmation;
mod doctor;
mod examples;
mod exits;
mod fake;
mod harness;
mod help;
mod keys;
mod ledger;
mod nodes;
mod operations;
mod profiles;
mod quickstart;
mod requests;
mod tls;
mod usage;
