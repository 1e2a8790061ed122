//! Claims of idempotency keys, which let one gateway serve a request.
//!
//! A claim is one statement, so that of two gateways at the same moment one gets it: the other waits
//! for its transaction. Transactions lock rows in the order of their key, which rules out deadlocks.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use foldhash::fast::RandomState;
use tokio::time::timeout;

use super::PostgresStore;
use super::audit::rows;
use super::codec::{ReadColumn, arrays, parameters};
use super::transaction::{OPERATION_LIMIT, Transaction};
use crate::StoreError;
use crate::claims::IdempotencyClaims;
use crate::codec::Micros;
use domain::id::RequestId;
use domain::idempotency::{
    AnswerLookup, BodyDigest, Claim, ClaimOutcome, EarlierClaim, IdempotencyDigest, StoredAnswer,
};
use domain::record::RequestRecord;

/// Whether the process of `claim` may still serve its request.
const IS_SERVED: &str = "EXISTS (SELECT FROM nodes WHERE nodes.id = claim.node \
    AND nodes.removed_at IS NULL \
    AND now() - nodes.heard_at <= nodes.patience * interval '1 microsecond')";

#[async_trait]
impl IdempotencyClaims for PostgresStore {
    async fn claim(
        &self,
        claims: &[Claim],
        window: Duration,
    ) -> Result<Vec<ClaimOutcome>, StoreError> {
        let sql = format!(
            "INSERT INTO idempotency_claims AS claim \
            (account, digest, request, body, node, epoch, claimed_at) \
            SELECT account, digest, request, body, $5, $6, now() \
            FROM unnest($1::uuid[], $2::bytea[], $3::uuid[], $4::bytea[]) \
            AS made (account, digest, request, body) ORDER BY account, digest \
            ON CONFLICT (account, digest) DO UPDATE \
            SET (request, body, node, epoch, claimed_at, answered_at, answer_request, answer) \
            = (excluded.request, excluded.body, excluded.node, excluded.epoch, now(), NULL, NULL, NULL) \
            WHERE CASE WHEN claim.answered_at IS NOT NULL \
            THEN claim.answered_at <= now() - $7::bigint * interval '1 microsecond' \
            ELSE (claim.node, claim.epoch) = (excluded.node, excluded.epoch) OR NOT {IS_SERVED} END"
        );
        let mut connection = self.connection().await?;
        let outcome = timeout(OPERATION_LIMIT, async {
            let tx = connection.begin(self.epoch).await?;
            let columns =
                arrays!(claims, |claim| claim.account, claim.digest.0, claim.request, claim.body,);
            let rest = parameters![self.epoch.id, self.epoch.epoch, Micros(window)];
            tx.execute(&sql, &[columns, rest].concat()).await?;
            // The statement locked the rows that it left as they were.
            let in_force = find(&tx, claims).await?;
            tx.commit().await?;
            Ok(in_force)
        })
        .await;
        let in_force = connection.check_time(outcome)?;
        let outcome = |claim: &Claim| match in_force.get(&claim.digest) {
            Some(earlier) if earlier.request != claim.request => claim.after(earlier),
            _ => ClaimOutcome::Claimed,
        };
        Ok(claims.iter().map(outcome).collect())
    }

    async fn store_answers(&self, answers: &[(Claim, StoredAnswer)]) -> Result<(), StoreError> {
        // The request was answered, although its record may be stored later.
        let sql = "UPDATE idempotency_claims AS claim SET answered_at = coalesce(answered_at, now()), \
            answer_request = ended.request, answer_stream = ended.stream, \
            answer_headers = ended.headers, answer = ended.body \
            FROM (SELECT account, digest, request, stream, headers, made.body \
            FROM idempotency_claims \
            JOIN unnest($1::uuid[], $2::bytea[], $3::uuid[], $4::boolean[], $5::text[], $6::bytea[]) \
            AS made (account, digest, request, stream, headers, body) USING (account, digest, request) \
            ORDER BY account, digest FOR UPDATE OF idempotency_claims) AS ended \
            WHERE (claim.account, claim.digest) = (ended.account, ended.digest)";
        let mut connection = self.connection().await?;
        let outcome = timeout(OPERATION_LIMIT, async {
            let tx = connection.begin(self.epoch).await?;
            let columns = arrays!(
                answers,
                |row| row.0.account,
                row.0.digest.0,
                row.0.request,
                row.1.stream,
                serde_json::to_string(&row.1.headers).unwrap_or_default(),
                row.1.body.as_ref(),
            );
            tx.execute(sql, columns).await?;
            tx.commit().await
        })
        .await;
        connection.check_time(outcome)
    }

    async fn find_answer(
        &self,
        claim: &Claim,
        first: RequestId,
    ) -> Result<AnswerLookup, StoreError> {
        // A gateway of an earlier version that claims the key again leaves the answer.
        let sql = "SELECT coalesce(answer_request = request, false) AND answer IS NOT NULL, \
            coalesce(answered_at > now() - interval '1 s', false), \
            answer_stream, answer_headers, answer FROM idempotency_claims \
            WHERE account = $1 AND digest = $2 AND request = $3 AND body = $4";
        let mut connection = self.connection().await?;
        let outcome = timeout(OPERATION_LIMIT, async {
            let tx = connection.view().await?;
            tx.query_opt(sql, parameters![claim.account, claim.digest.0, first, claim.body]).await
        })
        .await;
        let Some(row) = connection.check_time(outcome)? else { return Ok(AnswerLookup::Gone) };
        if !row.column(0)? {
            let is_recent = row.column(1)?;
            return Ok(if is_recent { AnswerLookup::Pending } else { AnswerLookup::Gone });
        }
        let headers = serde_json::from_str(&row.column::<String>(3)?);
        Ok(AnswerLookup::Found(StoredAnswer {
            stream: row.column(2)?,
            headers: headers.map_err(|error| StoreError::Unavailable(error.into()))?,
            body: row.column::<Vec<u8>>(4)?.into(),
        }))
    }

    async fn release_claims(&self, claims: &[Claim]) -> Result<(), StoreError> {
        let sql = "DELETE FROM idempotency_claims AS claim USING (SELECT account, digest, request \
            FROM idempotency_claims \
            JOIN unnest($1::uuid[], $2::bytea[], $3::uuid[]) AS ended (account, digest, request) \
            USING (account, digest, request) WHERE answered_at IS NULL \
            ORDER BY account, digest FOR UPDATE OF idempotency_claims) AS ended \
            WHERE (claim.account, claim.digest) = (ended.account, ended.digest)";
        let mut connection = self.connection().await?;
        let outcome = timeout(OPERATION_LIMIT, async {
            let tx = connection.begin(self.epoch).await?;
            let columns = arrays!(claims, |claim| claim.account, claim.digest.0, claim.request);
            tx.execute(sql, columns).await?;
            tx.commit().await
        })
        .await;
        connection.check_time(outcome)
    }

    async fn release_earlier_claims(&self) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        let sql = "DELETE FROM idempotency_claims \
            WHERE node = $1 AND epoch < $2 AND answered_at IS NULL";
        tx.execute(sql, parameters![self.epoch.id, self.epoch.epoch]).await?;
        tx.commit().await
    }

    async fn delete_old_claims(&self, window: Duration, limit: usize) -> Result<u64, StoreError> {
        let sql = format!(
            "DELETE FROM idempotency_claims WHERE (account, digest) IN \
            (SELECT account, digest FROM idempotency_claims AS claim \
            WHERE answered_at <= now() - $1::bigint * interval '1 microsecond' \
            OR answered_at IS NULL AND claimed_at <= now() - $1::bigint * interval '1 microsecond' \
            AND NOT {IS_SERVED} ORDER BY account, digest LIMIT $2 FOR UPDATE)"
        );
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        if !tx.try_claim_retention().await? {
            return Ok(0);
        }
        let deleted = tx.execute(&sql, parameters![Micros(window), rows(limit)]).await?;
        tx.commit().await?;
        Ok(deleted)
    }
}

/// Records which claims belong to requests that were answered completely, as `records` say.
pub(super) async fn mark_answered(
    tx: &Transaction<'_>,
    records: &[(i64, &RequestRecord)],
) -> Result<(), StoreError> {
    let keyed = records.iter().filter_map(|(_, record)| Some((record.idempotency?, *record)));
    let keyed: Vec<_> = keyed.collect();
    if keyed.is_empty() {
        return Ok(());
    }
    let sql = "UPDATE idempotency_claims AS claim SET answered_at = now() \
        FROM (SELECT account, digest FROM idempotency_claims \
        JOIN unnest($1::uuid[], $2::bytea[], $3::uuid[]) AS ended (account, digest, request) \
        USING (account, digest, request) \
        ORDER BY account, digest FOR UPDATE OF idempotency_claims) AS ended \
        WHERE (claim.account, claim.digest) = (ended.account, ended.digest)";
    let columns = arrays!(keyed, |row| row.1.account, row.0.0, row.1.id);
    tx.execute(sql, columns).await?;
    Ok(())
}

/// Returns the claims in force of the keys of `claims`.
async fn find(
    tx: &Transaction<'_>,
    claims: &[Claim],
) -> Result<HashMap<IdempotencyDigest, EarlierClaim, RandomState>, StoreError> {
    let sql = "SELECT digest, request, body, answered_at IS NOT NULL FROM idempotency_claims \
        JOIN unnest($1::uuid[], $2::bytea[]) AS made (account, digest) USING (account, digest)";
    let columns = arrays!(claims, |claim| claim.account, claim.digest.0);
    let found = tx.query(sql, columns).await?;
    let claim = |row: &tokio_postgres::Row| {
        let (digest, body): (_, BodyDigest) = (IdempotencyDigest(row.column(0)?), row.column(2)?);
        Ok((digest, EarlierClaim { request: row.column(1)?, body, is_answered: row.column(3)? }))
    };
    found.iter().map(claim).collect()
}
