//! Stored responses: found by their account only, in chains, by their items, and forgotten in time.

use uuid::Uuid;

use super::{ALICE, BOB, at, is_not_found};
use crate::domain::id::{AccountId, RequestId};
use crate::domain::response::StoredResponse;
use crate::store::Store;

const PLENTY: u64 = 1 << 20;

pub(super) async fn play(store: &dyn Store) {
    let first = response(1, ALICE, None, 10);
    let second = response(2, ALICE, Some(1), 20);
    let other = response(3, BOB, None, 30);
    let all = vec![first.clone(), second.clone(), other.clone()];
    store.keep_responses(all.clone(), PLENTY).await.unwrap();
    store.keep_responses(all, PLENTY).await.unwrap();

    belongs_to_its_account(store, &first).await;
    let chain = store.response_chain(ALICE, id(2), PLENTY).await.unwrap();
    assert_eq!(chain, [first.clone(), second.clone()]);
    let cut = store.response_chain(ALICE, id(2), 1).await.unwrap();
    assert_eq!(
        cut,
        std::slice::from_ref(&second),
        "a chain that is too long is not read to its end"
    );
    assert_eq!(store.response_chain(BOB, id(2), PLENTY).await.unwrap(), []);

    let items = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let found = store.responses_with_items(ALICE, items(&["in_2", "out_1", "out_2", "in_3"])).await;
    assert_eq!(found.unwrap(), [second.clone(), first.clone()]);

    forgets(store, &first, &second).await;
    store.remove_response(BOB, id(3)).await.unwrap();
    is_not_found(store.remove_response(BOB, id(3)).await);
}

async fn belongs_to_its_account(store: &dyn Store, response: &StoredResponse) {
    assert_eq!(store.find_response(ALICE, id(1)).await.unwrap().as_ref(), Some(response));
    assert_eq!(store.find_response(BOB, id(1)).await.unwrap(), None);
    is_not_found(store.remove_response(BOB, id(1)).await);
    assert_eq!(store.find_response(ALICE, id(9)).await.unwrap(), None);
}

async fn forgets(store: &dyn Store, first: &StoredResponse, second: &StoredResponse) {
    assert_eq!(store.forget_responses(at(15)).await.unwrap(), 0, "its chain goes on");
    let room_for_two = first.bytes() + second.bytes();
    let third = response(4, ALICE, None, 40);
    store.keep_responses(vec![third], room_for_two).await.unwrap();
    assert_eq!(store.find_response(ALICE, id(1)).await.unwrap(), None, "the oldest made room");
    assert_eq!(store.response_chain(ALICE, id(2), PLENTY).await.unwrap().len(), 1);
    assert!(store.find_response(BOB, id(3)).await.unwrap().is_some());
    assert_eq!(store.forget_responses(at(35)).await.unwrap(), 2);
    assert!(store.find_response(ALICE, id(4)).await.unwrap().is_some());
    let again = response(3, BOB, None, 30);
    store.keep_responses(vec![again], PLENTY).await.unwrap();
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
        object: format!(r#"{{"output":[{{"id":"out_{number}"}}]}}"#).into(),
        items: vec![format!("in_{number}"), format!("out_{number}")],
    }
}
