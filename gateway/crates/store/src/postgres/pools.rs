//! The sizes of shared pools, before allocations are subtracted.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;
use futures_util::future;
use jiff::Timestamp;

use super::codec::{ReadColumn, arrays};
use super::transaction::Transaction;
use crate::StoreError;
use crate::codec::{Decode, Encode};
use crate::summary::day_of;
use domain::allocation::{AllocationRequest, LimitSubject, Pool};
use domain::id::{AccountId, KeyId, ModelId};
use domain::money::Nanos;
use domain::month::month_of;

/// The identity of a pool, as the first columns of `allocations`. Its order is that of the columns
/// with the collation `C`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PoolRow {
    pub(super) kind: &'static str,
    pub(super) subject: String,
    /// The start of the month of a quota, in microseconds; otherwise zero.
    pub(super) month: i64,
}

/// The quota of one owner in one month.
struct Quota<T> {
    owner: T,
    first_day: i64,
    /// The first day of the next month.
    end_day: i64,
}

impl PoolRow {
    pub(super) fn of(pool: &Pool) -> Self {
        match pool {
            Pool::Balance(account) => Self::new("balance", account.to_string()),
            Pool::SpendCap(key) => Self::new("spend_cap", key.to_string()),
            Pool::MonthlyTokens { subject, month } => Self::of_month(subject.to_string(), *month),
            Pool::Requests(subject) => Self::new("rpm", subject.to_string()),
            Pool::Tokens(subject) => Self::new("tpm", subject.to_string()),
            Pool::Concurrency(subject) => Self::new("concurrency", subject.to_string()),
        }
    }

    /// Returns the row of a monthly quota.
    pub(super) fn of_month(subject: String, month: Timestamp) -> Self {
        Self { month: month.as_microsecond(), ..Self::new("monthly_tokens", subject) }
    }

    fn new(kind: &'static str, subject: String) -> Self {
        Self { kind, subject, month: 0 }
    }
}

/// Locks pools until the end of the transaction: one allocation at a time.
pub(super) async fn lock(tx: &Transaction<'_>, pools: &[&PoolRow]) -> Result<(), StoreError> {
    // All transactions take these locks in the order of their numbers.
    let sql = "SELECT pg_advisory_xact_lock(number) FROM (SELECT DISTINCT \
        hashtextextended(kind || ' ' || subject, month) AS number \
        FROM unnest($1::text[], $2::text[], $3::bigint[]) AS pool (kind, subject, month) \
        ORDER BY number) AS numbers";
    let columns = arrays!(pools, |row| row.kind, row.subject.as_str(), row.month);
    tx.query(sql, columns).await?;
    Ok(())
}

/// Returns the size of each requested pool.
pub(super) async fn sizes(
    tx: &Transaction<'_>,
    requests: &[AllocationRequest],
) -> Result<Vec<i64>, StoreError> {
    let mut accounts = Vec::<AccountId>::new();
    let mut keys = Vec::<KeyId>::new();
    let (mut account_quotas, mut model_quotas, mut key_quotas) = (vec![], vec![], vec![]);
    for request in requests {
        match &request.pool {
            Pool::Balance(account) => accounts.push(*account),
            Pool::SpendCap(key) => keys.push(key.clone()),
            Pool::MonthlyTokens { subject, month } => match subject {
                LimitSubject::Account(id) => account_quotas.push(Quota::of(*id, *month)),
                LimitSubject::Model(id) => model_quotas.push(Quota::of(id.clone(), *month)),
                LimitSubject::Key(id) => key_quotas.push(Quota::of(id.clone(), *month)),
            },
            Pool::Requests(_) | Pool::Tokens(_) | Pool::Concurrency(_) => {}
        }
    }
    let (balances, spent, by_account, by_model, by_key) = future::try_join5(
        balances(tx, &accounts),
        spent(tx, &keys),
        used::<AccountId>(tx, OF_ACCOUNTS, &account_quotas),
        used::<ModelId>(tx, OF_MODELS, &model_quotas),
        used::<KeyId>(tx, OF_KEYS, &key_quotas),
    )
    .await?;
    let size = |request: &AllocationRequest| {
        let limit = request.limit.unwrap_or_default();
        let used = match &request.pool {
            Pool::Balance(account) => return balances.get(account).map_or(0, |balance| balance.0),
            Pool::SpendCap(key) => {
                let (spent, cap) = spent.get(key).copied().unwrap_or_default();
                // The gateway may not know yet that the cap was lowered.
                return cap.map_or(limit, |cap| limit.min(cap.0)).saturating_sub(spent.0);
            }
            Pool::MonthlyTokens { subject, month } => {
                let first = day_of(*month);
                match subject {
                    LimitSubject::Account(id) => of_month(&by_account, *id, first),
                    LimitSubject::Model(id) => of_month(&by_model, id.clone(), first),
                    LimitSubject::Key(id) => of_month(&by_key, id.clone(), first),
                }
            }
            Pool::Requests(_) | Pool::Tokens(_) | Pool::Concurrency(_) => 0,
        };
        limit.saturating_sub(used)
    };
    Ok(requests.iter().map(size).collect())
}

const OF_ACCOUNTS: &str = "SELECT owner, first_day, saturated(sum(input::numeric + output)) \
    FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS quota (owner, first_day, end_day) \
    JOIN key_days ON account = owner AND day >= first_day AND day < end_day GROUP BY 1, 2";
const OF_MODELS: &str = "SELECT owner, first_day, saturated(sum(input::numeric + output)) \
    FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS quota (owner, first_day, end_day) \
    JOIN key_days ON model = owner AND day >= first_day AND day < end_day GROUP BY 1, 2";
const OF_KEYS: &str = "SELECT owner, first_day, saturated(sum(input::numeric + output)) \
    FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS quota (owner, first_day, end_day) \
    JOIN keys ON origin = owner \
    JOIN key_days ON key = keys.id AND day >= first_day AND day < end_day GROUP BY 1, 2";

/// Returns the tokens used under each quota, by its owner and its first day.
async fn used<T: Decode + Encode + Hash + Eq + Sync>(
    tx: &Transaction<'_>,
    sql: &str,
    quotas: &[Quota<T>],
) -> Result<HashMap<(T, i64), i64, RandomState>, StoreError> {
    if quotas.is_empty() {
        return Ok(HashMap::default());
    }
    let columns = arrays!(quotas, |quota| &quota.owner, quota.first_day, quota.end_day);
    let rows = tx.query(sql, columns).await?;
    rows.iter().map(|row| Ok(((row.column(0)?, row.column(1)?), row.column(2)?))).collect()
}

async fn balances(
    tx: &Transaction<'_>,
    accounts: &[AccountId],
) -> Result<HashMap<AccountId, Nanos, RandomState>, StoreError> {
    if accounts.is_empty() {
        return Ok(HashMap::default());
    }
    let sql = "SELECT account, amount FROM balances WHERE account = ANY($1::uuid[])";
    let rows = tx.query(sql, arrays!(accounts, |account| *account)).await?;
    rows.iter().map(|row| Ok((row.column(0)?, row.column(1)?))).collect()
}

/// Returns what the chains of keys have spent, and their present caps.
async fn spent(
    tx: &Transaction<'_>,
    origins: &[KeyId],
) -> Result<HashMap<KeyId, (Nanos, Option<Nanos>), RandomState>, StoreError> {
    if origins.is_empty() {
        return Ok(HashMap::default());
    }
    let sql = "SELECT keys.origin, saturated(coalesce(sum(cost), 0)), \
        max(spend_cap) FILTER (WHERE revoked_at IS NULL) FROM keys \
        LEFT JOIN key_days ON key_days.key = keys.id \
        WHERE keys.origin = ANY($1::text[]) GROUP BY 1";
    let rows = tx.query(sql, arrays!(origins, |origin| origin)).await?;
    let chain = |row: &tokio_postgres::Row| Ok((row.column(0)?, (row.column(1)?, row.column(2)?)));
    rows.iter().map(chain).collect()
}

impl<T> Quota<T> {
    fn of(owner: T, month: Timestamp) -> Self {
        let (start, end) = month_of(month);
        Self { owner, first_day: day_of(start), end_day: day_of(end) }
    }
}

fn of_month<T: Hash + Eq>(
    used: &HashMap<(T, i64), i64, RandomState>,
    owner: T,
    first_day: i64,
) -> i64 {
    used.get(&(owner, first_day)).copied().unwrap_or_default()
}
