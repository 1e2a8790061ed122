//! Takes what the records of a batch used from the allocations of the gateway that writes them.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use jiff::Timestamp;

use super::codec::{arrays, parameters};
use super::pools::PoolRow;
use super::transaction::Transaction;
use crate::StoreError;
use domain::allocation::LimitSubject;
use domain::allocation::Pool;
use domain::id::{AccountId, KeyId, ModelId};
use domain::month::month_start;
use domain::node::NodeId;
use domain::record::RequestRecord;

/// What a batch uses, by the owner of a pool. The pools of keys belong to their origins, which the
/// statement finds.
#[derive(Default)]
struct Uses<'a> {
    costs_by_account: HashMap<AccountId, i64, RandomState>,
    costs_by_key: HashMap<&'a KeyId, i64, RandomState>,
    /// By the start of the month.
    tokens_by_account: HashMap<(AccountId, Timestamp), i64, RandomState>,
    tokens_by_model: HashMap<(&'a ModelId, Timestamp), i64, RandomState>,
    tokens_by_key: HashMap<(&'a KeyId, Timestamp), i64, RandomState>,
}

/// One row of the statement.
struct Use<'a> {
    pool: PoolRow,
    /// The key whose origin owns the pool; `None` if the subject of `pool` does.
    key: Option<&'a KeyId>,
    amount: i64,
}

const REDUCE: &str = "WITH uses AS (SELECT kind, CASE WHEN key IS NULL THEN subject \
    ELSE subject || keys.origin END AS subject, month, saturated(sum(amount)) AS amount \
    FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) \
    AS used (kind, subject, key, month, amount) LEFT JOIN keys ON keys.id = key GROUP BY 1, 2, 3), \
    locked AS (SELECT kind, subject, month, epoch, uses.amount AS used FROM allocations AS stored \
    JOIN uses USING (kind, subject, month) WHERE node = $6 AND expires_at IS NULL \
    ORDER BY kind COLLATE \"C\", subject COLLATE \"C\", month FOR UPDATE OF stored) \
    UPDATE allocations SET amount = greatest(amount - used, 0) FROM locked \
    WHERE node = $6 AND (allocations.kind, allocations.subject, allocations.month, \
    allocations.epoch) = (locked.kind, locked.subject, locked.month, locked.epoch)";

/// Reduces the allocations of the gateway `node`.
pub(super) async fn reduce(
    tx: &Transaction<'_>,
    node: NodeId,
    fresh: &[(i64, &RequestRecord)],
) -> Result<(), StoreError> {
    let uses = Uses::of(fresh).rows();
    if uses.is_empty() {
        return Ok(());
    }
    let columns = arrays!(
        uses,
        |row| row.pool.kind,
        row.pool.subject.as_str(),
        row.key,
        row.pool.month,
        row.amount
    );
    tx.execute(REDUCE, &[columns, parameters![node]].concat()).await?;
    Ok(())
}

impl<'a> Uses<'a> {
    fn of(fresh: &[(i64, &'a RequestRecord)]) -> Self {
        let mut uses = Self::default();
        for &(_, record) in fresh {
            let cost = record.cost.unwrap_or_default().0;
            if cost > 0 {
                add(uses.costs_by_account.entry(record.account).or_default(), cost);
                add(uses.costs_by_key.entry(&record.key).or_default(), cost);
            }
            let Some(usage) = record.usage else { continue };
            let tokens = usage.input.0.saturating_add(usage.output.0);
            let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
            let month = month_start(record.started_at);
            add(uses.tokens_by_account.entry((record.account, month)).or_default(), tokens);
            add(uses.tokens_by_key.entry((&record.key, month)).or_default(), tokens);
            if let Some(model) = &record.model {
                add(uses.tokens_by_model.entry((model, month)).or_default(), tokens);
            }
        }
        uses
    }

    fn rows(self) -> Vec<Use<'a>> {
        let owned = |pool: Pool, amount| Use { pool: PoolRow::of(&pool), key: None, amount };
        // The subject is completed by the origin of the key.
        let of_key = |row: PoolRow, key, amount| Use { pool: row, key: Some(key), amount };
        let prefix = |month| PoolRow::of_month("key:".to_owned(), month);
        let cap = || PoolRow::of(&Pool::SpendCap(KeyId::new("")));
        let month = |subject, month| Pool::MonthlyTokens { subject, month };
        let accounts = self.costs_by_account.into_iter();
        let keys = self.costs_by_key.into_iter();
        let account_tokens = self.tokens_by_account.into_iter();
        let model_tokens = self.tokens_by_model.into_iter();
        let key_tokens = self.tokens_by_key.into_iter();
        accounts
            .map(|(account, cost)| owned(Pool::Balance(account), cost))
            .chain(keys.map(|(key, cost)| of_key(cap(), key, cost)))
            .chain(account_tokens.map(|((account, start), tokens)| {
                owned(month(LimitSubject::Account(account), start), tokens)
            }))
            .chain(model_tokens.map(|((model, start), tokens)| {
                owned(month(LimitSubject::Model(model.clone()), start), tokens)
            }))
            .chain(key_tokens.map(|((key, start), tokens)| of_key(prefix(start), key, tokens)))
            .collect()
    }
}

fn add(sum: &mut i64, amount: i64) {
    *sum = sum.saturating_add(amount);
}
