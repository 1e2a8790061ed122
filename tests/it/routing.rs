//! How requests are spread over the deployments of a model, and how operators see it.

use std::collections::HashSet;
use std::time::Duration;

use proto::v1::{self, Routing};
use serde_json::{Value, json};
use tests::{ManualClock, Product, RawUpstream, Session, json_answer, question};

/// The upstreams of the model `asked`.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Deploys the model `asked` with equal weights on the simulator, three times.
async fn serve(product: &Product, routing: Routing) {
    let operator = product.operator().await;
    let deployments = NAMES.map(|name| v1::Deployment {
        upstream: name.to_owned(),
        upstream_model: "sim-chat".to_owned(),
        weight: 1,
        priority: 0,
    });
    for name in NAMES {
        let (name, url) = (name.to_owned(), product.simulator_url().to_owned());
        operator.add_upstream(v1::Upstream { name, url, ..Default::default() }).await;
    }
    let model = v1::Model {
        id: "asked".to_owned(),
        deployments: deployments.to_vec(),
        routing: routing.into(),
        ..Default::default()
    };
    operator.add_model(model).await;
}

async fn explain(operator: &Session, cache_key: Option<&str>) -> v1::ExplainRouteResponse {
    let request = v1::ExplainRouteRequest {
        model: "asked".to_owned(),
        prompt_cache_key: cache_key.map(str::to_owned),
    };
    operator.models().explain_route(request).await.unwrap().into_inner()
}

fn upstreams(route: &v1::ExplainRouteResponse) -> Vec<&str> {
    route.steps.iter().map(|step| step.deployment.as_ref().unwrap().upstream.as_str()).collect()
}

/// Sends requests to `path` with a new key of a member, and returns the upstreams that served them. `sent` counts
/// the member's requests.
async fn serving(
    product: &Product,
    member: &Session,
    path: &str,
    bodies: impl IntoIterator<Item = Value>,
    sent: &mut usize,
) -> Vec<String> {
    let key = member.key().await;
    for body in bodies {
        let answer = product.post(path).bearer(&key.secret).json(&body).answer().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        *sent += 1;
    }
    let records = member.records(*sent).await;
    let upstream = |it: &v1::RequestRecord| {
        it.deployment.as_deref().unwrap().split('/').next().unwrap().to_owned()
    };
    records.iter().filter(|record| record.key == key.id).map(upstream).collect()
}

/// Returns the turns of a conversation that begins with `text`, as chat requests.
fn conversation(text: &str) -> Vec<Value> {
    let mut messages = vec![
        json!({ "role": "system", "content": "be brief" }),
        json!({ "role": "user", "content": text }),
    ];
    (0..4)
        .map(|turn| {
            let body = json!({ "model": "asked", "messages": messages });
            messages.push(json!({ "role": "assistant", "content": "answer" }));
            messages.push(json!({ "role": "user", "content": format!("and {turn}?") }));
            body
        })
        .collect()
}

#[tokio::test]
async fn a_conversation_is_sent_to_the_deployment_that_has_it_cached() {
    let product = Product::start().await;
    serve(&product, Routing::PrefixAffinity).await;
    let alice = product.member("alice").await;
    let (mut used, mut sent) = (HashSet::new(), 0);
    for index in 0..12 {
        let turns = conversation(&format!("question {index}"));
        let served = serving(&product, &alice, "/v1/chat/completions", turns, &mut sent).await;
        assert_eq!(served.len(), 4);
        assert_eq!(served.iter().collect::<HashSet<_>>().len(), 1, "{served:?}");
        used.extend(served);
    }
    assert_eq!(used.len(), NAMES.len(), "conversations are spread");
}

#[tokio::test]
async fn a_named_conversation_is_sent_where_the_explanation_says() {
    let product = Product::start().await;
    let operator = product.operator().await;
    serve(&product, Routing::PrefixAffinity).await;
    let alice = product.member("alice").await;
    let (mut used, mut sent) = (HashSet::new(), 0);
    for index in 0..12 {
        let cache_key = format!("conversation-{index}");
        let route = explain(&operator, Some(&cache_key)).await;
        let first = upstreams(&route)[0].to_owned();
        let shares: Vec<_> = route.steps.iter().map(|step| step.first_percent).collect();
        assert_eq!(shares, [Some(100.0), Some(0.0), Some(0.0)]);
        let chat = (0..2).map(|turn| {
            let mut body = question("asked", &format!("turn {turn}"));
            body["prompt_cache_key"] = json!(cache_key);
            body
        });
        let served = serving(&product, &alice, "/v1/chat/completions", chat, &mut sent).await;
        assert_eq!(served, [first.clone(), first.clone()]);
        let responses = (0..2).map(|turn| {
            let input = format!("turn {turn}");
            json!({ "model": "asked", "input": input, "prompt_cache_key": cache_key })
        });
        let served = serving(&product, &alice, "/v1/responses", responses, &mut sent).await;
        assert_eq!(served, [first.clone(), first.clone()]);
        used.insert(first);
    }
    assert_eq!(used.len(), NAMES.len());
}

#[tokio::test]
async fn a_busy_deployment_gets_no_requests_while_another_is_idle() {
    let product = Product::start().await;
    let operator = product.operator().await;
    let (one, other) = (RawUpstream::start().await, RawUpstream::start().await);
    operator.add_model_on("asked", &[&one.url, &other.url]).await;
    let deployments = ["up-asked-0", "up-asked-1"].map(|upstream| v1::Deployment {
        upstream: upstream.to_owned(),
        upstream_model: "m".to_owned(),
        weight: 1,
        priority: 0,
    });
    let update = v1::UpdateModelRequest {
        id: "asked".to_owned(),
        deployments: Some(v1::DeploymentList { deployments: deployments.to_vec() }),
        routing: Some(Routing::LeastLoaded.into()),
        ..Default::default()
    };
    operator.models().update_model(update).await.unwrap();
    let key = product.member("alice").await.key().await.secret;
    let held = product.chat(&key, &question("asked", "hold")).answer();
    tokio::pin!(held);
    // One request waits at one upstream; all others go to the other one.
    let (mut call, idle) = tokio::select! {
        _ = &mut held => panic!("an answer without an upstream"),
        call = one.call() => (call, &other),
        call = other.call() => (call, &one),
    };
    let answer = json_answer(200, r#"{"choices":[{"message":{"content":"hi"}}]}"#);
    for _ in 0..10 {
        let request = product.chat(&key, &question("asked", "hi"));
        let (reply, _) = tokio::join!(request.answer(), idle.answer(&answer));
        assert_eq!(reply.status, 200);
    }
    call.send(&answer).await;
    assert_eq!(held.await.status, 200);
    // Nothing is in flight any more.
    let route = explain(&operator, None).await;
    assert_eq!(route.routing(), Routing::LeastLoaded);
    assert!(route.steps.iter().all(|step| step.in_flight == 0), "{route:?}");
    assert!(route.steps.iter().all(|step| step.latency_ms.is_some()), "{route:?}");
}

#[tokio::test]
async fn the_explanation_names_what_keeps_requests_away() {
    let clock = ManualClock::at("2026-11-20T10:00:00Z");
    let ours = clock.clone();
    let product = Product::with(|setup| setup.clock = std::sync::Arc::new(ours)).await;
    let operator = product.operator().await;
    serve(&product, Routing::Weighted).await;
    let route = explain(&operator, None).await;
    assert_eq!((route.model.as_str(), route.routing()), ("asked", Routing::Weighted));
    assert_eq!(upstreams(&route), NAMES);
    assert!(route.steps.iter().all(|step| (33.0..34.0).contains(&step.first_percent.unwrap())));

    let deployment = |upstream: &str, model: &str, priority| v1::Deployment {
        upstream: upstream.to_owned(),
        upstream_model: model.to_owned(),
        weight: 1,
        priority,
    };
    let deployments = vec![
        deployment("a", "sim-chat?status=503", 0),
        deployment("b", "sim-chat?status=429&retry_after=7", 0),
        deployment("c", "sim-chat", 1),
    ];
    let update = v1::UpdateModelRequest {
        id: "asked".to_owned(),
        deployments: Some(v1::DeploymentList { deployments }),
        ..Default::default()
    };
    operator.models().update_model(update).await.unwrap();
    let key = product.member("alice").await.key().await.secret;
    for _ in 0..12 {
        assert_eq!(product.chat(&key, &question("asked", "hi")).answer().await.status, 200);
    }
    let route = explain(&operator, None).await;
    assert_eq!(upstreams(&route), ["c", "a", "b"]);
    let reasons: Vec<_> = route.steps.iter().map(|step| step.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "available, with the lowest priority number",
            "tried last: its breaker is open for 5 s",
            "tried last: it asked for no requests for 7 s"
        ]
    );
    assert_eq!(route.steps[0].first_percent, Some(100.0));
    clock.advance(Duration::from_secs(7));
    let route = explain(&operator, None).await;
    assert_eq!(upstreams(&route), ["b", "c", "a"]);
    assert_eq!(route.steps[2].reason, "tried last: its breaker waits for a probe to succeed");

    let member = product.member("bob").await;
    let request = v1::ExplainRouteRequest { model: "asked".to_owned(), prompt_cache_key: None };
    let refused = member.models().explain_route(request).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
}
