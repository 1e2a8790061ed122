//! The gateway: an OpenAI-compatible API in front of any chat completions server, with accounts, keys, limits, exact
//! metering and an admin plane.
//!
//! `gateway/ARCHITECTURE.md` has the code map, the invariants and the life of a request. In reading order:
//!
//! - [`http`] serves clients, [`pipeline`] processes requests, and [`upstream`] calls upstream servers. [`translate`]
//!   converts between the Responses API and chat completions.
//! - [`ledger`] contains balances, the journal and the recorder, and [`limits`] rate limits, concurrency limits and
//!   quotas. [`state`] stores responses, and [`retention`] deletes old records.
//! - [`directory`] and [`secrets`] hold the in-memory data that requests read: keys, accounts, the catalogue and
//!   credentials. [`control`] changes it and writes it to [`store`]; [`admin`] is the gRPC interface of [`control`].
//! - [`connections`], [`journal_barrier`] and [`coalescing_writer`] are layers of the connections' IO, and `timers` has
//!   their timeouts.
//! - [`offload`] keeps requests with large bodies from delaying others.
//! - [`cancellation`] ends single requests early, and [`broadcast`] wakes the tasks of all for it.
//! - [`metrics`] counts ended requests and serves Prometheus; [`telemetry`] writes the log; [`otlp`] exports both, and
//!   spans, to an OpenTelemetry collector.
//! - [`webhooks`] notifies operators of events; [`capture`] keeps messages for debugging.
//! - [`app`] builds all components and shuts them down in order; [`workers`] are the threads that serve requests.

pub mod http;
pub mod pipeline;
pub mod upstream;

pub mod fleet;
pub mod ledger;
pub mod limits;
pub mod retention;
pub mod route;
pub mod state;

pub mod admin;
pub mod control;

pub mod app;
pub mod backups;
pub mod broadcast;
pub mod cancellation;
pub mod capture;
pub mod catalogue;
pub mod clock;
pub mod coalescing_writer;
pub mod config;
pub mod connections;
mod data_dir;
mod database_copies;
pub mod demo;
pub mod directory;
mod fair_queue;
mod fair_semaphore;
mod hand_over;
pub mod journal_barrier;
pub mod listeners;
pub mod memory_budget;
pub mod metrics;
pub mod offload;
pub mod otlp;
pub mod programs;
pub mod secrets;
mod service_manager;
pub mod shared_pool;
mod take_over;
pub mod telemetry;
mod timers;
pub mod tls;
pub mod webhooks;
pub mod welcome;
pub mod workers;
mod write_behind;
