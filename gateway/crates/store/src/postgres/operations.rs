//! Executes each operation on the allocations of a process once, although its answer can be lost.

use super::codec::{ReadColumn, parameters};
use super::error::SupersededOperationError;
use super::nodes::NodeEpoch;
use super::transaction::Transaction;
use crate::StoreError;
use crate::codec::Count;
use domain::allocation::Allocation;

/// Returns the answer of an operation that was executed already; `None` if it is the next one. Waits for
/// an earlier attempt that is still in progress.
///
/// # Errors
/// [`StoreError::Unavailable`] if a later operation was executed: this is a late attempt of an earlier one.
pub(super) async fn find(
    tx: &Transaction<'_>,
    node: NodeEpoch,
    operation: u64,
) -> Result<Option<String>, StoreError> {
    let sql = "INSERT INTO allocation_operations VALUES ($1, $2, 0, '') ON CONFLICT (node) \
        DO UPDATE SET operation = CASE WHEN allocation_operations.epoch = excluded.epoch \
        THEN allocation_operations.operation ELSE 0 END, epoch = excluded.epoch \
        RETURNING operation, answer";
    let row = tx.query_one("an operation", sql, parameters![node.id, node.epoch]).await?;
    match row.column::<Count>(0)?.0 {
        last if last < operation => Ok(None),
        last if last == operation => row.column(1).map(Some),
        _ => Err(StoreError::Unavailable(SupersededOperationError.into())),
    }
}

/// Records that an operation was executed.
pub(super) async fn record(
    tx: &Transaction<'_>,
    node: NodeEpoch,
    operation: u64,
    answer: &str,
) -> Result<(), StoreError> {
    let sql = "UPDATE allocation_operations SET operation = $2, answer = $3 WHERE node = $1";
    tx.execute(sql, parameters![node.id, Count(operation), answer]).await?;
    Ok(())
}

/// Encodes the answer of an allocation.
pub(super) fn encode(found: &[Allocation]) -> String {
    let numbers: Vec<_> = found.iter().map(|it| [it.granted, it.available, it.elsewhere]).collect();
    serde_json::json!(numbers).to_string()
}

/// Decodes the answer of an allocation.
pub(super) fn decode(answer: &str) -> Result<Vec<Allocation>, StoreError> {
    let numbers: Vec<[i64; 3]> =
        serde_json::from_str(answer).map_err(|error| StoreError::Unavailable(error.into()))?;
    let allocation =
        |[granted, available, elsewhere]: [i64; 3]| Allocation { granted, available, elsewhere };
    Ok(numbers.into_iter().map(allocation).collect())
}
