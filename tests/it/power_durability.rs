//! `durability = "power"`: every commit waits for the disk; everything else is the same.

use domain::durability::Durability;
use proto::v1::RequestStatus;
use serde_json::json;
use tests::{Product, Session, question};

async fn product() -> Product {
    Product::with(|setup| setup.config.durability = Durability::Power).await
}

#[tokio::test]
async fn all_kinds_of_requests_complete_and_are_recorded() {
    let product = product().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let mut expected = Vec::new();
    for (path, stream, text, status) in [
        ("/v1/chat/completions", false, "hi", RequestStatus::Completed),
        ("/v1/chat/completions", true, "hi", RequestStatus::Completed),
        ("/v1/responses", false, "hi", RequestStatus::Completed),
        ("/v1/responses", true, "hi", RequestStatus::Completed),
        ("/v1/chat/completions", true, "hi [sim cut=2]", RequestStatus::Failed),
        ("/v1/responses", true, "hi [sim cut=2]", RequestStatus::Failed),
        ("/v1/chat/completions", false, "hi [sim status=500]", RequestStatus::Failed),
    ] {
        let mut body = question("sim-chat", text);
        if path == "/v1/responses" {
            body = json!({ "model": "sim-chat", "input": text });
        }
        body["stream"] = json!(stream);
        let answer = product.post(path).bearer(&key).json(&body).answer().await;
        let failed =
            ["{\"error\":{", "response.failed"].iter().any(|it| answer.text().contains(it));
        assert_eq!(failed, status == RequestStatus::Failed, "{answer:?}");
        expected.push((answer.header("x-request-id").to_owned(), status));
    }
    let refused = product.chat(&key, &question("no-such-model", "hi")).answer().await;
    expected.push((refused.header("x-request-id").to_owned(), RequestStatus::Rejected));
    let records = alice.records(expected.len()).await;
    let mut recorded: Vec<_> = records.iter().map(|it| (it.id.clone(), it.status())).collect();
    recorded.sort();
    expected.sort();
    assert_eq!(recorded, expected);
}

#[tokio::test]
async fn concurrent_requests_share_disk_flushes_and_survive_a_restart() {
    let product = product().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let statuses = product.ask_at_once(&key, "sim-chat", 200).await;
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    let balance = alice.account().await.balance_usd;
    let product = product.stop().await.start().await;
    let alice = Session::sign_in(&product.admin, "alice").await;
    assert_eq!(alice.records(200).await.len(), 200);
    assert_eq!(alice.account().await.balance_usd, balance);
}
