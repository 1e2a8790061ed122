//! Filter expressions: they select the same requests in every view of the log, and sums cover
//! exactly these.

use proto::v1;
use serde_json::json;
use tests::{Product, Session, question};
use tonic::{Code, Status};

fn filter(expression: &str) -> v1::RequestFilter {
    v1::RequestFilter { expression: expression.to_owned(), ..Default::default() }
}

/// Returns the ids of the selected requests, oldest first, and checks that all views agree.
async fn selected_ids(caller: &Session, expression: &str) -> Result<Vec<String>, Status> {
    let ids = |records: Vec<v1::RequestRecord>| records.into_iter().map(|record| record.id);
    let request = v1::ListRequestsRequest {
        filter: Some(filter(expression)),
        page_size: 1_000,
        ..Default::default()
    };
    let listed = caller.usage().list_requests(request).await?.into_inner().requests;
    let listed: Vec<_> = ids(listed).rev().collect();

    let request = v1::ExportRequestsRequest { filter: Some(filter(expression)) };
    let mut pages = caller.usage().export_requests(request).await?.into_inner();
    let mut exported = Vec::new();
    while let Some(page) = pages.message().await? {
        exported.extend(ids(page.requests));
    }
    assert_eq!(exported, listed, "{expression}");

    let request = v1::TailRequestsRequest {
        filter: Some(filter(expression)),
        history: 1_000,
        ..Default::default()
    };
    let mut tail = caller.usage().tail_requests(request).await?.into_inner();
    let mut tailed = Vec::new();
    loop {
        let update = tail.message().await?.unwrap();
        tailed.extend(ids(update.requests));
        if update.live {
            break;
        }
    }
    assert_eq!(tailed, listed, "{expression}");

    let sums = summary(caller, expression).await?;
    assert_eq!(sums.totals.unwrap().requests, listed.len() as u64, "{expression}");
    let by_key: u64 = sums.by_key.iter().map(|sum| sum.totals.as_ref().unwrap().requests).sum();
    assert_eq!(by_key, listed.len() as u64, "{expression}");
    Ok(listed)
}

async fn summary(caller: &Session, expression: &str) -> Result<v1::SummarizeUsageResponse, Status> {
    let request =
        v1::SummarizeUsageRequest { filter: Some(filter(expression)), models_by_time: false };
    Ok(caller.usage().summarize_usage(request).await?.into_inner())
}

#[tokio::test]
async fn every_view_of_the_log_accepts_the_same_expressions() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await;
    let mut streamed = question("sim-chat", "hi");
    streamed["stream"] = json!(true);
    let mut asked = Vec::new();
    for body in [question("sim-chat", "hi"), streamed, question("gpt-9", "hi")] {
        let answer = product.chat(&key.secret, &body).answer().await;
        asked.push(answer.header("x-request-id").to_owned());
    }
    alice.records(3).await;
    let cases: [(&str, &[usize]); 18] = [
        ("", &[0, 1, 2]),
        ("model:sim-chat", &[0, 1]),
        ("model:sim-chat,gpt-9 stream:no", &[0, 2]),
        ("-model:sim-chat", &[2]),
        ("status:completed", &[0, 1]),
        ("-status:completed,failed", &[2]),
        ("error:model_not_found", &[2]),
        ("-error:model_not_found", &[0, 1]),
        ("endpoint:chat.completions", &[0, 1, 2]),
        ("endpoint:responses", &[]),
        ("stream:yes", &[1]),
        ("cost>0", &[0, 1]),
        ("cost<0.0001 tokens>1", &[0, 1]),
        ("-tokens>1", &[2]),
        ("duration<1h -ttft>1h", &[0, 1, 2]),
        ("since:1h", &[0, 1, 2]),
        ("until:1h", &[]),
        ("account:alice", &[0, 1, 2]),
    ];
    let operator = product.operator().await;
    for (expression, expected) in cases {
        let expected: Vec<_> = expected.iter().map(|index| asked[*index].clone()).collect();
        for caller in [&alice, &operator] {
            assert_eq!(selected_ids(caller, expression).await.unwrap(), expected, "{expression}");
        }
    }
    let of_key = format!("key:{},other", key.id);
    assert_eq!(selected_ids(&operator, &of_key).await.unwrap(), asked);
}

#[tokio::test]
async fn an_invalid_expression_is_refused_with_its_position() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let refused = |status: Status| {
        assert_eq!(status.code(), Code::InvalidArgument);
        let position =
            "in `filter.expression`, characters 17 to 20: `dune` is no status; it is one of";
        assert!(status.message().starts_with(position), "{}", status.message());
    };
    let expression = "model:a -status:dune";
    let request =
        v1::ListRequestsRequest { filter: Some(filter(expression)), ..Default::default() };
    refused(alice.usage().list_requests(request).await.unwrap_err());
    let request =
        v1::TailRequestsRequest { filter: Some(filter(expression)), ..Default::default() };
    refused(alice.usage().tail_requests(request).await.unwrap_err());
    let request = v1::ExportRequestsRequest { filter: Some(filter(expression)) };
    refused(alice.usage().export_requests(request).await.unwrap_err());
    refused(summary(&alice, expression).await.unwrap_err());
}

#[tokio::test]
async fn a_members_expression_never_selects_requests_of_another_account() {
    let product = Product::start().await;
    let (alice, bob) = (product.member("alice").await, product.member("bob").await);
    let key = alice.key().await;
    product.chat(&key.secret, &question("sim-chat", "hi")).answer().await;
    alice.records(1).await;
    let hidden = selected_ids(&bob, "account:alice").await.unwrap_err();
    let missing = selected_ids(&bob, "account:nobody").await.unwrap_err();
    assert_eq!((hidden.code(), missing.code()), (Code::NotFound, Code::NotFound));
    assert_eq!(hidden.message().replace("alice", "nobody"), missing.message());
    for expression in ["-account:bob", &format!("key:{}", key.id), "-model:x", "cost>0"] {
        assert_eq!(
            selected_ids(&bob, expression).await.unwrap(),
            Vec::<String>::new(),
            "{expression}"
        );
    }
    assert_eq!(selected_ids(&product.operator().await, "-account:bob").await.unwrap().len(), 1);
}

#[tokio::test]
async fn sums_by_key_include_its_label_and_account() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let laptop = alice.key_with(|key| key.label = "laptop".into()).await;
    let server = alice.key_with(|key| key.label = "server".into()).await;
    for key in [&laptop, &server, &server] {
        product.chat(&key.secret, &question("sim-chat", "hi")).answer().await;
    }
    alice.records(3).await;
    for caller in [&alice, &product.operator().await] {
        let sums = summary(caller, "").await.unwrap().by_key;
        let rows = sums.iter().map(|sum| {
            let requests = sum.totals.as_ref().unwrap().requests;
            (sum.key.as_str(), sum.label.as_str(), sum.account.as_str(), requests)
        });
        let expected = [
            (server.id.as_str(), "server", "alice", 2),
            (laptop.id.as_str(), "laptop", "alice", 1),
        ];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }
}
