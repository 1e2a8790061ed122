//! The gateway: an OpenAI-compatible `/v1` in front of any server that speaks chat completions, with
//! accounts, keys, limits, exact metering and an admin plane.
//!
//! `gateway/ARCHITECTURE.md` has the code map, the invariants and the life of a request. In reading order:
//!
//! - [`http`] serves clients, [`pipeline`] is the life of a request, [`upstream`] calls chat servers. [`translate`]
//!   converts between the Responses API and chat completions.
//! - [`ledger`] keeps balances, the journal and the recorder; [`limits`] rates, concurrency and quotas.
//!   [`state`] stores responses, [`retention`] deletes old records.
//! - [`directory`] and [`secrets`] are what requests read in memory: keys, accounts, the catalogue, credentials.
//!   [`control`] changes them on top of [`store`]; [`admin`] is its gRPC interface.
//! - [`connections`], [`journal_barrier`] and [`coalescing_writer`] are layers of the connections' IO.
//! - [`app`] builds everything and shuts it down in order.

pub mod http;
pub mod pipeline;
pub mod upstream;

pub mod ledger;
pub mod limits;
pub mod retention;
pub mod state;

pub mod admin;
pub mod control;

pub mod app;
pub mod catalogue;
pub mod clock;
pub mod coalescing_writer;
pub mod config;
pub mod connections;
mod data_dir;
pub mod demo;
pub mod directory;
pub mod journal_barrier;
pub mod listeners;
pub mod programs;
pub mod secrets;
pub mod telemetry;
pub mod tls;
pub mod welcome;
mod write_behind;
