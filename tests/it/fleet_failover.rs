//! A failover to a standby that lacks the last commits. The test starts two servers with the programs
//! of PostgreSQL; where these are not installed, it says that it is skipped, and passes.

use std::path::PathBuf;

use proto::v1;
use serde_json::json;
use tempfile::TempDir;
use tests::http::Request;
use tests::process::Gateway;
use tests::{
    GatewayFleet, PostgresDatabase, PostgresPrograms, PostgresServer, RawUpstream, Session, chunk,
    free_ports, priced_model, question, wait_for_model, with_timeout,
};

/// The setting `store_patience_seconds` of the gateways, which exceeds the time of the failover.
const STORE_PATIENCE_SECONDS: u64 = 60;

/// A server for the gateways of a test, which also know the address of its future standby.
struct Servers {
    fleet: GatewayFleet,
    primary: PostgresServer,
    standby_data: PathBuf,
    standby_port: u16,
    _dir: TempDir,
}

impl Servers {
    /// Starts the server, unless PostgreSQL is not installed.
    async fn create(test: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let Some(programs) = PostgresPrograms::find(None) else {
            eprintln!("skipped, because the programs of PostgreSQL are not installed");
            return None;
        };
        let ports = free_ports().await;
        let primary = PostgresServer::create(programs, dir.path().join("primary"), ports[0]).await;
        let mut database = PostgresDatabase::create_on(&primary.url(), test).await;
        let (_, name) = database.url.rsplit_once('/').unwrap();
        database.url =
            format!("postgres://tollgate@127.0.0.1:{},127.0.0.1:{}/{name}", ports[0], ports[1]);
        Some(Self {
            fleet: GatewayFleet::on(database, STORE_PATIENCE_SECONDS),
            primary,
            standby_data: dir.path().join("standby"),
            standby_port: ports[1],
            _dir: dir,
        })
    }
}

async fn status(gateway: &Gateway, key: &str, model: &str) -> u16 {
    let request = Request::post(gateway.http, "/v1/chat/completions");
    request.bearer(key).json(&question(model, "hi")).answer().await.status
}

/// Sends requests until one gets `wanted`.
async fn until_status(gateway: &Gateway, key: &str, wanted: u16) {
    let asking = async { while status(gateway, key, "paid").await != wanted {} };
    with_timeout(&format!("{wanted}"), asking).await;
}

async fn verify(operator: &Session) -> v1::VerifyLedgerResponse {
    operator.ledger().verify_ledger(v1::VerifyLedgerRequest {}).await.unwrap().into_inner()
}

#[tokio::test]
async fn what_a_failover_lost_is_refused_by_all_gateways() {
    let Some(Servers { fleet, primary, standby_data, standby_port, _dir }) =
        Servers::create("failover").await
    else {
        return;
    };
    let (one, two) = (fleet.start("one").await, fleet.start("two").await);
    let operator = fleet.operator("one", &one).await;
    operator.add_model(priced_model("paid", &[("simulator", "sim-chat")])).await;
    let kept = operator.key().await.secret;
    let adam = Session::register(&one.admin, "adam", "correct horse battery adam").await;
    let of_adam = adam.key().await.secret;
    let trial = adam.account().await.balance_usd;
    operator.credit("adam", &format!("-{trial}")).await;
    for gateway in [&one, &two] {
        until_status(gateway, &kept, 200).await;
        until_status(gateway, &of_adam, 429).await;
    }
    let standby = primary.create_standby(standby_data, standby_port).await;
    standby.stop_following(&primary).await;

    let lost = operator.key().await.secret;
    let eve = Session::register(&one.admin, "eve", "correct horse battery eve").await;
    let of_eve = eve.key().await.secret;
    operator.credit("adam", "5").await;
    for gateway in [&one, &two] {
        for key in [&lost, &of_eve, &of_adam] {
            until_status(gateway, key, 200).await;
        }
    }
    primary.crash().await;
    standby.promote().await;

    for gateway in [&one, &two] {
        until_status(gateway, &lost, 401).await;
        until_status(gateway, &of_eve, 401).await;
        until_status(gateway, &of_adam, 429).await;
        until_status(gateway, &kept, 200).await;
    }
    // What is made now has the numbers of changes that were lost.
    let operator = fleet.operator("two", &two).await;
    let adam_at_two = Session::with_token(&two.admin, "adam", &adam.token).await;
    let new = operator.key().await.secret;
    let eve = Session::register(&one.admin, "eve", "correct horse battery eve").await;
    let of_eve = eve.key().await.secret;
    for gateway in [&one, &two] {
        until_status(gateway, &new, 200).await;
        until_status(gateway, &of_eve, 200).await;
        assert_eq!(status(gateway, &lost, "paid").await, 401);
    }
    let verified = verify(&operator).await;
    assert!(verified.ok, "{:?}", verified.differences);
    // Each gateway had obtained at least $0.9 of the lost credit, a quarter of what was left, and spends of it until its
    // heartbeat sees the failover, which takes some seconds. What is not spent is not charged.
    let overspent = adam_at_two.account().await.balance_usd;
    assert!(overspent.parse::<f64>().unwrap() > -0.9, "{overspent}");
    for gateway in [one, two] {
        gateway.stop().await;
    }
}

/// The grant of a limit that requests use is lost with the primary. Others must not obtain it as long as they do.
#[tokio::test]
async fn a_limit_whose_grant_was_lost_holds_over_all_gateways() {
    let Some(Servers { mut fleet, primary, standby_data, standby_port, _dir }) =
        Servers::create("limits_failover").await
    else {
        return;
    };
    let (one, two) = (fleet.start("one").await, fleet.start("two").await);
    let operator = fleet.operator("one", &one).await;
    let upstream = RawUpstream::start().await;
    operator.add_model_on("held", &[&upstream.url]).await;
    let limits = v1::Limits { concurrency: Some(2), ..Default::default() };
    let key = operator.key_with(|key| key.limits = Some(limits)).await.secret;
    let granted =
        "SELECT coalesce(sum(amount), 0)::bigint FROM allocations WHERE kind = 'concurrency'";
    wait_for_model([&one, &two], &key, "held").await;
    let standby = primary.create_standby(standby_data, standby_port).await;
    assert_eq!(fleet.database.number(granted).await, 0, "the standby has a grant");
    standby.stop_following(&primary).await;

    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut body = question("held", "hi");
        body["stream"] = json!(true);
        let request = Request::post(one.http, "/v1/chat/completions").bearer(&key).json(&body);
        streams.push(tokio::join!(request.send(), upstream.begin_stream()));
    }
    assert_eq!(status(&two, &key, "sim-chat").await, 429);
    primary.crash().await;
    standby.promote().await;
    fleet.database.follow_to(&standby.url()).await;
    let restored = async { while fleet.database.number(granted).await < 2 {} };
    with_timeout("the grant of what the streams use", restored).await;
    for _ in 0..3 {
        assert_eq!(status(&two, &key, "sim-chat").await, 429);
    }
    // What the streams used passes on.
    for (answer, mut call) in streams {
        let end =
            r#"data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}"#;
        call.send(chunk(&format!("{end}\n\ndata: [DONE]\n\n"))).await;
        call.send(chunk("")).await;
        assert_eq!(answer.events().await.last().map(String::as_str), Some("data: [DONE]"));
    }
    let asking = async { while status(&two, &key, "sim-chat").await != 200 {} };
    with_timeout("the limit of the other gateway", asking).await;
    let total = fleet.database.number(granted).await;
    assert!((1..=2).contains(&total), "{total}");
    for gateway in [one, two] {
        gateway.stop().await;
    }
}
