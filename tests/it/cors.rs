//! Web pages of configured origins may use the API.

use gateway::http::CorsOrigins;
use tests::http::Answer;
use tests::{Product, question};

const ORIGIN: &str = "https://app.example";

async fn product(cors: Option<CorsOrigins>) -> Product {
    Product::with(|setup| setup.config.cors = cors).await
}

fn listed() -> CorsOrigins {
    CorsOrigins::Listed(vec![ORIGIN.parse().unwrap()])
}

async fn preflight(product: &Product, origin: &str) -> Answer {
    let request = product.request(hyper::Method::OPTIONS, "/v1/chat/completions");
    let request = request.header("origin", origin);
    let request = request.header("access-control-request-method", "POST");
    let wanted = "authorization,content-type,x-stainless-os";
    request.header("access-control-request-headers", wanted).answer().await
}

#[tokio::test]
async fn a_page_of_a_listed_origin_may_use_the_api() {
    let product = product(Some(listed())).await;
    let answer = preflight(&product, ORIGIN).await;
    assert_eq!((answer.status, answer.text()), (204, ""));
    assert_eq!(answer.header("access-control-allow-origin"), ORIGIN);
    let wanted = "authorization,content-type,x-stainless-os";
    assert_eq!(answer.header("access-control-allow-headers"), wanted);
    assert!(answer.header("access-control-allow-methods").contains("POST"));
    assert_eq!(answer.header("vary"), "origin");

    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    for stream in [false, true] {
        let mut body = question("sim-chat", "hi");
        body["stream"] = stream.into();
        let answer = product.chat(&key, &body).header("origin", ORIGIN).answer().await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("access-control-allow-origin"), ORIGIN);
        assert!(answer.header("access-control-expose-headers").contains("x-request-id"));
    }
    let refused = product.chat("tg-wrong", &question("sim-chat", "hi"));
    let refused = refused.header("origin", ORIGIN).answer().await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("access-control-allow-origin"), ORIGIN, "the page sees why");
    assert_eq!(alice.records(2).await.len(), 2, "a preflight request has no record");
}

#[tokio::test]
async fn a_page_of_another_origin_may_not() {
    let product = product(Some(listed())).await;
    for origin in ["https://evil.example", "https://app.example.evil", "http://app.example", "null"]
    {
        let answer = preflight(&product, origin).await;
        assert_ne!(answer.status, 204, "{origin}");
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "{origin}");
        assert_eq!(answer.header("vary"), "origin");
    }
}

#[tokio::test]
async fn cors_is_off_unless_configured() {
    let off = product(None).await;
    let answer = preflight(&off, ORIGIN).await;
    assert_ne!(answer.status, 204);
    assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("access-control")));
    let any = product(Some(CorsOrigins::Any)).await;
    assert_eq!(preflight(&any, ORIGIN).await.header("access-control-allow-origin"), "*");
}
