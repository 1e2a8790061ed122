//! Drills: the real product under load while something goes wrong, and what its logs say afterwards.
//!
//! `cargo run --release -p tests --bin drill -- crash --rounds 100`. Start with [`crash`]; `client`
//! asks and notes what it saw, `reconcile` holds that against what the upstream and the ledger say.

pub mod client;
pub mod crash;
pub mod reconcile;
