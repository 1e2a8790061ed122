//! The gateway: an OpenAI-compatible API in front of any chat completions server, with accounts, keys, limits, exact
//! metering and an admin plane.
//!
//! A request passes [`http`], which serves clients, [`pipeline`], which processes it, and [`upstream`], which calls the
//! servers behind the gateway; [`ledger`] has the balances and writes the records. [`app`] builds all components and shuts
//! them down in order. `gateway/ARCHITECTURE.md` has the code map, the invariants and the life of a request.

pub mod http;
pub mod pipeline;
pub mod upstream;

pub mod fleet;
pub mod ledger;
pub mod limits;
pub mod response_store;
pub mod retention;
pub mod route;

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
