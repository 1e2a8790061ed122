//! Stored responses are found within limits, and written while the store works.

use std::time::Duration;

use jiff::Timestamp;
use tempfile::TempDir;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::subscriber::set_default;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use uuid::Uuid;

use super::*;
use store::Responses as _;
use store::sqlite::SqliteStore;

const ALICE: AccountId = AccountId(Uuid::from_u128(0xa11ce));
const PLENTY: u64 = 1 << 20;
const A_DAY: i64 = 24 * 60 * 60;

/// Counts errors in the log.
struct Errors(Arc<AtomicU64>);

impl<S: Subscriber> Layer<S> for Errors {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == Level::ERROR {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Bench {
    _dir: TempDir,
    store: Arc<SqliteStore>,
    responses: Arc<ResponseStore>,
    task: ResponseStoreTask,
}

fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(&dir.path().join("gateway.db")).unwrap());
    let (responses, task) = ResponseStore::new(store.clone(), Arc::default(), None);
    Bench { _dir: dir, store, responses, task }
}

fn id(number: u128) -> RequestId {
    RequestId(Uuid::from_u128(number))
}

/// A response of a minute ago with one item on either side, and a long echo.
fn response(number: u128, previous: Option<u128>, ids: [&str; 2]) -> StoredResponse {
    let item = |id: &str| serde_json::json!({ "id": id, "of": number }).to_string();
    let [sent, answered] = ids.map(item);
    let echo = "x".repeat(10_000);
    StoredResponse {
        id: id(number),
        account: ALICE,
        previous: previous.map(id),
        created_at: Timestamp::from_second(A_DAY - 60).unwrap(),
        input: format!("[{sent}]").into(),
        object: format!(r#"{{"instructions":"{echo}","output":[{answered}]}}"#).into(),
        items: ids.map(str::to_owned).to_vec(),
    }
}

fn owned(ids: &[&str]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn items_are_found_on_their_way_to_the_store_and_there() {
    let bench = bench();
    let old = response(1, None, ["a\"b", "c"]);
    bench.store.keep_responses(vec![old], PLENTY).await.unwrap();
    bench.responses.keep(response(2, None, ["c", "d"]));
    bench.responses.keep(response(3, None, ["c", "e"]));
    let wanted = owned(&["c", "a\"b", "c", "d", "nobody"]);
    let found = bench.responses.items(ALICE, wanted, PLENTY).await.unwrap();
    let mut found: Vec<_> = found.iter().map(|(id, item)| (id.as_str(), item.get())).collect();
    found.sort_unstable();
    let expected = [
        ("a\"b", r#"{"id":"a\"b","of":1}"#),
        ("c", r#"{"id":"c","of":3}"#),
        ("d", r#"{"id":"d","of":2}"#),
    ];
    assert_eq!(found, expected, "each once, of the newest that has it");
    let nobody =
        bench.responses.items(AccountId(Uuid::nil()), owned(&["c"]), PLENTY).await.unwrap();
    assert!(nobody.is_empty());
}

/// There was no limit, and each id was looked for among all others.
#[tokio::test]
async fn items_are_limited_in_number_and_length() {
    let bench = bench();
    bench.store.keep_responses(vec![response(1, None, ["a", "b"])], PLENTY).await.unwrap();
    bench.responses.keep(response(2, None, ["c", "d"]));
    let item = r#"{"id":"a","of":1}"#.len() as u64;
    let check = async |ids: Vec<String>, max_bytes, expected: Result<usize, Limit>| {
        let found = match bench.responses.items(ALICE, ids, max_bytes).await {
            Ok(items) => Ok(items.len()),
            Err(ResponseStoreError::TooLong(limit)) => Err(limit),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(found, expected);
    };
    check(owned(&["a", "c", "a", "c"]), 2 * item, Ok(2)).await;
    check(owned(&["a", "c"]), 2 * item - 1, Err(Limit::Bytes(2 * item - 1))).await;
    check(owned(&["c", "d"]), item, Err(Limit::Bytes(item))).await;
    check(owned(&["a"]), item - 1, Err(Limit::Bytes(item - 1))).await;
    let many =
        |count: usize| (0..count).map(|number| format!("bogus_{number}")).collect::<Vec<_>>();
    check(many(MAX_ITEMS), PLENTY, Ok(0)).await;
    check(vec!["a".to_owned(); MAX_ITEMS + 1], PLENTY, Ok(1)).await;
    check(many(MAX_ITEMS + 1), PLENTY, Err(Limit::Items(MAX_ITEMS))).await;
}

/// What a response repeats of its request was counted, too.
#[tokio::test]
async fn a_chain_is_as_long_as_its_items() {
    let bench = bench();
    let stored = vec![response(1, None, ["a", "b"]), response(2, Some(1), ["c", "d"])];
    bench.store.keep_responses(stored, PLENTY).await.unwrap();
    bench.responses.keep(response(3, Some(2), ["e", "f"]));
    let length = 6 * r#"{"id":"a","of":1}"#.len() as u64;
    let chain = bench.responses.chain(ALICE, id(3), length).await.unwrap();
    let ids: Vec<_> = chain.iter().filter_map(|item| item_id(item)).collect();
    assert_eq!(ids.concat(), "abcdef");
    for less in [length - 1, 1] {
        match bench.responses.chain(ALICE, id(3), less).await {
            Err(error @ ResponseStoreError::TooLong(Limit::Bytes(limit))) => {
                assert_eq!(limit, less);
                assert_eq!(
                    error.to_string(),
                    format!("the conversation is longer than {less} bytes")
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Each attempt was logged, four per second.
#[tokio::test(start_paused = true)]
async fn a_failing_store_is_not_logged_with_each_attempt() {
    let Bench { _dir, store, responses, task } = bench();
    store.close().await;
    let count = Arc::new(AtomicU64::new(0));
    let _logs = set_default(tracing_subscriber::registry().with(Errors(count.clone())));
    responses.keep(response(1, None, ["a", "b"]));
    let stopped = timeout(Duration::from_secs(29), task.run(CancellationToken::new())).await;
    assert!(stopped.is_err(), "responses are not given up before a shutdown");
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

/// Regression test: one long response that waited to be written had those of all accounts refused.
#[tokio::test]
async fn what_one_account_stores_does_not_keep_others_from_it() {
    let Bench { _dir, responses, .. } = bench();
    let bob = AccountId(Uuid::from_u128(77));
    let long = || "x".repeat(usize::try_from(WAITING_BYTES).unwrap() + 1).into();
    assert!(!responses.is_behind(ALICE));
    responses.keep(StoredResponse { input: long(), ..response(1, None, ["a", "b"]) });
    assert_eq!([ALICE, bob].map(|account| responses.is_behind(account)), [true, false]);
    for number in 2..5 {
        let account = AccountId(Uuid::from_u128(number));
        responses.keep(StoredResponse {
            account,
            input: long(),
            ..response(number, None, ["a", "b"])
        });
    }
    assert!(responses.is_behind(bob), "there is a bound for all");
}
