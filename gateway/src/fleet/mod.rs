//! Several gateways on one database: the tasks that keep this node a member of it.
//!
//! Decisions are in `domain::node`, SQL is in the store. A gateway on SQLite runs none of these
//! tasks. Start with [`Heartbeats`].

mod allocator;
mod claims;
mod contact;
mod follower;
mod membership;

pub use allocator::Allocator;
pub use claims::Claims;
pub use contact::StoreContact;
pub use follower::Follower;
pub use membership::{Heartbeats, Load, publish_commits};

use std::time::Duration;

use tokio::time::timeout;

use store::StoreError;

/// The time after which a transaction counts as failed.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

async fn with_timeout<T>(
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match timeout(STORE_TIMEOUT, work).await {
        Ok(done) => done,
        Err(elapsed) => Err(StoreError::Unavailable(elapsed.into())),
    }
}
