//! Drills: the real product under load while something goes wrong, and what its logs say afterwards.
//!
//! `cargo run --release -p tests --bin drill -- crash --rounds 100`. A drill is a file:
//! [`crash`], [`overspend`], [`clients_gone`], [`hostile`], [`disk_full`]. All play on a [`rig`], where `client` asks
//! and notes what it saw, and `reconcile` holds that against what the upstream and the ledger say;
//! `round` is what each comes to.

pub mod client;
pub mod clients_gone;
pub mod crash;
mod descriptors;
#[cfg(target_os = "linux")]
pub mod disk_full;
pub mod hostile;
mod leaving;
mod lenient;
mod load;
pub mod overspend;
pub mod reconcile;
pub mod rig;
pub mod round;
pub mod sabotage;
mod spellings;
mod truth;

use gateway::clock::{Entropy, SystemEntropy};

/// Draws a number below `limit`; zero if that is zero.
fn draw(limit: u64) -> u64 {
    let mut random = [0; 8];
    SystemEntropy.fill(&mut random);
    u64::from_ne_bytes(random).checked_rem(limit).unwrap_or_default()
}
