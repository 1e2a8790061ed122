//! The gateway: an OpenAI-compatible `/v1` in front of any server that speaks chat completions, with
//! accounts, keys, limits, exact metering and an admin plane.
//!
//! In reading order: [`domain`] has the nouns; [`pipeline`] is the life of a request, between
//! [`http`] (clients) and [`upstream`] (chat servers), which write through the [`journal_barrier`] and [`coalescing_writer`]
//! short buffers over [`connections`], with [`translate`] where the two speak differently; [`ledger`] and [`limits`] are what it
//! counts with, [`state`] what it remembers and [`retention`] what it forgets; [`control`] changes what
//! [`admin`] is told to, on top of [`store`]; [`app`] puts it together.

pub mod http;
pub mod pipeline;
pub mod upstream;

pub mod ledger;
pub mod limits;
pub mod retention;
pub mod state;

pub mod admin;
pub mod control;
pub mod store;

pub mod app;
pub mod catalogue;
pub mod clock;
pub mod coalescing_writer;
pub mod config;
pub mod connections;
mod data_dir;
pub mod demo;
pub mod journal_barrier;
pub mod listeners;
pub mod programs;
pub mod telemetry;
pub mod tls;
pub mod welcome;
