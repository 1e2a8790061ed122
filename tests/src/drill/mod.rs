//! Drills: the real binaries under load and faults, and a reconciliation of their logs afterwards.
//!
//! `cargo run --release -p tests --bin drill -- crash --rounds 100`. Each drill is a file:
//! [`crash`], [`overspend`], [`clients_gone`], [`hostile`], [`disk_full`], [`upstream`], [`edge`], [`failover`]. All run on a [`rig`].
//! [`client`] sends requests and notes the complete responses, [`reconcile`] compares them with the
//! logs of the upstream and the ledger, and [`round`] sums up the results.

mod choices;
pub mod client;
pub mod clients_gone;
pub mod counters;
pub mod crash;
pub mod deployment;
mod descriptors;
mod disconnects;
#[cfg(target_os = "linux")]
pub mod disk_full;
pub mod edge;
mod ending;
pub mod failover;
pub mod fleet;
mod honest;
pub mod hostile;
mod lenient;
mod load;
pub mod overspend;
mod peer;
pub mod reconcile;
pub mod rig;
pub mod round;
mod spellings;
pub mod tampering;
mod truth;
pub mod upstream;

use gateway::clock::{Entropy, SystemEntropy};

/// Returns a random number below `limit`; zero if `limit` is zero.
fn draw(limit: u64) -> u64 {
    let mut random = [0; 8];
    SystemEntropy.fill(&mut random);
    u64::from_ne_bytes(random).checked_rem(limit).unwrap_or_default()
}
