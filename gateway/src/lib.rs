//! The gateway: an OpenAI-compatible `/v1` in front of any server that speaks chat completions.

pub mod clock;
pub mod control;
pub mod domain;
pub mod ledger;
pub mod limits;
pub mod simulator;
pub mod store;
