//! Following the log: history, then live records, resumed without loss or repetition.

use proto::v1;
use tests::{Product, Session, question, with_timeout};
use tonic::Streaming;

async fn follow(
    caller: &Session,
    request: v1::TailRequestsRequest,
) -> Streaming<v1::TailRequestsResponse> {
    caller.usage().tail_requests(request).await.unwrap().into_inner()
}

async fn next(tail: &mut Streaming<v1::TailRequestsResponse>) -> v1::TailRequestsResponse {
    with_timeout("update", tail.message()).await.unwrap().unwrap()
}

fn ids(update: &v1::TailRequestsResponse) -> Vec<String> {
    update.requests.iter().map(|record| record.id.clone()).collect()
}

/// Sends a request and returns its id.
async fn send_request(product: &Product, key: &str) -> String {
    let answer = product.chat(key, &question("sim-chat", "hi")).answer().await;
    answer.header("x-request-id").to_owned()
}

#[tokio::test]
async fn history_precedes_live_records() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let mut asked = Vec::new();
    for _ in 0..3 {
        asked.push(send_request(&product, &key).await);
    }
    alice.records(3).await;
    let request = v1::TailRequestsRequest { history: 2, ..Default::default() };
    let mut tail = follow(&alice, request).await;
    let history = next(&mut tail).await;
    assert_eq!((ids(&history), history.live), (asked[1..].to_vec(), false));
    let announced = next(&mut tail).await;
    assert_eq!((ids(&announced).len(), announced.live), (0, true));
    let fresh = send_request(&product, &key).await;
    let update = next(&mut tail).await;
    assert_eq!((ids(&update), update.live, update.dropped), (vec![fresh], true, 0));
}

#[tokio::test]
async fn a_cursor_resumes_without_loss_or_repetition_after_a_restart() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let mut asked = Vec::new();
    for _ in 0..6 {
        asked.push(send_request(&product, &key).await);
    }
    alice.records(6).await;
    let mut seen = Vec::new();
    let request = v1::TailRequestsRequest { history: 3, ..Default::default() };
    let history = next(&mut follow(&alice, request).await).await;
    seen.extend(ids(&history));
    assert_eq!(seen, asked[3..]);

    for _ in 0..3 {
        asked.push(send_request(&product, &key).await);
    }
    alice.records(9).await;
    let product = product.stop().await.start().await;
    let alice = Session::sign_in(&product.admin, "alice").await;
    let mut cursor = history.cursor;
    // a watcher that is cut off after each message
    while seen.len() < 6 {
        let request = v1::TailRequestsRequest { cursor: cursor.clone(), ..Default::default() };
        let update = next(&mut follow(&alice, request).await).await;
        seen.extend(ids(&update));
        cursor = update.cursor;
    }
    assert_eq!(seen, asked[3..]);
    let request = v1::TailRequestsRequest { cursor, ..Default::default() };
    let mut tail = follow(&alice, request).await;
    assert!(next(&mut tail).await.live, "the history is exhausted");
    let key = alice.key().await.secret;
    let fresh = send_request(&product, &key).await;
    assert_eq!(ids(&next(&mut tail).await), [fresh]);
}

#[tokio::test]
async fn a_filter_applies_to_the_tail() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let mut filter = v1::RequestFilter::default();
    filter.set_status(v1::RequestStatus::Rejected);
    let request =
        v1::TailRequestsRequest { filter: Some(filter), history: 10, ..Default::default() };
    let mut tail = follow(&alice, request).await;
    assert!(next(&mut tail).await.live);
    send_request(&product, &key).await;
    let refused = product.chat(&key, &question("gpt-9", "hi")).answer().await;
    let update = next(&mut tail).await;
    assert_eq!(ids(&update), [refused.header("x-request-id")]);
}

#[tokio::test]
async fn pages_contain_every_record_once_newest_first() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let mut asked = Vec::new();
    for _ in 0..5 {
        asked.push(send_request(&product, &key).await);
    }
    alice.records(5).await;
    let (mut seen, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListRequestsRequest { page_size: 2, page_token, ..Default::default() };
        let page = alice.usage().list_requests(request).await.unwrap().into_inner();
        seen.extend(page.requests.into_iter().map(|record| record.id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    asked.reverse();
    assert_eq!(seen, asked);
}

#[tokio::test]
async fn a_summary_equals_the_sum_of_the_records() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    send_request(&product, &key).await;
    send_request(&product, &key).await;
    product.chat(&key, &question("gpt-9", "hi")).answer().await;
    let records = alice.records(3).await;
    let request = v1::SummarizeUsageRequest::default();
    let summary = alice.usage().summarize_usage(request).await.unwrap().into_inner();
    let totals = summary.totals.unwrap();
    assert_eq!((totals.requests, totals.errors), (3, 1));
    let sum = |of: fn(&v1::TokenCounts) -> Option<u64>| -> u64 {
        records.iter().filter_map(|record| of(record.tokens.as_ref()?)).sum()
    };
    let tokens = totals.tokens.unwrap();
    assert_eq!(
        (tokens.input, tokens.output),
        (Some(sum(|it| it.input)), Some(sum(|it| it.output)))
    );
    let chat = summary.by_model.iter().find(|it| it.model == "sim-chat").unwrap();
    assert_eq!(chat.totals.as_ref().unwrap().requests, 2);
}
