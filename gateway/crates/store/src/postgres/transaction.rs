//! Transactions: statements that are prepared once per connection, and the commit with an audit
//! entry.

use std::ops::DerefMut;
use std::pin::Pin;
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Object, Pool};
use futures_util::TryStreamExt;
use futures_util::stream::Stream;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::{IsolationLevel, Row};

use super::audit;
use super::codec::{AnyParameter, Parameter, ReadColumn, parameters};
use super::error::{FencedError, MissingRowError, StalledError};
use super::nodes::NodeEpoch;
use crate::StoreError;
use crate::condition::Condition;
use domain::audit::AuditEntry;

/// The advisory lock of the gateway that deletes old rows. `migrations.rs` has another one.
const RETENTION_LOCK: i64 = 0x746f_6c6c_0000_0002;

/// The time after which an operation that other gateways or the requests of this one wait for has failed:
/// a connection can stall without an error.
pub(super) const OPERATION_LIMIT: Duration = Duration::from_secs(5);

/// The time to wait for a connection: other operations may use all of them.
pub(super) const CONNECTION_LIMIT: Duration = Duration::from_secs(10);

/// A connection. The default returns to the pool on drop.
pub(super) struct Connection<C = Object>(C);

/// A connection that closes on drop, which cancels its statement.
pub(super) type DetachedConnection = Connection<Box<ClientWrapper>>;

/// A transaction, rolled back on drop.
pub(super) struct Transaction<'a>(deadpool_postgres::Transaction<'a>);

/// Rows that are being written with COPY.
pub(super) struct CopyWriter(Pin<Box<BinaryCopyInWriter>>);

impl Connection {
    /// Takes a connection from the pool, or opens one. Fails if there is none in time.
    pub(super) async fn of(pool: &Pool) -> Result<Self, StoreError> {
        let taken = timeout(CONNECTION_LIMIT, pool.get()).await;
        Ok(Self(taken.map_err(|_| StoreError::Unavailable(StalledError.into()))??))
    }

    /// Returns the outcome of work on the connection. If it did not end in time, the connection may have
    /// lost its peer without notice, and is closed, as are all idle ones of the pool: the next operation would
    /// wait for another one of them.
    pub(super) fn check_time<T>(
        self,
        outcome: Result<Result<T, StoreError>, Elapsed>,
    ) -> Result<T, StoreError> {
        outcome.unwrap_or_else(|_| {
            if let Some(pool) = Object::pool(&self.0) {
                pool.retain(|_, _| false);
            }
            drop(self.detach());
            Err(StoreError::Unavailable(StalledError.into()))
        })
    }

    /// Removes the connection from the pool, for statements that can take long.
    pub(super) fn detach(self) -> DetachedConnection {
        Connection(Box::new(Object::take(self.0)))
    }
}

impl<C: DerefMut<Target = ClientWrapper>> Connection<C> {
    /// Starts a transaction that writes, unless a later process is the one of the node, or the node
    /// was removed.
    pub(super) async fn begin(&mut self, node: NodeEpoch) -> Result<Transaction<'_>, StoreError> {
        let tx = self.begin_unfenced().await?;
        tx.fence(node).await?;
        Ok(tx)
    }

    /// Like [`begin`](Self::begin), but first waits for all other writing transactions of the
    /// process. One that it no longer waits for may still be about to commit.
    pub(super) async fn begin_alone(
        &mut self,
        node: NodeEpoch,
    ) -> Result<Transaction<'_>, StoreError> {
        let tx = self.begin_unfenced().await?;
        let lock = "SELECT epoch FROM nodes WHERE id = $1 AND epoch = $2 AND removed_at IS NULL \
            FOR UPDATE";
        tx.lock_node(lock, node).await?;
        Ok(tx)
    }

    /// Starts a transaction that writes and is not bound to an epoch: migrations, those of
    /// `nodes.rs`, and long ones that are [fenced](Transaction::fence) later.
    pub(super) async fn begin_unfenced(&mut self) -> Result<Transaction<'_>, StoreError> {
        let isolation = IsolationLevel::ReadCommitted;
        Ok(Transaction(self.0.build_transaction().isolation_level(isolation).start().await?))
    }

    /// Starts a transaction that only reads, from one consistent state.
    pub(super) async fn view(&mut self) -> Result<Transaction<'_>, StoreError> {
        let isolation = IsolationLevel::RepeatableRead;
        let builder = self.0.build_transaction().isolation_level(isolation).read_only(true);
        Ok(Transaction(builder.start().await?))
    }
}

impl Transaction<'_> {
    /// Fails if a later process is the one of the node, or the node was removed. From here on, a take-over and a
    /// removal wait for this transaction, because they change the key.
    pub(super) async fn fence(&self, node: NodeEpoch) -> Result<(), StoreError> {
        let lock = "SELECT epoch FROM nodes WHERE id = $1 AND epoch = $2 AND removed_at IS NULL \
            FOR KEY SHARE";
        self.lock_node(lock, node).await
    }

    async fn lock_node(&self, lock: &str, node: NodeEpoch) -> Result<(), StoreError> {
        match self.query_opt(lock, parameters![node.id, node.epoch]).await? {
            Some(_) => Ok(()),
            None => Err(StoreError::Unavailable(FencedError.into())),
        }
    }

    /// Executes a statement and returns the number of rows.
    pub(super) async fn execute(
        &self,
        sql: &str,
        values: &[AnyParameter<'_>],
    ) -> Result<u64, StoreError> {
        let statement = self.0.prepare_cached(sql).await?;
        Ok(self.0.execute(&statement, values).await?)
    }

    /// Returns all rows.
    pub(super) async fn query(
        &self,
        sql: &str,
        values: &[AnyParameter<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.0.prepare_cached(sql).await?;
        Ok(self.0.query(&statement, values).await?)
    }

    /// Returns the only row, if there is one.
    pub(super) async fn query_opt(
        &self,
        sql: &str,
        values: &[AnyParameter<'_>],
    ) -> Result<Option<Row>, StoreError> {
        let statement = self.0.prepare_cached(sql).await?;
        Ok(self.0.query_opt(&statement, values).await?)
    }

    /// Returns the only row of a statement that always has one, such as an aggregate or the row of
    /// the table `what`.
    pub(super) async fn query_one(
        &self,
        what: &'static str,
        sql: &str,
        values: &[AnyParameter<'_>],
    ) -> Result<Row, StoreError> {
        let missing = || StoreError::Unavailable(MissingRowError(what).into());
        self.query_opt(sql, values).await?.ok_or_else(missing)
    }

    /// Returns the rows of a statement whose text depends on conditions, in which `?` stands for their values in this
    /// order. The statement is not kept, because there are too many different ones.
    pub(super) async fn query_with(
        &self,
        sql: &str,
        conditions: &[Condition],
    ) -> Result<Vec<Row>, StoreError> {
        let values: Vec<_> = conditions.iter().flat_map(Condition::values).map(Parameter).collect();
        let values: Vec<_> = values.iter().map(|value| value as AnyParameter<'_>).collect();
        Ok(self.0.query(&numbered(sql), &values).await?)
    }

    /// Returns rows as they arrive, for results that may be large.
    pub(super) async fn stream(
        &self,
        sql: &str,
        values: &[AnyParameter<'_>],
    ) -> Result<Pin<Box<dyn Stream<Item = Result<Row, StoreError>> + Send>>, StoreError> {
        let statement = self.0.prepare_cached(sql).await?;
        let rows = self.0.query_raw(&statement, values.iter().copied()).await?;
        Ok(Box::pin(rows.map_err(StoreError::from)))
    }

    /// Begins to write rows of `table` with COPY, which costs the server a third of an `INSERT`, and also sets
    /// identity columns that are named. Dropping the writer before its end fails the transaction.
    pub(super) async fn copy_in(
        &self,
        table: &str,
        columns: &str,
    ) -> Result<CopyWriter, StoreError> {
        let types = self.0.prepare_cached(&format!("SELECT {columns} FROM {table}")).await?;
        let types: Vec<_> = types.columns().iter().map(|column| column.type_().clone()).collect();
        let copy = format!("COPY {table} ({columns}) FROM STDIN BINARY");
        let copy = self.0.prepare_cached(&copy).await?;
        Ok(CopyWriter(Box::pin(BinaryCopyInWriter::new(self.0.copy_in(&copy).await?, &types))))
    }

    /// Claims the deletion of old rows until the transaction ends. Returns whether no other gateway
    /// has it.
    pub(super) async fn try_claim_retention(&self) -> Result<bool, StoreError> {
        let sql = "SELECT pg_try_advisory_xact_lock($1)";
        self.query_one("the lock", sql, parameters![RETENTION_LOCK]).await?.column(0)
    }

    /// Executes statements that are separated by semicolons.
    pub(super) async fn execute_batch(&self, sql: &str) -> Result<(), StoreError> {
        Ok(self.0.batch_execute(sql).await?)
    }

    /// Commits.
    pub(super) async fn commit(self) -> Result<(), StoreError> {
        Ok(self.0.commit().await?)
    }

    /// Adds an audit entry and commits.
    pub(super) async fn commit_audited(self, entry: &AuditEntry) -> Result<(), StoreError> {
        audit::insert(&self, entry).await?;
        self.commit().await
    }
}

impl CopyWriter {
    /// Writes a row, with a value for each column.
    pub(super) async fn write(&mut self, values: &[AnyParameter<'_>]) -> Result<(), StoreError> {
        Ok(self.0.as_mut().write(values).await?)
    }

    /// Ends the statement.
    pub(super) async fn finish(mut self) -> Result<(), StoreError> {
        self.0.as_mut().finish().await?;
        Ok(())
    }
}

/// Replaces each `?` by the number of its value.
fn numbered(sql: &str) -> String {
    let mut parts = sql.split('?');
    let first = parts.next().unwrap_or_default().to_owned();
    (1..).zip(parts).fold(first, |sql, (number, part)| format!("{sql}${number}{part}"))
}
