//! Stored responses: isolation of accounts, chains, items, and deletion.

use std::collections::HashSet;

use uuid::Uuid;

use super::{ALICE, BOB, at, expect_not_found};
use crate::Store;
use domain::id::{AccountId, RequestId};
use domain::response::{StoredResponse, Turn, item_id};

const LARGE: u64 = 1 << 20;

pub(super) async fn run(store: &dyn Store) {
    let first = response(1, ALICE, None, 10);
    let second = response(2, ALICE, Some(1), 20);
    let other = response(3, BOB, None, 30);
    let all = vec![first.clone(), second.clone(), other.clone()];
    store.keep_responses(all.clone(), LARGE).await.unwrap();
    store.keep_responses(all, LARGE).await.unwrap();

    responses_are_isolated_by_account(store, &first).await;
    let chain = store.response_chain(ALICE, id(2), LARGE).await.unwrap();
    assert_eq!(item_ids(&chain), ["in_1 out_1", "in_2 out_2"]);
    assert_eq!(chain.iter().map(|turn| turn.previous).collect::<Vec<_>>(), [None, Some(id(1))]);
    let just_one = store.response_chain(ALICE, id(2), chain[1].bytes()).await.unwrap();
    assert_eq!(
        item_ids(&just_one),
        ["in_1 out_1", "in_2 out_2"],
        "includes the response that exceeds the limit"
    );
    let cut = store.response_chain(ALICE, id(2), chain[1].bytes() - 1).await.unwrap();
    assert_eq!(item_ids(&cut), ["in_2 out_2"], "stops after the limit");
    assert!(store.response_chain(BOB, id(2), LARGE).await.unwrap().is_empty());
    finds_items(store).await;

    old_responses_are_deleted(store, &first, &second).await;
    store.remove_response(BOB, id(3)).await.unwrap();
    expect_not_found(store.remove_response(BOB, id(3)).await);
    other_accounts_are_not_evicted(store).await;
    newest_items_are_found_first(store).await;
}

/// A response may name a predecessor of another account, but does not join its conversation.
async fn other_accounts_are_not_evicted(store: &dyn Store) {
    let kept = response(31, ALICE, None, 80);
    let foreign = response(32, BOB, Some(31), 81);
    store.keep_responses(vec![kept, foreign.clone()], LARGE).await.unwrap();
    let next = response(33, BOB, None, 82);
    store.keep_responses(vec![next], foreign.bytes()).await.unwrap();
    assert_eq!(store.find_response(BOB, id(32)).await.unwrap(), None);
    assert!(store.find_response(ALICE, id(31)).await.unwrap().is_some());
    store.remove_response(BOB, id(33)).await.unwrap();
}

async fn newest_items_are_found_first(store: &dyn Store) {
    let numbers = 41..=56;
    let responses = numbers.clone().map(|number| response(number, BOB, None, 90));
    store.keep_responses(responses.collect(), LARGE).await.unwrap();
    let wanted: HashSet<_> = numbers.clone().map(|number| format!("out_{number}")).collect();
    let found = store.find_items(BOB, wanted, 0).await.unwrap().into_map();
    assert_eq!(found.into_keys().collect::<Vec<_>>(), ["out_56"]);
    for number in numbers {
        store.remove_response(BOB, id(number)).await.unwrap();
    }
}

async fn responses_are_isolated_by_account(store: &dyn Store, response: &StoredResponse) {
    assert_eq!(store.find_response(ALICE, id(1)).await.unwrap().as_ref(), Some(response));
    assert_eq!(store.find_response(BOB, id(1)).await.unwrap(), None);
    expect_not_found(store.remove_response(BOB, id(1)).await);
    assert_eq!(store.find_response(ALICE, id(9)).await.unwrap(), None);
}

async fn finds_items(store: &dyn Store) {
    let ids = |names: &[&str]| names.iter().map(ToString::to_string).collect::<HashSet<_>>();
    let wanted = ids(&["in_2", "out_1", "out_2", "in_3", "nothing"]);
    let found = store.find_items(ALICE, wanted.clone(), LARGE).await.unwrap();
    let longest = r#"{"id":"out_2"}"#.len() as u64;
    assert_eq!(found.bytes(), 3 * longest - 1, "only requested items count");
    let found = found.into_map();
    assert_eq!(found.keys().cloned().collect::<HashSet<_>>(), ids(&["in_2", "out_1", "out_2"]));
    assert_eq!(found["out_1"].get(), r#"{"id":"out_1"}"#);
    let one_response = store.find_items(ALICE, wanted, longest - 1).await.unwrap();
    assert!(one_response.into_map().len() < 3, "no response is read past the limit");
}

async fn old_responses_are_deleted(
    store: &dyn Store,
    first: &StoredResponse,
    second: &StoredResponse,
) {
    let expect_remaining = async |numbers: &[u128]| {
        for number in 1..=9 {
            let found = store.find_response(ALICE, id(number)).await.unwrap();
            assert_eq!(found.is_some(), numbers.contains(&number), "{number}");
        }
    };
    let lone = response(5, ALICE, None, 15);
    store.keep_responses(vec![lone], LARGE).await.unwrap();
    assert_eq!(store.delete_old_responses(at(12), 9).await.unwrap(), 0, "its chain was continued");

    // `first` is the oldest response, but its chain was continued after `lone`.
    let room_for_three = first.bytes() * 2 + second.bytes();
    let third = response(4, ALICE, None, 40);
    store.keep_responses(vec![third], room_for_three).await.unwrap();
    expect_remaining(&[1, 2, 4]).await;
    let fourth = response(6, ALICE, Some(4), 50);
    store.keep_responses(vec![fourth], room_for_three).await.unwrap();
    expect_remaining(&[4, 6]).await;
    assert!(
        store.find_response(BOB, id(3)).await.unwrap().is_some(),
        "other accounts are not affected"
    );

    // Only its own chain is left to delete from.
    let fifth = response(7, ALICE, Some(6), 60);
    store.keep_responses(vec![fifth], first.bytes() * 2).await.unwrap();
    expect_remaining(&[6, 7]).await;
    let larger_than_all = response(8, ALICE, Some(7), 70);
    store.keep_responses(vec![larger_than_all], 1).await.unwrap();
    expect_remaining(&[8]).await;

    let chain = [(11, None, 28), (12, Some(11), 29), (13, Some(12), 30)];
    let chain = chain.map(|(number, previous, minute)| response(number, BOB, previous, minute));
    store.keep_responses(chain.to_vec(), LARGE).await.unwrap();
    assert_eq!(
        store.delete_old_responses(at(30), 9).await.unwrap(),
        0,
        "the newest of the chain is not old"
    );
    assert_eq!(store.delete_old_responses(at(35), 3).await.unwrap(), 3, "at most the limit");
    assert_eq!(store.delete_old_responses(at(35), 3).await.unwrap(), 1);
    assert_eq!(store.delete_old_responses(at(35), 3).await.unwrap(), 0);
    expect_remaining(&[8]).await;
    let again = response(3, BOB, None, 30);
    store.keep_responses(vec![again], LARGE).await.unwrap();
}

/// Returns the ids of the items of each turn.
fn item_ids(chain: &[Turn]) -> Vec<String> {
    let ids = |turn: &Turn| turn.items.iter().filter_map(|item| item_id(item)).collect::<Vec<_>>();
    chain.iter().map(|turn| ids(turn).join(" ")).collect()
}

fn id(number: u128) -> RequestId {
    RequestId(Uuid::from_u128(number))
}

fn response(
    number: u128,
    account: AccountId,
    previous: Option<u128>,
    minute: i64,
) -> StoredResponse {
    StoredResponse {
        id: id(number),
        account,
        previous: previous.map(id),
        created_at: at(minute),
        input: format!(r#"[{{"id":"in_{number}"}}]"#).into(),
        // The instructions are a part of the response, but not of the conversation.
        object: format!(
            r#"{{"instructions":"{}","output":[{{"id":"out_{number}"}}]}}"#,
            "x".repeat(99)
        )
        .into(),
        items: vec![format!("in_{number}"), format!("out_{number}")],
    }
}
