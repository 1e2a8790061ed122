//! Several gateways on one database: the tasks that keep this node a member of it.
//!
//! Decisions are in `domain::node`, SQL is in the store. A gateway on SQLite runs none of these
//! tasks. Start with [`Heartbeats`].

mod allocator;
mod answers;
mod claims;
mod contact;
mod follower;
mod membership;
#[cfg(test)]
mod memory_claims;
mod shared_clock;

pub use allocator::Allocator;
pub use answers::{LookupError, SharedAnswers};
pub use claims::Claims;
pub use contact::StoreContact;
pub use follower::Follower;
pub use membership::{Heartbeats, Load, publish_commits};
pub use shared_clock::SharedClock;
