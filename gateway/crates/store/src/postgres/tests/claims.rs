//! Tests of claims of idempotency keys.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::{Database, PostgresStore, batch};
use crate::Requests;
use crate::claims::IdempotencyClaims;
use crate::conformance::audit_entry;
use crate::fleet::Nodes;
use domain::id::{AccountId, RequestId};
use domain::idempotency::{AnswerLookup, Claim, ClaimOutcome, IdempotencyDigest, StoredAnswer};
use domain::node::{NodeName, NodeRemoval};
use domain::record::RequestRecord;

const WINDOW: Duration = Duration::from_mins(10);

/// The claim of request `number` for the key `key`; its account is that of [`batch`].
fn claim(number: u128, key: u8) -> Claim {
    Claim {
        account: AccountId(Uuid::from_u128(1)),
        digest: IdempotencyDigest([key; 32]),
        request: RequestId(Uuid::from_u128(number)),
        body: [0; 32],
    }
}

async fn outcome(store: &PostgresStore, claim: Claim) -> ClaimOutcome {
    store.claim(&[claim], WINDOW).await.unwrap()[0]
}

/// The record of a complete answer to the request of `claim`.
fn answered(claim: Claim) -> Arc<Vec<RequestRecord>> {
    let [record] = batch(0..1).try_into().unwrap();
    Arc::new(vec![RequestRecord { id: claim.request, idempotency: Some(claim.digest), ..record }])
}

#[tokio::test]
async fn one_of_several_gateways_gets_a_claim_until_it_ends() {
    let Some(database) = Database::create("claims").await else { return };
    let (one, two) = (database.open(1).await.unwrap(), database.open(2).await.unwrap());
    let (first, second) = (claim(1, 7), claim(2, 7));
    let claims = [claim(3, 9), first, claim(4, 8)];
    assert_eq!(one.claim(&claims, WINDOW).await.unwrap(), [ClaimOutcome::Claimed; 3]);
    let in_progress = ClaimOutcome::InProgress(first.request);
    let claims = [claim(5, 6), second];
    let outcomes = two.claim(&claims, WINDOW).await.unwrap();
    assert_eq!(outcomes, [ClaimOutcome::Claimed, in_progress]);
    let of_other = Claim { account: AccountId(Uuid::from_u128(2)), ..second };
    assert_eq!(outcome(&two, of_other).await, ClaimOutcome::Claimed);
    let with_other_body = Claim { body: [1; 32], ..claim(6, 7) };
    let reused = ClaimOutcome::KeyReused(first.request);
    assert_eq!(outcome(&two, with_other_body).await, reused);

    two.release_claims(&[second]).await.unwrap();
    assert_eq!(outcome(&two, second).await, in_progress, "it is not the holder's");
    one.release_claims(&[first]).await.unwrap();
    assert_eq!(outcome(&two, second).await, ClaimOutcome::Claimed);

    two.commit(answered(second)).await.unwrap();
    two.release_claims(&[second]).await.unwrap();
    let answered = ClaimOutcome::Answered(second.request);
    assert_eq!((outcome(&one, first).await, outcome(&two, first).await), (answered, answered));
    assert_eq!(outcome(&one, with_other_body).await, ClaimOutcome::KeyReused(second.request));
    two.leave().await.unwrap();
    two.close();
    database.remove(one).await;
}

#[tokio::test]
async fn a_process_replaces_its_unanswered_claims() {
    let Some(database) = Database::create("claims_of_one").await else { return };
    let first = database.open(1).await.unwrap();
    let other = database.open(2).await.unwrap();
    assert_eq!(outcome(&first, claim(1, 7)).await, ClaimOutcome::Claimed);
    assert_eq!(outcome(&first, claim(2, 7)).await, ClaimOutcome::Claimed);
    first.release_claims(&[claim(1, 7)]).await.unwrap();
    assert_eq!(outcome(&other, claim(3, 7)).await, ClaimOutcome::InProgress(claim(2, 7).request));

    let second = database.open(1).await.unwrap();
    let in_progress = ClaimOutcome::InProgress(claim(2, 7).request);
    assert_eq!(outcome(&second, claim(4, 7)).await, in_progress, "its journal is not replayed");
    second.release_earlier_claims().await.unwrap();
    assert_eq!(outcome(&other, claim(3, 7)).await, ClaimOutcome::Claimed);
    other.leave().await.unwrap();
    other.close();
    first.leave().await.unwrap();
    first.close();
    database.remove(second).await;
}

#[tokio::test]
async fn claims_of_silent_and_removed_gateways_end_and_so_do_old_ones() {
    let Some(database) = Database::create("claims_ended").await else { return };
    let (one, two) = (database.open(1).await.unwrap(), database.open(2).await.unwrap());
    let three = database.open(3).await.unwrap();
    for (store, key) in [(&one, 1), (&two, 2), (&three, 3), (&three, 4), (&one, 5)] {
        assert_eq!(outcome(store, claim(key.into(), key)).await, ClaimOutcome::Claimed);
    }
    three.commit(answered(claim(4, 4))).await.unwrap();
    let client = database.connect().await;
    let hear = "UPDATE nodes SET heard_at = now() - interval '61 s' WHERE name = 'node-1'";
    client.batch_execute(hear).await.unwrap();
    assert_eq!(outcome(&three, claim(11, 1)).await, ClaimOutcome::Claimed);
    two.leave().await.unwrap();
    two.close();
    let in_progress = ClaimOutcome::InProgress(claim(2, 2).request);
    assert_eq!(outcome(&three, claim(12, 2)).await, in_progress);
    let (name, entry) = (NodeName::new("node-2"), audit_entry("node-2"));
    three.remove_node(&name, NodeRemoval::Stopped, &entry).await.unwrap();
    assert_eq!(outcome(&three, claim(12, 2)).await, ClaimOutcome::Claimed);

    assert_eq!(three.delete_old_claims(WINDOW, 9).await.unwrap(), 0);
    let age = "UPDATE idempotency_claims SET claimed_at = now() - interval '11 min', \
        answered_at = answered_at - interval '11 min'";
    client.batch_execute(age).await.unwrap();
    assert_eq!(outcome(&three, claim(14, 4)).await, ClaimOutcome::Claimed);
    three.commit(answered(claim(14, 4))).await.unwrap();
    client.batch_execute(age).await.unwrap();
    assert_eq!(three.delete_old_claims(WINDOW, 1).await.unwrap(), 1);
    assert_eq!(three.delete_old_claims(WINDOW, 9).await.unwrap(), 1);
    let left = "SELECT count(*) FROM idempotency_claims";
    let left: i64 = client.query_one(left, &[]).await.unwrap().get(0);
    assert_eq!(left, 3, "those of requests that a gateway still serves");
    one.leave().await.unwrap();
    one.close();
    database.remove(three).await;
}

#[tokio::test]
async fn an_answer_is_kept_for_other_gateways_as_long_as_its_claim() {
    let Some(database) = Database::create("claims_answers").await else { return };
    let (one, two) = (database.open(1).await.unwrap(), database.open(2).await.unwrap());
    let (first, retry) = (claim(1, 7), claim(2, 7));
    assert_eq!(outcome(&one, first).await, ClaimOutcome::Claimed);
    let answer = StoredAnswer {
        stream: true,
        headers: vec![("content-type".to_owned(), "text/plain".to_owned())],
        body: vec![0, 255, 7].into(),
    };
    let found = AnswerLookup::Found(answer.clone());
    assert_eq!(two.find_answer(&retry, first.request).await.unwrap(), AnswerLookup::Gone);
    // The second one is of a request without a claim.
    let answers = [(first, answer.clone()), (claim(3, 8), answer.clone())];
    one.store_answers(&answers).await.unwrap();
    // It counts as answered before its record is stored, also if its gateway is lost.
    assert_eq!(outcome(&two, retry).await, ClaimOutcome::Answered(first.request));
    assert_eq!(two.find_answer(&retry, first.request).await.unwrap(), found);
    assert_eq!(
        two.find_answer(&retry, retry.request).await.unwrap(),
        AnswerLookup::Gone,
        "another request"
    );
    let with_other_body = Claim { body: [1; 32], ..retry };
    assert_eq!(two.find_answer(&with_other_body, first.request).await.unwrap(), AnswerLookup::Gone);
    one.commit(answered(first)).await.unwrap();
    assert_eq!(two.find_answer(&retry, first.request).await.unwrap(), found);
    let third = claim(4, 7);
    let client = database.connect().await;
    let age = "UPDATE idempotency_claims SET answered_at = answered_at - interval '11 min'";
    client.batch_execute(age).await.unwrap();
    assert_eq!(outcome(&two, retry).await, ClaimOutcome::Claimed);
    assert_eq!(two.find_answer(&retry, first.request).await.unwrap(), AnswerLookup::Gone);
    assert_eq!(
        two.find_answer(&retry, retry.request).await.unwrap(),
        AnswerLookup::Gone,
        "not the first's"
    );
    // An earlier version does not know the columns of answers.
    one.store_answers(&[(retry, answer)]).await.unwrap();
    let claim_again = format!("UPDATE idempotency_claims SET request = '{}'", third.request.0);
    client.batch_execute(&claim_again).await.unwrap();
    let found = two.find_answer(&retry, third.request).await.unwrap();
    assert!(!matches!(found, AnswerLookup::Found(_)), "{found:?}");
    // A moment after a record, its answer may follow.
    let silent = claim(5, 9);
    assert_eq!(outcome(&one, silent).await, ClaimOutcome::Claimed);
    one.commit(answered(silent)).await.unwrap();
    let age = format!(
        "UPDATE idempotency_claims SET answered_at = now() + interval '1 min' \
        WHERE request = '{}'",
        silent.request.0
    );
    client.batch_execute(&age).await.unwrap();
    let late = two.find_answer(&silent, silent.request).await.unwrap();
    assert_eq!(late, AnswerLookup::Pending);
    client.batch_execute(&age.replace('+', "-")).await.unwrap();
    let late = two.find_answer(&silent, silent.request).await.unwrap();
    assert_eq!(late, AnswerLookup::Gone);
    one.close();
    database.remove(two).await;
}
