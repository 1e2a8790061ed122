//! The nodes of the database: join, heartbeat, drain, removal, and the fence of writing
//! transactions.
//!
//! Each process has a number, the epoch of its node. A later start in the same data directory and a
//! removal increment it; each writing transaction locks the row with the epoch of its process
//! ([`Connection::begin`](super::transaction::Connection::begin)). Invariant: once a node was taken
//! over or removed, no transaction of its former process commits. Times are those of the database.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::Row;

use super::codec::{ReadColumn, parameters};
use super::error::{Constrained, HeartbeatTimeoutError, expect_changed};
use super::timeline::Timeline;
use super::transaction::{Connection, OPERATION_LIMIT, Transaction};
use super::{PostgresStore, allocations, cause, import};
use crate::codec::{At, Count, Micros};
use crate::fleet::{
    DatabaseClock, Fenced, Heartbeat, HeartbeatOutcome, JoiningNode, Membership, Nodes,
};
use crate::{Cursor, StoreError};
use domain::audit::AuditEntry;
use domain::change::ChangeSeq;
use domain::node::{NodeFigures, NodeId, NodeName, NodeRemoval, NodeStatus};

/// The columns of a [`NodeStatus`].
const NODE: &str = "id, name, epoch, version, address, \
    (extract(epoch FROM started_at) * 1000000)::bigint AS started_at, \
    (extract(epoch FROM heard_at) * 1000000)::bigint AS heard_at, \
    (extract(epoch FROM greatest(now() - heard_at, interval '0')) * 1000000)::bigint AS silence, \
    patience, draining, stopped, in_flight, requests_per_second, waiting_records";

/// A process of a node, which fences its transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeEpoch {
    pub(super) id: NodeId,
    pub(super) epoch: i64,
}

/// The reason why a gateway cannot join.
#[derive(Debug, thiserror::Error)]
pub(super) enum JoinError {
    /// Another node has the name.
    #[error(
        "another gateway is node `{name}` of this database: {address}, heard of {} s ago; choose \
         another name with `node_name` (--node-name), or remove that node with `ctl node remove \
         {name}` if it is gone",
        silence.as_secs()
    )]
    NameTaken {
        /// The name.
        name: NodeName,
        /// The listen address of the other node.
        address: String,
        /// The time since its last heartbeat.
        silence: Duration,
    },
    /// The node of the data directory was removed.
    #[error(
        "an operator removed node `{0}`, which this data directory belongs to, from the database; \
         start the gateway with a new data directory"
    )]
    Removed(NodeName),
}

/// Joins the nodes of the database. Fences an earlier process of the node.
pub(super) async fn join(
    connection: &mut Connection,
    node: &JoiningNode,
) -> Result<NodeEpoch, Box<dyn std::error::Error + Send + Sync>> {
    let sql = "INSERT INTO nodes AS node (id, name, epoch, heard_at, started_at, version, address, \
        patience, draining, stopped, in_flight, requests_per_second, waiting_records) \
        VALUES ($1, $2, 1, now(), now(), $3, $4, $5, false, false, 0, 0, 0) \
        ON CONFLICT (id) DO UPDATE SET (name, epoch, heard_at, started_at, version, address, \
        patience, draining, stopped, in_flight, requests_per_second, waiting_records) = \
        ROW(excluded.name, node.epoch + 1, now(), now(), excluded.version, excluded.address, \
        excluded.patience, false, false, 0, 0, 0) WHERE node.removed_at IS NULL RETURNING epoch";
    let values = parameters![node.id, node.name, node.version, node.address, Micros(node.patience)];
    let tx = connection.begin_unfenced().await?;
    match tx.query_opt(sql, values).await.or_conflict(String::new) {
        Ok(Some(row)) => {
            let epoch = row.column(0)?;
            // After the insertion, which waits for a migration that begins at the same time.
            import::refuse_incomplete(&tx).await.map_err(cause)?;
            tx.commit().await?;
            Ok(NodeEpoch { id: node.id, epoch })
        }
        Ok(None) => Err(JoinError::Removed(node.name.clone()).into()),
        Err(StoreError::Conflict(_)) => {
            drop(tx);
            let holder = find(&connection.view().await?, &node.name).await?;
            let NodeStatus { name, address, silence, .. } = holder.ok_or(StoreError::NotFound)?;
            Err(JoinError::NameTaken { name, address, silence }.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Records that the process stopped cleanly.
pub(super) async fn leave(
    connection: &mut Connection,
    NodeEpoch { id, epoch }: NodeEpoch,
) -> Result<(), StoreError> {
    let tx = connection.begin_unfenced().await?;
    let sql = "UPDATE nodes SET stopped = true, heard_at = now(), in_flight = 0, \
        requests_per_second = 0, waiting_records = 0 \
        WHERE id = $1 AND epoch = $2 AND removed_at IS NULL";
    tx.execute(sql, parameters![id, epoch]).await?;
    tx.commit().await
}

#[async_trait]
impl Nodes for PostgresStore {
    async fn nodes(&self) -> Result<Vec<NodeStatus>, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let sql = format!(
            "SELECT {NODE} FROM nodes WHERE removed_at IS NULL ORDER BY name COLLATE \"C\""
        );
        tx.query(&sql, &[]).await?.iter().map(status).collect()
    }

    async fn set_draining(
        &self,
        name: &NodeName,
        is_draining: bool,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        let sql = "UPDATE nodes SET draining = $2 WHERE name = $1 AND removed_at IS NULL";
        expect_changed(tx.execute(sql, parameters![name, is_draining]).await?)?;
        tx.commit_audited(audit).await
    }

    async fn remove_node(
        &self,
        name: &NodeName,
        removal: NodeRemoval,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        // A heartbeat and the start of a process wait for this transaction.
        let sql = "SELECT id FROM nodes WHERE name = $1 AND removed_at IS NULL FOR UPDATE";
        tx.query_opt(sql, parameters![name]).await?.ok_or(StoreError::NotFound)?;
        let node = find(&tx, name).await?.ok_or(StoreError::NotFound)?;
        node.check_removal(removal).map_err(|refusal| StoreError::Conflict(refusal.to_string()))?;
        let sql = "UPDATE nodes SET removed_at = now(), epoch = epoch + 1 WHERE id = $1";
        tx.execute(sql, parameters![node.id]).await?;
        allocations::release_node(&tx, node.id).await?;
        tx.commit_audited(audit).await
    }
}

#[async_trait]
impl Membership for PostgresStore {
    async fn heartbeat(
        &self,
        figures: NodeFigures,
        limit: Duration,
    ) -> Result<HeartbeatOutcome, StoreError> {
        let deadline = Instant::now() + limit;
        let timed_out = |_| StoreError::Unavailable(HeartbeatTimeoutError(limit).into());
        let opening = timeout_at(deadline, Connection::of(&self.heartbeats));
        let mut connection = opening.await.map_err(timed_out)??;
        let beating = beat(&mut connection, self.epoch, figures, self.timeline, self.applied.get());
        let outcome = timeout_at(deadline, beating).await.map_err(timed_out).flatten();
        if outcome.is_err() {
            // It may have lost its peer without notice.
            connection.detach();
        }
        outcome
    }
}

#[async_trait]
impl DatabaseClock for PostgresStore {
    async fn time(&self) -> Result<Timestamp, StoreError> {
        let mut connection = self.connection().await?;
        let reading = async {
            let tx = connection.view().await?;
            let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
            Ok(tx.query_one("clock_timestamp", sql, &[]).await?.column::<At>(0)?.0)
        };
        let outcome = timeout(OPERATION_LIMIT, reading).await;
        connection.check_time(outcome)
    }
}

async fn beat(
    connection: &mut Connection,
    NodeEpoch { id, epoch }: NodeEpoch,
    figures: NodeFigures,
    timeline: Timeline,
    applied_change: ChangeSeq,
) -> Result<HeartbeatOutcome, StoreError> {
    let tx = connection.begin_unfenced().await?;
    let timeline = timeline.sql();
    let sql = format!(
        "UPDATE nodes SET heard_at = now(), in_flight = $3, requests_per_second = $4, \
        waiting_records = $5 WHERE id = $1 AND epoch = $2 AND removed_at IS NULL \
        RETURNING draining, (SELECT seq FROM log_end), {timeline}, (SELECT seq FROM change_log_end)"
    );
    let values = parameters![
        id,
        epoch,
        Count(figures.in_flight),
        Count(figures.requests_per_second),
        Count(figures.waiting_records)
    ];
    let Some(row) = tx.query_opt(&sql, values).await? else {
        let sql = "SELECT FROM nodes WHERE id = $1 AND removed_at IS NULL";
        let is_member = tx.query_opt(sql, parameters![id]).await?.is_some();
        let reason = if is_member { Fenced::Superseded } else { Fenced::Removed };
        return Ok(HeartbeatOutcome::Fenced(reason));
    };
    let answer = Heartbeat {
        is_draining: row.column(0)?,
        newest: Cursor(row.column(1)?),
        newest_change: ChangeSeq { timeline: row.column(2)?, number: row.column(3)? },
        applied_change,
    };
    tx.commit().await?;
    Ok(HeartbeatOutcome::Recorded(answer))
}

/// Returns a node by its name, unless it was removed.
async fn find(tx: &Transaction<'_>, name: &NodeName) -> Result<Option<NodeStatus>, StoreError> {
    let sql = format!("SELECT {NODE} FROM nodes WHERE name = $1 AND removed_at IS NULL");
    tx.query_opt(&sql, parameters![name]).await?.as_ref().map(status).transpose()
}

fn status(row: &Row) -> Result<NodeStatus, StoreError> {
    Ok(NodeStatus {
        id: row.column("id")?,
        name: row.column("name")?,
        epoch: row.column::<Count>("epoch")?.0,
        version: row.column("version")?,
        address: row.column("address")?,
        started_at: row.column::<At>("started_at")?.0,
        heard_at: row.column::<At>("heard_at")?.0,
        silence: row.column::<Micros>("silence")?.0,
        patience: row.column::<Micros>("patience")?.0,
        is_draining: row.column("draining")?,
        is_stopped: row.column("stopped")?,
        figures: NodeFigures {
            in_flight: row.column::<Count>("in_flight")?.0,
            requests_per_second: row.column::<Count>("requests_per_second")?.0,
            waiting_records: row.column::<Count>("waiting_records")?.0,
        },
    })
}
