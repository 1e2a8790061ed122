//! `ctl` against a fake gateway: everything over a real socket, nothing but canned answers.
//!
//! `fake` is the gateway, `harness` runs command lines; the rest is a file per promise.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod accounts;
mod agents;
mod apply;
mod asking;
mod catalogue;
mod completions;
mod contract;
mod doctor;
mod examples;
mod exits;
mod fake;
mod harness;
mod help;
mod keys;
mod ledger;
mod operations;
mod profiles;
mod quickstart;
mod requests;
mod tls;
mod usage;
