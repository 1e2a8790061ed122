//! Admin calls with an idempotency key: a repeated call changes nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use proto::v1;
use tests::process::command;
use tests::{ManualClock, Product, Session, with_timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tonic::{Code, Request};

fn keyed<T>(key: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("idempotency-key", key.parse().unwrap());
    request
}

fn credit(account: &str, amount_usd: &str) -> v1::CreditAccountRequest {
    v1::CreditAccountRequest {
        account: account.to_owned(),
        amount_usd: amount_usd.to_owned(),
        reason: "a test".to_owned(),
    }
}

async fn give(operator: &Session, key: &str, amount_usd: &str) -> Result<String, tonic::Status> {
    let answer = operator.accounts().credit_account(keyed(key, credit("alice", amount_usd))).await;
    answer.map(|answer| answer.into_inner().account.unwrap().balance_usd)
}

#[tokio::test]
async fn repeated_credits_with_one_idempotency_key_are_applied_once() {
    let product = Product::start().await;
    let (operator, alice) = (product.operator().await, product.member("alice").await);
    assert_eq!(give(&operator, "one", "2").await.unwrap(), "7");
    assert_eq!(give(&operator, "one", "2").await.unwrap(), "7");
    let refused = give(&operator, "one", "3").await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("belongs to another call"), "{refused}");
    assert_eq!(give(&operator, "two", "2").await.unwrap(), "9");

    let product = product.stop().await.start().await;
    let operator = product.operator().await;
    assert_eq!(give(&operator, "one", "2").await.unwrap(), "9", "the key survives a restart");
    let suspend =
        v1::SuspendAccountRequest { account: alice.name.clone(), reason: "spam".to_owned() };
    let suspended = operator.accounts().suspend_account(keyed("one", suspend)).await.unwrap();
    let status = suspended.into_inner().account.unwrap().status();
    assert_eq!(status, v1::AccountStatus::Suspended, "keys are separate for each method");
    for key in [String::new(), "k".repeat(256)] {
        assert_eq!(give(&operator, &key, "1").await.unwrap_err().code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn concurrent_calls_with_one_idempotency_key_are_applied_once() {
    let product = Product::start().await;
    product.member("alice").await;
    let operator = product.operator().await;
    let mut all = JoinSet::new();
    for _ in 0..20 {
        let mut accounts = operator.accounts();
        all.spawn(async move { accounts.credit_account(keyed("one", credit("alice", "2"))).await });
    }
    for answer in all.join_all().await {
        assert_eq!(answer.unwrap().into_inner().account.unwrap().balance_usd, "7");
    }
}

#[tokio::test]
async fn a_repeated_creation_does_not_create_or_return_a_second_secret() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let create = || {
        let request = v1::CreateKeyRequest { label: "ci".to_owned(), ..Default::default() };
        let (mut keys, request) = (alice.keys(), keyed("one", request));
        async move { keys.create_key(request).await }
    };
    let made = create().await.unwrap().into_inner().key.unwrap();
    let again = create().await.unwrap_err();
    assert_eq!(again.code(), Code::AlreadyExists);
    assert!(again.message().contains(&made.id), "{again}");
    let list = || async {
        let list = alice.keys().list_keys(v1::ListKeysRequest::default()).await.unwrap();
        list.into_inner().keys
    };
    assert_eq!(list().await.len(), 1);

    let rotate = || {
        let request = v1::RotateKeyRequest { id: made.id.clone(), overlap_seconds: 60 };
        let (mut keys, request) = (alice.keys(), keyed("one", request));
        async move { keys.rotate_key(request).await }
    };
    rotate().await.unwrap();
    assert_eq!(rotate().await.unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(list().await.len(), 2);

    let revoke = || {
        let request = keyed("one", v1::RevokeKeyRequest { id: made.id.clone() });
        let mut keys = alice.keys();
        async move { keys.revoke_key(request).await.unwrap().into_inner().key.unwrap() }
    };
    let revoked = revoke().await;
    assert!(revoked.revoked_at.is_some());
    assert_eq!(revoke().await, revoked);

    let invite = || {
        let request = keyed("one", v1::CreateInviteRequest::default());
        let operator = product.operator();
        async move { operator.await.accounts().create_invite(request).await }
    };
    invite().await.unwrap();
    assert_eq!(invite().await.unwrap_err().code(), Code::AlreadyExists);
}

#[tokio::test]
async fn a_repeated_change_returns_the_current_state() {
    let product = Product::start().await;
    let (operator, alice) = (product.operator().await, product.member("alice").await);
    let add = || {
        let upstream =
            v1::Upstream { name: "u".to_owned(), url: "sim:".to_owned(), ..Default::default() };
        keyed("one", v1::AddUpstreamRequest { upstream: Some(upstream) })
    };
    let added = operator.upstreams().add_upstream(add()).await.unwrap().into_inner();
    assert_eq!(operator.upstreams().add_upstream(add()).await.unwrap().into_inner(), added);
    let remove = || keyed("one", v1::RemoveUpstreamRequest { name: "u".to_owned() });
    operator.upstreams().remove_upstream(remove()).await.unwrap();
    operator.upstreams().remove_upstream(remove()).await.unwrap();
    let gone = operator.upstreams().add_upstream(add()).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound, "the key was deleted since");

    let plan =
        v1::Plan { name: "pro".to_owned(), trial_credit_usd: "1".to_owned(), ..Default::default() };
    let put = || keyed("one", v1::PutPlanRequest { plan: Some(plan.clone()) });
    let made = operator.plans().put_plan(put()).await.unwrap().into_inner();
    assert_eq!(operator.plans().put_plan(put()).await.unwrap().into_inner(), made);

    let change = || {
        let request = v1::ChangePasswordRequest {
            old_password: "correct horse battery alice".to_owned(),
            new_password: "another horse".to_owned(),
        };
        keyed("one", request)
    };
    for _ in 0..2 {
        alice.accounts().change_password(change()).await.unwrap();
    }
}

#[tokio::test]
async fn an_idempotency_key_expires_after_a_day() {
    let clock = ManualClock::at("2026-11-20T12:00:00Z");
    let ticking = clock.clone();
    let product = Product::with(|setup| setup.clock = Arc::new(ticking)).await;
    product.member("alice").await;
    assert_eq!(give(&product.operator().await, "one", "2").await.unwrap(), "7");
    clock.advance(Duration::from_hours(25));
    // expired keys are deleted at startup
    let home = product.stop().await;
    crate::retention::trust(&home, "2026-11-21T13:00:00Z");
    let product = home.start().await;
    let operator = product.operator().await;
    let forgotten = async { while give(&operator, "one", "2").await.unwrap() == "7" {} };
    with_timeout("the expiry of the key", forgotten).await;
    assert_eq!(give(&operator, "one", "2").await.unwrap(), "9", "the key is stored again");
}

#[tokio::test]
async fn repeated_ctl_commands_with_one_idempotency_key_run_once() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let run = async |key: &str, amount: &str| {
        let mut ctl = command("ctl");
        ctl.args(["account", "credit", "alice", amount, "--reason", "gift"]);
        ctl.args(["--idempotency-key", key, "--server", &product.admin, "--token-file"]);
        let output = ctl.arg(product.home.data_dir().join("operator.token")).output();
        with_timeout("ctl", output).await.unwrap().status.code()
    };
    assert_eq!((run("one", "2").await, run("one", "2").await), (Some(0), Some(0)));
    assert_eq!(alice.account().await.balance_usd, "7");
    assert_eq!(run("one", "3").await, Some(2), "the key belongs to another call");
    assert_eq!(run("two", "2").await, Some(0));
    assert_eq!(alice.account().await.balance_usd, "9");
}

/// Forwards a connection except for the gateway's responses, until `is_done`; then closes it.
async fn drop_responses(client: TcpStream, gateway: SocketAddr, is_done: impl Future<Output = ()>) {
    let (mut from, mut to) = (client, TcpStream::connect(gateway).await.unwrap());
    let pass = async {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            to.write_all(&buffer[..count]).await.unwrap();
        }
    };
    tokio::select! {
        () = pass => panic!("the client gave up"),
        () = is_done => {}
    }
}

#[tokio::test]
async fn ctl_repeats_a_call_whose_response_was_lost() {
    // an admin plane at a port, which the test stands in front of
    let product = Product::on_http1(|_| {}).await;
    let (operator, alice) = (product.operator().await, product.member("alice").await);
    let gateway: SocketAddr = product.admin.strip_prefix("http://").unwrap().parse().unwrap();
    let between = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", between.local_addr().unwrap());
    let token = product.home.data_dir().join("operator.token");
    let mut ctl = command("ctl");
    ctl.args(["account", "credit", "alice", "2", "--reason", "gift", "--server", &server]);
    ctl.arg("--token-file").arg(&token);
    let credited = async {
        while alice.account().await.balance_usd != "7" {
            tokio::task::yield_now().await;
        }
    };
    let pass = async {
        let (first, _) = between.accept().await.unwrap();
        drop_responses(first, gateway, with_timeout("the credit", credited)).await;
        let (mut second, _) = between.accept().await.unwrap();
        let mut to = TcpStream::connect(gateway).await.unwrap();
        _ = copy_bidirectional(&mut second, &mut to).await;
    };
    let (output, ()) =
        tokio::join!(async { with_timeout("ctl", ctl.output()).await.unwrap() }, pass);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains('7'));
    let audit = operator.audit().list_audit(v1::ListAuditRequest::default()).await.unwrap();
    let entries = audit.into_inner().entries;
    let is_hers = |action: &str, object: &str| action == "account.credit" && object == "alice";
    assert_eq!(entries.iter().filter(|it| is_hers(&it.action, &it.object)).count(), 1);
    assert_eq!(alice.account().await.balance_usd, "7");
}
