//! Moves amounts between shared pools and this gateway.
//!
//! A pool is locked by an advisory lock while its available amount is computed and taken, so two
//! gateways never take the same amount. Commits of records do not wait for that lock. They reduce
//! the allocations of their gateway and the size of the pool in one transaction; [`allocate`] reads
//! the allocations before the sizes, so that a commit between the two makes a pool appear smaller,
//! never larger.
//!
//! Transactions lock rows of `allocations` in the order of their key, which rules out deadlocks.

use std::collections::HashMap;

use async_trait::async_trait;
use foldhash::fast::RandomState;
use tokio::time::timeout;

use super::PostgresStore;
use super::codec::{ReadColumn, arrays, parameters};
use super::operations;
use super::pools::{self, PoolRow};
use super::recalls;
use super::transaction::{OPERATION_LIMIT, Transaction};
use crate::{Allocations, StoreError};
use domain::allocation::{Allocation, AllocationRequest, Pool, Recall, grant};
use domain::node::NodeId;

/// The time after its last use for which the allocation of an earlier process still counts under a
/// limit per minute: a minute, and some seconds of tolerance.
const MINUTE_SECONDS: i64 = 65;

/// What is done with amounts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AllocationChange {
    /// They are subtracted from the allocations of this gateway.
    GiveBack,
    /// The allocations of this gateway become these amounts.
    Set,
}

#[async_trait]
impl Allocations for PostgresStore {
    async fn allocate(
        &self,
        operation: u64,
        requests: &[AllocationRequest],
    ) -> Result<Vec<Allocation>, StoreError> {
        let mut connection = self.connection().await?;
        let outcome = timeout(OPERATION_LIMIT, async {
            let tx = connection.begin(self.epoch).await?;
            if let Some(answer) = operations::find(&tx, self.epoch, operation).await? {
                return operations::decode(&answer);
            }
            let found = self.grant_allocations(&tx, requests).await?;
            operations::record(&tx, self.epoch, operation, &operations::encode(&found)).await?;
            tx.commit().await?;
            Ok(found)
        })
        .await;
        connection.check_time(outcome)
    }

    async fn give_back(&self, operation: u64, amounts: &[(Pool, i64)]) -> Result<(), StoreError> {
        self.change_allocations(operation, amounts, AllocationChange::GiveBack).await
    }

    async fn set_allocated(
        &self,
        operation: u64,
        amounts: &[(Pool, i64)],
    ) -> Result<(), StoreError> {
        self.change_allocations(operation, amounts, AllocationChange::Set).await
    }

    async fn give_back_all(&self) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        // An allocation that the gateway no longer waits for must not be added afterwards.
        let tx = connection.begin_alone(self.epoch).await?;
        release_node(&tx, self.epoch.id).await?;
        tx.commit().await
    }

    async fn allocated(&self, pools: &[Pool]) -> Result<Vec<i64>, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let rows: Vec<_> = pools.iter().map(PoolRow::of).collect();
        // Also what an earlier process with this data directory has.
        let sql = "SELECT (SELECT coalesce(sum(amount), 0)::bigint FROM allocations \
            WHERE (kind, subject, month) = (pool.kind, pool.subject, pool.month) \
            AND node = $4 AND expires_at IS NULL) \
            FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY \
            AS pool (kind, subject, month, number) ORDER BY number";
        let columns = arrays!(rows, |row| row.kind, row.subject.as_str(), row.month);
        let own = parameters![self.epoch.id];
        let found = tx.query(sql, &[columns, own].concat()).await?;
        found.iter().map(|row| row.column(0)).collect()
    }

    async fn unused(&self, pools: &[(Pool, Option<i64>)]) -> Result<Vec<i64>, StoreError> {
        let mut connection = self.connection().await?;
        let request = |(pool, limit): &(Pool, Option<i64>)| AllocationRequest {
            pool: pool.clone(),
            limit: *limit,
            needed: 0,
        };
        let requests: Vec<_> = pools.iter().map(request).collect();
        pools::sizes(&connection.view().await?, &requests).await
    }

    async fn recall(&self, recalls: &[Recall]) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let outcome = timeout(OPERATION_LIMIT, async {
            let tx = connection.begin(self.epoch).await?;
            recalls::send(&tx, self.epoch.id, recalls).await?;
            tx.commit().await
        })
        .await;
        connection.check_time(outcome)
    }
}

impl PostgresStore {
    async fn grant_allocations(
        &self,
        tx: &Transaction<'_>,
        requests: &[AllocationRequest],
    ) -> Result<Vec<Allocation>, StoreError> {
        let rows: Vec<_> = requests.iter().map(|request| PoolRow::of(&request.pool)).collect();
        let mut sorted: Vec<_> = rows.iter().collect();
        sorted.sort_unstable();
        pools::lock(tx, &sorted).await?;
        self.lock_rows(tx, &sorted).await?;
        let allocated = self.allocated_sums(tx, &sorted).await?;
        let sizes = pools::sizes(tx, requests).await?;
        let mut found = Vec::with_capacity(requests.len());
        for ((request, row), size) in requests.iter().zip(&rows).zip(sizes) {
            let (own, others) = allocated.get(row).copied().unwrap_or_default();
            let available = size.saturating_sub(own).saturating_sub(others);
            let granted = grant(available, request.needed);
            found.push(Allocation { granted, available: available - granted, elsewhere: others });
        }
        let granted: HashMap<_, _, RandomState> =
            rows.iter().zip(&found).map(|(row, found)| (row, found.granted)).collect();
        self.add(tx, &sorted, &granted).await?;
        Ok(found)
    }

    /// Executes an operation without an answer, unless it was executed already.
    async fn change_allocations(
        &self,
        operation: u64,
        amounts: &[(Pool, i64)],
        change: AllocationChange,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let outcome = timeout(OPERATION_LIMIT, async {
            let tx = connection.begin(self.epoch).await?;
            if operations::find(&tx, self.epoch, operation).await?.is_none() {
                self.write_allocations(&tx, amounts, change).await?;
                operations::record(&tx, self.epoch, operation, "").await?;
                tx.commit().await?;
            }
            Ok(())
        })
        .await;
        connection.check_time(outcome)
    }

    async fn write_allocations(
        &self,
        tx: &Transaction<'_>,
        amounts: &[(Pool, i64)],
        change: AllocationChange,
    ) -> Result<(), StoreError> {
        let mut rows: Vec<_> =
            amounts.iter().map(|(pool, amount)| (PoolRow::of(pool), *amount)).collect();
        rows.sort_unstable();
        let pools: Vec<_> = rows.iter().map(|(row, _)| row).collect();
        if change == AllocationChange::Set {
            // An amount can grow, so no other gateway may compute what is available meanwhile.
            pools::lock(tx, &pools).await?;
        }
        let sql = match change {
            AllocationChange::GiveBack => {
                "UPDATE allocations AS stored \
                SET amount = greatest(stored.amount - returned.amount, 0) \
                FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) \
                AS returned (kind, subject, month, amount) \
                WHERE (stored.kind, stored.subject, stored.month) \
                = (returned.kind, returned.subject, returned.month) \
                AND stored.node = $5 AND stored.epoch = $6"
            }
            AllocationChange::Set => {
                "INSERT INTO allocations (kind, subject, month, node, epoch, amount) \
                SELECT kind, subject, month, $5, $6, amount \
                FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) \
                AS used (kind, subject, month, amount) \
                ON CONFLICT (kind, subject, month, node, epoch) \
                DO UPDATE SET amount = excluded.amount"
            }
        };
        self.lock_rows(tx, &pools).await?;
        let columns = arrays!(rows, |row| row.0.kind, row.0.subject.as_str(), row.0.month, row.1);
        let own = parameters![self.epoch.id, self.epoch.epoch];
        tx.execute(sql, &[columns, own].concat()).await?;
        let sql = "DELETE FROM allocations USING unnest($1::text[], $2::text[], $3::bigint[]) \
            AS returned (kind, subject, month) \
            WHERE (allocations.kind, allocations.subject, allocations.month) \
            = (returned.kind, returned.subject, returned.month) \
            AND node = $4 AND epoch = $5 AND amount = 0";
        let columns = arrays!(rows, |row| row.0.kind, row.0.subject.as_str(), row.0.month);
        tx.execute(sql, &[columns, own].concat()).await?;
        Ok(())
    }

    /// Locks the rows of this gateway in the order of `sorted`, which is that of their key.
    async fn lock_rows(&self, tx: &Transaction<'_>, sorted: &[&PoolRow]) -> Result<(), StoreError> {
        let sql = "SELECT stored.amount FROM allocations AS stored \
            JOIN unnest($1::text[], $2::text[], $3::bigint[]) AS pool (kind, subject, month) \
            USING (kind, subject, month) WHERE stored.node = $4 AND stored.epoch = $5 \
            ORDER BY kind COLLATE \"C\", subject COLLATE \"C\", month FOR UPDATE OF stored";
        let columns = arrays!(sorted, |row| row.kind, row.subject.as_str(), row.month);
        let own = parameters![self.epoch.id, self.epoch.epoch];
        tx.query(sql, &[columns, own].concat()).await?;
        Ok(())
    }

    /// Returns the amounts of this process and of all others in each pool.
    async fn allocated_sums(
        &self,
        tx: &Transaction<'_>,
        pools: &[&PoolRow],
    ) -> Result<HashMap<PoolRow, (i64, i64), RandomState>, StoreError> {
        let sql = "SELECT number, \
            coalesce(sum(stored.amount) FILTER (WHERE node = $4 AND epoch = $5), 0)::bigint, \
            coalesce(sum(stored.amount) FILTER (WHERE node <> $4 OR epoch <> $5), 0)::bigint \
            FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY \
            AS pool (kind, subject, month, number) \
            JOIN allocations AS stored USING (kind, subject, month) \
            WHERE expires_at IS NULL OR expires_at > now() GROUP BY number";
        let columns = arrays!(pools, |row| row.kind, row.subject.as_str(), row.month);
        let own = parameters![self.epoch.id, self.epoch.epoch];
        let found = tx.query(sql, &[columns, own].concat()).await?;
        let read = |row: &tokio_postgres::Row| {
            let number = usize::try_from(row.column::<i64>(0)?).unwrap_or_default();
            let pool = pools.get(number.wrapping_sub(1)).map(|pool| PoolRow::clone(pool));
            Ok::<_, StoreError>(pool.zip(Some((row.column(1)?, row.column(2)?))))
        };
        found.iter().filter_map(|row| read(row).transpose()).collect()
    }

    async fn add(
        &self,
        tx: &Transaction<'_>,
        sorted: &[&PoolRow],
        granted: &HashMap<&PoolRow, i64, RandomState>,
    ) -> Result<(), StoreError> {
        let amount = |row: &PoolRow| granted.get(row).copied().unwrap_or_default();
        let rows: Vec<_> = sorted.iter().copied().filter(|row| amount(row) > 0).collect();
        let sql = "INSERT INTO allocations AS stored (kind, subject, month, node, epoch, amount) \
            SELECT kind, subject, month, $5, $6, amount \
            FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) \
            AS granted (kind, subject, month, amount) \
            ON CONFLICT (kind, subject, month, node, epoch) \
            DO UPDATE SET amount = stored.amount + excluded.amount";
        let columns = arrays!(rows, |row| row.kind, row.subject.as_str(), row.month, amount(row));
        let own = parameters![self.epoch.id, self.epoch.epoch];
        tx.execute(sql, &[columns, own].concat()).await?;
        Ok(())
    }
}

/// Gives back everything that the gateway `node` has. What was used of limits per minute expires
/// later.
pub(super) async fn release_node(tx: &Transaction<'_>, node: NodeId) -> Result<(), StoreError> {
    let sql = "DELETE FROM allocations WHERE node = $1 AND expires_at IS NULL \
        AND (kind NOT IN ('rpm', 'tpm') OR amount = 0) OR expires_at < now()";
    tx.execute(sql, parameters![node]).await?;
    let sql = "UPDATE allocations SET expires_at = now() + make_interval(secs => $2::bigint) \
        WHERE node = $1 AND expires_at IS NULL";
    tx.execute(sql, parameters![node, MINUTE_SECONDS]).await?;
    Ok(())
}
