//! The timeline of PostgreSQL's write-ahead log. A failover begins a new one, so the number of a change and its timeline
//! identify the change, although a failover may lose changes and use their numbers again.

use tokio_postgres::error::SqlState;

use super::error::sql_state;
use super::transaction::Connection;
use crate::StoreError;

/// How the timeline is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timeline {
    /// From the name of the present file of the log, which begins with it.
    OfLog,
    /// Not at all: the server does not permit it, as some managed ones do not. Changes that a failover loses are
    /// not noticed if their numbers are used again.
    Unknown,
}

impl Timeline {
    /// Determines what the server permits.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub(super) async fn detect(connection: &mut Connection) -> Result<Self, StoreError> {
        let tx = connection.view().await?;
        let sql = format!("SELECT {}", Self::OfLog.sql());
        let Err(error) = tx.query_one("pg_walfile_name", &sql, &[]).await else {
            return Ok(Self::OfLog);
        };
        let refusals = [
            SqlState::FEATURE_NOT_SUPPORTED,
            SqlState::INSUFFICIENT_PRIVILEGE,
            SqlState::UNDEFINED_FUNCTION,
        ];
        if !sql_state(&error).is_some_and(|state| refusals.contains(state)) {
            return Err(error);
        }
        Ok(Self::Unknown)
    }

    /// Returns the expression of the timeline's number; zero if it is unknown.
    pub(super) const fn sql(self) -> &'static str {
        match self {
            Self::OfLog => {
                "('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint"
            }
            Self::Unknown => "0::bigint",
        }
    }
}
