//! Requests to other gateways to give back allocations, as notifications of the database.

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::codec::{arrays, parameters};
use super::pools::PoolRow;
use super::transaction::Transaction;
use crate::StoreError;
use domain::allocation::{LimitSubject, Pool, Recall, RecallScope};
use domain::id::{AccountId, KeyId, ModelId};
use domain::node::NodeId;

/// The channel of the notifications.
pub(super) const CHANNEL: &str = "tollgate_recalls";

/// Notifies all gateways, once the transaction is committed.
pub(super) async fn send(
    tx: &Transaction<'_>,
    node: NodeId,
    recalls: &[Recall],
) -> Result<(), StoreError> {
    let sql = "SELECT pg_notify($1, message) FROM unnest($2::text[]) AS sent (message)";
    let messages: Vec<_> = recalls.iter().map(|recall| encode(node, recall)).collect();
    tx.query(sql, &[parameters![CHANNEL], arrays!(messages, |message| message)].concat()).await?;
    Ok(())
}

fn encode(node: NodeId, Recall { pool, needed, from }: &Recall) -> String {
    let PoolRow { kind, subject, month } = PoolRow::of(pool);
    let except = (*from == RecallScope::Others).then(|| node.to_string());
    json!([except, kind, subject, month, needed]).to_string()
}

/// Returns a recall that `node` must answer; `None` if it sent it, or a newer version did.
pub(super) fn decode(node: NodeId, message: &str) -> Option<Recall> {
    let [except, kind, subject, month, needed]: [Value; 5] = serde_json::from_str(message).ok()?;
    let from = if except.is_null() { RecallScope::All } else { RecallScope::Others };
    if except.as_str().is_some_and(|except| except == node.to_string()) {
        return None;
    }
    let pool = pool(kind.as_str()?, subject.as_str()?, month.as_i64()?)?;
    Some(Recall { pool, needed: needed.as_i64()?, from })
}

fn pool(kind: &str, subject: &str, month: i64) -> Option<Pool> {
    Some(match kind {
        "balance" => Pool::Balance(account(subject)?),
        "spend_cap" => Pool::SpendCap(KeyId::new(subject)),
        "monthly_tokens" => Pool::MonthlyTokens {
            subject: limit_subject(subject)?,
            month: Timestamp::from_microsecond(month).ok()?,
        },
        "rpm" => Pool::Requests(limit_subject(subject)?),
        "tpm" => Pool::Tokens(limit_subject(subject)?),
        "concurrency" => Pool::Concurrency(limit_subject(subject)?),
        _ => return None,
    })
}

fn limit_subject(text: &str) -> Option<LimitSubject> {
    Some(match text.split_once(':')? {
        ("account", id) => LimitSubject::Account(account(id)?),
        ("model", id) => LimitSubject::Model(ModelId::new(id)),
        ("key", id) => LimitSubject::Key(KeyId::new(id)),
        _ => return None,
    })
}

fn account(text: &str) -> Option<AccountId> {
    Uuid::try_parse(text).ok().map(AccountId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recall_survives_its_encoding() {
        let subjects = [
            LimitSubject::Account(AccountId(Uuid::from_u128(7))),
            LimitSubject::Model(ModelId::new("a:\"b\"/c")),
            LimitSubject::Key(KeyId::new("key_1")),
        ];
        let month = Timestamp::from_second(1_700_000_000).unwrap();
        let of_limits = subjects.into_iter().flat_map(|subject| {
            [
                Pool::MonthlyTokens { subject: subject.clone(), month },
                Pool::Requests(subject.clone()),
                Pool::Tokens(subject.clone()),
                Pool::Concurrency(subject),
            ]
        });
        let others =
            [Pool::Balance(AccountId(Uuid::from_u128(7))), Pool::SpendCap(KeyId::new("k"))];
        for pool in of_limits.chain(others) {
            let [sender, other] = [3, 4].map(|number| NodeId(Uuid::from_u128(number)));
            let recall = Recall { pool, needed: 12, from: RecallScope::Others };
            let message = encode(sender, &recall);
            assert_eq!(decode(other, &message), Some(recall.clone()));
            assert_eq!(decode(sender, &message), None);
            let recall = Recall { from: RecallScope::All, ..recall };
            assert_eq!(decode(sender, &encode(sender, &recall)), Some(recall));
        }
        assert_eq!(decode(NodeId(Uuid::nil()), "[1, 2]"), None);
    }
}
