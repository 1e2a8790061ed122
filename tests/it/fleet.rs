//! Several gateways on one PostgreSQL database. Without a server in `TOLLGATE_TEST_POSTGRES`, each
//! test says that it is skipped, and passes.

use std::path::Path;

use proto::v1;
use tests::http::{Answer, Request};
use tests::process::Gateway;
use tests::{
    GatewayFleet, Link, Product, RawUpstream, Session, json_answer, priced_model, question,
    with_timeout,
};
use tokio::process::Command;
use tonic::Code;

/// The patience in tests that do not wait for its end.
const LONG: u64 = 60;
/// The shortest patience.
const SHORT: u64 = 2;

async fn chat_with(gateway: &Gateway, key: &str, model: &str) -> Answer {
    let request = Request::post(gateway.http, "/v1/chat/completions");
    request.bearer(key).json(&question(model, "hi")).answer().await
}

async fn chat(gateway: &Gateway, key: &str) -> Answer {
    chat_with(gateway, key, "sim-chat").await
}

/// Sends requests until one gets `status`.
async fn until_chat(gateway: &Gateway, key: &str, status: u16) -> Answer {
    until_chat_with(gateway, key, "sim-chat", status).await
}

async fn until_chat_with(gateway: &Gateway, key: &str, model: &str, status: u16) -> Answer {
    let asking = async {
        loop {
            let answer = chat_with(gateway, key, model).await;
            if answer.status == status {
                return answer;
            }
        }
    };
    with_timeout(&format!("{status} for `{model}`"), asking).await
}

/// Sends requests for the model `new` until one reaches its upstream with this `authorization`.
async fn until_authorized(
    upstream: &RawUpstream,
    authorization: Option<&str>,
    gateway: &Gateway,
    key: &str,
) {
    let body = r#"{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    let answering = async {
        while upstream.answer(json_answer(200, body)).await.header("authorization") != authorization
        {
        }
    };
    let asking = async {
        loop {
            chat_with(gateway, key, "new").await;
        }
    };
    tokio::select! {
        () = answering => {}
        () = asking => {}
    }
}

async fn readiness(gateway: &Gateway) -> u16 {
    Request::get(gateway.http, "/readyz").answer().await.status
}

async fn until_readiness(gateway: &Gateway, status: u16) {
    let asking = async { while readiness(gateway).await != status {} };
    with_timeout("readiness", asking).await;
}

async fn signal(gateway: &Gateway, name: &str) {
    let (name, id) = (format!("-{name}"), gateway.id().to_string());
    let sent = Command::new("kill").args([name, id]).status().await.unwrap();
    assert!(sent.success());
}

/// Returns the same session at another gateway.
async fn at(session: &Session, gateway: &Gateway) -> Session {
    Session::with_token(&gateway.admin, &session.name, &session.token).await
}

fn node_named(name: &str) -> v1::RemoveNodeRequest {
    v1::RemoveNodeRequest { name: name.to_owned(), lost: false }
}

#[tokio::test]
async fn keys_and_accounts_change_on_all_gateways() {
    let Some(fleet) = GatewayFleet::create("fleet_keys", LONG).await else { return };
    let (one, two) = (fleet.start("one").await, fleet.start("two").await);
    let (at_one, at_two) = (fleet.operator("one", &one).await, fleet.operator("two", &two).await);
    let key = at_one.key().await;
    until_chat(&two, &key.secret, 200).await;
    at_two.keys().revoke_key(v1::RevokeKeyRequest { id: key.id }).await.unwrap();
    until_chat(&one, &key.secret, 401).await;

    let alice = Session::register(&one.admin, "alice", "correct horse battery alice").await;
    let key = at(&alice, &two).await.key().await.secret;
    until_chat(&one, &key, 200).await;
    let account = "alice".to_owned();
    let suspend = v1::SuspendAccountRequest { account: account.clone(), reason: "a test".into() };
    at_two.accounts().suspend_account(suspend).await.unwrap();
    until_chat(&one, &key, 403).await;
    at_one.accounts().resume_account(v1::ResumeAccountRequest { account }).await.unwrap();
    until_chat(&two, &key, 200).await;
    for gateway in [one, two] {
        gateway.stop().await;
    }
    fleet.remove().await;
}

#[tokio::test]
async fn the_catalogue_changes_on_all_gateways() {
    let Some(fleet) = GatewayFleet::create("fleet_catalogue", LONG).await else { return };
    let (one, two) = (fleet.start("one").await, fleet.start("two").await);
    let (at_one, at_two) = (fleet.operator("one", &one).await, fleet.operator("two", &two).await);
    let key = at_one.key().await.secret;
    let upstream = RawUpstream::start().await;
    at_one.add_model_on("new", &[&upstream.url]).await;
    until_authorized(&upstream, None, &two, &key).await;
    let secret = v1::credential::Source::Secret("sk-shared".to_owned());
    let update = v1::UpdateUpstreamRequest {
        name: "up-new-0".to_owned(),
        credential: Some(v1::Credential { source: Some(secret) }),
        ..Default::default()
    };
    at_two.upstreams().update_upstream(update).await.unwrap();
    until_authorized(&upstream, Some("Bearer sk-shared"), &one, &key).await;
    at_one.add_model(priced_model("short-lived", &[("simulator", "sim-chat")])).await;
    until_chat_with(&two, &key, "short-lived", 200).await;
    let id = "short-lived".to_owned();
    at_two.models().remove_model(v1::RemoveModelRequest { id }).await.unwrap();
    until_chat_with(&one, &key, "short-lived", 404).await;
    at_one.limit_plan(v1::Limits { rpm: Some(1), ..Default::default() }).await;
    until_chat(&two, &key, 429).await;
    for gateway in [one, two] {
        gateway.stop().await;
    }
    fleet.remove().await;
}

#[tokio::test]
async fn concurrent_changes_of_an_account_are_all_kept() {
    let Some(fleet) = GatewayFleet::create("fleet_concurrent", LONG).await else { return };
    let (one, two) = (fleet.start("one").await, fleet.start("two").await);
    let (at_one, at_two) = (fleet.operator("one", &one).await, fleet.operator("two", &two).await);
    Session::register(&one.admin, "alice", "correct horse battery alice").await;
    let find = || v1::GetAccountRequest { account: "alice".to_owned() };
    let is_known = async { while at_two.accounts().get_account(find()).await.is_err() {} };
    with_timeout("the account at the other gateway", is_known).await;
    for number in 0..10 {
        let name = format!("plan-{number}");
        let plan = v1::Plan { name: name.clone(), ..v1::Plan::default() };
        let set = v1::SetPlanRequest { account: "alice".to_owned(), plan: name.clone() };
        at_one.plans().put_plan(v1::PutPlanRequest { plan: Some(plan) }).await.unwrap();
        let (mut at_first, mut at_second) = (at_one.accounts(), at_two.accounts());
        let account = "alice".to_owned();
        let suspend = v1::SuspendAccountRequest { account, reason: "a test".to_owned() };
        let resume = v1::ResumeAccountRequest { account: "alice".to_owned() };
        let is_suspended = number % 2 == 0;
        let set_status = async {
            if is_suspended {
                at_second.suspend_account(suspend).await.map(drop)
            } else {
                at_second.resume_account(resume).await.map(drop)
            }
        };
        let (planned, set) = tokio::join!(at_first.set_plan(set), set_status);
        planned.unwrap();
        set.unwrap();
        let status = if is_suspended { "suspended" } else { "active" };
        let sql = format!(
            "SELECT count(*) FROM accounts \
             WHERE name = 'alice' AND plan = '{name}' AND status = '{status}'"
        );
        assert_eq!(fleet.database.number(&sql).await, 1, "{number}");
    }
    for gateway in [one, two] {
        gateway.stop().await;
    }
    fleet.remove().await;
}

#[tokio::test]
async fn gateways_together_give_no_more_trial_credit_than_the_daily_maximum() {
    let Some(fleet) = GatewayFleet::create("fleet_trial", LONG).await else { return };
    let maximum = |command: &mut Command| _ = command.args(["--trial-daily-usd", "12"]);
    let one = fleet.start_with("one", maximum).await;
    let two = fleet.start_with("two", maximum).await;
    let register = async |gateway: &Gateway, name: String| {
        let (name, password) = (name, "correct horse".to_owned());
        let request = v1::RegisterRequest { name, password, invite_code: String::new() };
        let mut accounts = Session::anonymous(&gateway.admin).await.accounts();
        accounts.register(request).await.unwrap();
    };
    for number in 0..4 {
        tokio::join!(
            register(&one, format!("first-{number}")),
            register(&two, format!("second-{number}"))
        );
    }
    let given = fleet.database.number("SELECT amount FROM trial_days").await;
    assert_eq!(given, 10_000_000_000, "two accounts got 5 dollars");
    for gateway in [one, two] {
        gateway.stop().await;
    }
    fleet.remove().await;
}

#[tokio::test]
async fn the_log_of_all_gateways_is_followed_on_each() {
    let Some(fleet) = GatewayFleet::create("fleet_tail", LONG).await else { return };
    let (one, two) = (fleet.start("one").await, fleet.start("two").await);
    let at_two = fleet.operator("two", &two).await;
    let key = fleet.operator("one", &one).await.key().await.secret;
    let request = v1::TailRequestsRequest { history: 1, ..Default::default() };
    let mut tail = at_two.usage().tail_requests(request).await.unwrap().into_inner();
    while !with_timeout("the tail", tail.message()).await.unwrap().unwrap().live {}
    let answer = chat(&one, &key).await;
    let update = with_timeout("a record", tail.message()).await.unwrap().unwrap();
    assert_eq!(update.requests[0].id, answer.header("x-request-id"));
    for gateway in [one, two] {
        gateway.stop().await;
    }
    fleet.remove().await;
}

#[tokio::test]
async fn nodes_are_listed_and_drained() {
    let Some(fleet) = GatewayFleet::create("fleet_drain", LONG).await else { return };
    let (one, two) = (fleet.start("one").await, fleet.start("two").await);
    let at_two = fleet.operator("two", &two).await;
    let key = at_two.key().await.secret;
    until_chat(&one, &key, 200).await;
    let drain = async |draining| {
        let request = v1::DrainNodeRequest { name: "one".to_owned(), draining };
        at_two.nodes().drain_node(request).await.unwrap();
    };
    drain(true).await;
    until_readiness(&one, 503).await;
    assert_eq!((chat(&one, &key).await.status, readiness(&two).await), (200, 200));
    let listed = at_two.nodes().list_nodes(v1::ListNodesRequest {}).await.unwrap().into_inner();
    let nodes: Vec<_> =
        listed.nodes.iter().map(|node| (node.name.as_str(), node.state())).collect();
    assert_eq!(nodes, [("one", v1::NodeState::Draining), ("two", v1::NodeState::Serving)]);
    assert_eq!(listed.nodes[0].address, one.http.to_string());
    drain(false).await;
    until_readiness(&one, 200).await;
    for gateway in [one, two] {
        gateway.stop().await;
    }
    fleet.remove().await;
}

#[tokio::test]
async fn a_gateway_on_sqlite_has_no_nodes() {
    let product = Product::start().await;
    let refused = product.operator().await.nodes().list_nodes(v1::ListNodesRequest {}).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
}

/// Its heartbeats wait for a lock, so that it cannot have reached the database when it is asked.
#[tokio::test]
async fn a_suspended_gateway_refuses_until_it_reaches_the_database() {
    let Some(fleet) = GatewayFleet::create("fleet_suspended", SHORT).await else { return };
    let one = fleet.start("one").await;
    let key = fleet.operator("one", &one).await.key().await.secret;
    until_chat(&one, &key, 200).await;
    let client = &fleet.database.client;
    client.batch_execute("BEGIN; SELECT FROM nodes FOR UPDATE").await.unwrap();
    signal(&one, "STOP").await;
    let silent = "SELECT count(*) FROM nodes \
        WHERE clock_timestamp() - heard_at > interval '2 s'";
    let waiting = async { while fleet.database.number(silent).await == 0 {} };
    with_timeout("its patience", waiting).await;
    signal(&one, "CONT").await;
    let refused = chat(&one, &key).await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.error()["code"], "database_unreachable");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(readiness(&one).await, 503);
    client.batch_execute("COMMIT").await.unwrap();
    until_chat(&one, &key, 200).await;
    until_readiness(&one, 200).await;
    one.stop().await;
    fleet.remove().await;
}

#[tokio::test]
async fn a_gateway_serves_without_its_database_until_its_patience_ends() {
    let Some(fleet) = GatewayFleet::create("fleet_partition", 5).await else { return };
    let (link, url) = Link::start(&fleet.database.url).await;
    let through = |command: &mut Command| _ = command.env("TOLLGATE_STORE", url);
    let one = fleet.start_with("one", through).await;
    let key = fleet.operator("one", &one).await.key().await.secret;
    until_chat(&one, &key, 200).await;
    link.cut();
    assert_eq!(chat(&one, &key).await.status, 200);
    let refused = until_chat(&one, &key, 503).await;
    assert_eq!(refused.error()["code"], "database_unreachable");
    assert_eq!(readiness(&one).await, 503);
    link.mend();
    let served = until_chat(&one, &key, 200).await;
    until_readiness(&one, 200).await;
    let operator = fleet.operator("one", &one).await;
    let last = served.header("x-request-id").to_owned();
    let stored =
        async { while !operator.records(1).await.iter().any(|record| record.id == last) {} };
    with_timeout("the record", stored).await;
    one.stop().await;
    fleet.remove().await;
}

/// Regression test: a gateway tried the hosts of its database in their order, and each attempt ended at the
/// first host, which did not answer.
#[tokio::test]
async fn a_gateway_leaves_a_host_of_its_database_that_no_longer_answers() {
    let Some(fleet) = GatewayFleet::create("fleet_stalled", SHORT).await else { return };
    let (first, url) = Link::start(&fleet.database.url).await;
    let (_second, other) = Link::start(&fleet.database.url).await;
    let address = |url: &str| url.split(['@', '/']).nth(3).unwrap().to_owned();
    let url = url.replace(&address(&url), &format!("{},{}", address(&url), address(&other)));
    let through = |command: &mut Command| _ = command.env("TOLLGATE_STORE", url);
    let one = fleet.start_with("one", through).await;
    let key = fleet.operator("one", &one).await.key().await.secret;
    until_chat(&one, &key, 200).await;
    first.stall();
    assert_eq!(chat(&one, &key).await.status, 200);
    let stalled_at = fleet
        .database
        .number("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        .await;
    let heard = format!(
        "SELECT count(*) FROM nodes WHERE extract(epoch FROM heard_at) * 1000000 > {stalled_at}"
    );
    let reached = async { while fleet.database.number(&heard).await == 0 {} };
    with_timeout("a heartbeat", reached).await;
    until_chat(&one, &key, 200).await;
    let answered = "SELECT count(*) FROM requests WHERE http_status = 200";
    let stored = async { while fleet.database.number(answered).await < 3 {} };
    with_timeout("the records", stored).await;
    one.stop().await;
    fleet.remove().await;
}

#[tokio::test]
async fn a_lost_gateway_is_removed_and_cannot_return() {
    let Some(fleet) = GatewayFleet::create("fleet_removed", SHORT).await else { return };
    let (one, two) = (fleet.start("one").await, fleet.start("two").await);
    let operator = fleet.operator("one", &one).await;
    let mut nodes = operator.nodes();
    let refused = nodes.remove_node(node_named("two")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("was heard of"), "{refused}");
    two.kill().await;
    let silent = async {
        loop {
            let refused = nodes.remove_node(node_named("two")).await.unwrap_err();
            if refused.message().contains("--lost") {
                return;
            }
            assert!(refused.message().contains("was heard of"), "{refused}");
        }
    };
    with_timeout("its silence", silent).await;
    let lost = v1::RemoveNodeRequest { lost: true, ..node_named("two") };
    nodes.remove_node(lost.clone()).await.unwrap();
    assert_eq!(nodes.remove_node(lost).await.unwrap_err().code(), Code::NotFound);
    let text = fleet.refusal("two").await;
    assert!(text.contains("was removed") || text.contains("removed node `two`"), "{text}");
    assert!(text.contains("new data directory"), "{text}");
    let audit = operator.audit().list_audit(v1::ListAuditRequest::default()).await.unwrap();
    let entry = &audit.into_inner().entries[0];
    assert_eq!((entry.action.as_str(), entry.object.as_str()), ("node.remove", "two"));
    assert!(entry.details.contains("0 requests were in flight"), "{}", entry.details);
    one.stop().await;
    fleet.remove().await;
}

#[tokio::test]
async fn a_copy_of_the_data_directory_takes_the_node_over() {
    let Some(fleet) = GatewayFleet::create("fleet_copied", LONG).await else { return };
    let one = fleet.start("one").await;
    copy_files(&fleet.data("one"), &fleet.data("copy"));
    let copy = fleet.start("copy").await;
    let (log, status) = one.wait().await;
    assert!(!status.success() && log.contains("taken over this node"), "{status}: {log}");
    copy.stop().await;
    fleet.remove().await;
}

#[tokio::test]
async fn all_gateways_must_have_the_same_seal_key() {
    let Some(fleet) = GatewayFleet::create("fleet_secrets", LONG).await else { return };
    let one = fleet.start("one").await;
    let text = fleet.refusal("two").await;
    assert!(text.contains("is missing") && text.contains("copy `seal.key`"), "{text}");
    std::fs::write(fleet.data("two").join("seal.key"), "5".repeat(64)).unwrap();
    let text = fleet.refusal("two").await;
    assert!(text.contains("is another key") && text.contains("copy `seal.key`"), "{text}");
    std::fs::remove_file(fleet.data("two").join("seal.key")).unwrap();
    fleet.start("two").await.stop().await;
    one.stop().await;
    fleet.remove().await;
}

/// Copies the files of a data directory, which another process uses.
fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}
