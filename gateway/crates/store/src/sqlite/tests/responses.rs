//! Tests of stored responses with data of older versions.

use jiff::Timestamp;
use rusqlite::Connection;
use uuid::Uuid;

use super::{SqliteStore, temp_database};
use crate::Responses;
use domain::id::{AccountId, RequestId};
use domain::response::StoredResponse;

/// Older versions could put responses of several accounts into one conversation.
#[tokio::test]
async fn a_shared_conversation_is_evicted_by_account() {
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    let (alice, bob) = (AccountId(Uuid::from_u128(1)), AccountId(Uuid::from_u128(2)));
    let response = |number: u8, account| StoredResponse {
        id: RequestId(Uuid::from_u128(number.into())),
        account,
        previous: None,
        created_at: Timestamp::from_second(number.into()).unwrap(),
        input: "[]".into(),
        object: "{}".into(),
        items: Vec::new(),
    };
    let (first, second, third) = (response(1, alice), response(2, bob), response(3, bob));
    store.keep_responses(vec![first.clone(), second.clone()], 99).await.unwrap();
    Connection::open(&path)
        .unwrap()
        .execute("UPDATE responses SET conversation = zeroblob(16)", [])
        .unwrap();
    store.keep_responses(vec![third.clone()], third.bytes()).await.unwrap();
    assert_eq!(store.find_response(alice, first.id).await.unwrap(), Some(first));
    assert_eq!(store.find_response(bob, second.id).await.unwrap(), None);
    assert_eq!(store.find_response(bob, third.id).await.unwrap(), Some(third));
}
