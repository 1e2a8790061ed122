//! The lifecycle of accounts and keys: suspension, plans, rotation, passwords, and the audit log.

use std::sync::Arc;
use std::time::Duration;

use proto::v1;
use serde_json::Value;
use tests::{ManualClock, Product, Session, question};
use tonic::Code;

/// Returns the status and the error code of a chat request with this key.
async fn send_request(product: &Product, secret: &str) -> (u16, Value) {
    let answer = product.chat(secret, &question("sim-chat", "hi")).answer().await;
    (answer.status, answer.json()["error"]["code"].clone())
}

async fn suspend(operator: &Session, account: &str) -> Result<v1::Account, tonic::Status> {
    let request =
        v1::SuspendAccountRequest { account: account.to_owned(), reason: "overdue".to_owned() };
    Ok(operator.accounts().suspend_account(request).await?.into_inner().account.unwrap())
}

#[tokio::test]
async fn a_suspended_account_is_refused_by_the_next_request_until_it_is_resumed() {
    let product = Product::start().await;
    let (alice, bob) = (product.member("alice").await, product.member("bob").await);
    let (key, other) = (alice.key().await, bob.key().await);
    let operator = product.operator().await;
    assert_eq!(send_request(&product, &key.secret).await.0, 200);
    let account = suspend(&operator, "alice").await.unwrap();
    assert_eq!(account.status(), v1::AccountStatus::Suspended);
    let refused = (403, Value::from("account_suspended"));
    assert_eq!(send_request(&product, &key.secret).await, refused);
    assert_eq!(send_request(&product, &other.secret).await.0, 200);

    // its session can read but not write
    assert_eq!(alice.account().await.status(), v1::AccountStatus::Suspended);
    let request = v1::CreateKeyRequest { label: "more".to_owned(), ..Default::default() };
    let denied = alice.keys().create_key(request).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    let log = alice.audit().list_audit(v1::ListAuditRequest::default()).await.unwrap();
    assert_eq!(log.get_ref().entries[0].details, "overdue", "the account sees the reason");

    let product = product.stop().await.start().await;
    assert_eq!(
        send_request(&product, &key.secret).await,
        refused,
        "a restart keeps the suspension"
    );
    let request = v1::ResumeAccountRequest { account: "alice".to_owned() };
    product.operator().await.accounts().resume_account(request).await.unwrap();
    assert_eq!(send_request(&product, &key.secret).await.0, 200);
}

#[tokio::test]
async fn an_operator_cannot_lock_itself_out() {
    let product = Product::start().await;
    let operator = product.operator().await;
    let refused = suspend(&operator, "operator").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(operator.account().await.status(), v1::AccountStatus::Active);
}

#[tokio::test]
async fn a_plan_change_applies_to_the_next_request() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await;
    let operator = product.operator().await;
    let plan = v1::Plan {
        name: "narrow".to_owned(),
        models: vec!["sim-reasoner".to_owned()],
        ..Default::default()
    };
    operator.plans().put_plan(v1::PutPlanRequest { plan: Some(plan) }).await.unwrap();
    assert_eq!(send_request(&product, &key.secret).await.0, 200);
    let request = v1::SetPlanRequest { account: "alice".to_owned(), plan: "narrow".to_owned() };
    operator.accounts().set_plan(request).await.unwrap();
    assert_eq!(send_request(&product, &key.secret).await, (403, "model_not_allowed".into()));
}

#[tokio::test]
async fn a_rotated_key_works_until_its_overlap_ends() {
    let clock = ManualClock::at("2026-11-20T12:00:00Z");
    let product = Product::with(|setup| setup.clock = Arc::new(clock.clone())).await;
    let alice = product.member("alice").await;
    let old = alice.key_with(|key| key.label = "ci".to_owned()).await;
    let rotate = async |id: &str, overlap_seconds| {
        let request = v1::RotateKeyRequest { id: id.to_owned(), overlap_seconds };
        alice.keys().rotate_key(request).await.map(tonic::Response::into_inner)
    };
    let new = rotate(&old.id, 3_600).await.unwrap();
    assert_eq!(new.key.as_ref().unwrap().label, "ci");
    let works = async |secret: &str| send_request(&product, secret).await.0 == 200;
    clock.advance(Duration::from_secs(3_599));
    assert!(works(&old.secret).await && works(&new.secret).await);
    clock.advance(Duration::from_secs(1));
    assert_eq!(send_request(&product, &old.secret).await, (401, "invalid_api_key".into()));
    assert!(works(&new.secret).await);
    assert_eq!(rotate(&old.id, 0).await.unwrap_err().code(), Code::FailedPrecondition);

    let id = new.key.unwrap().id;
    let last = rotate(&id, 0).await.unwrap();
    assert!(!works(&new.secret).await && works(&last.secret).await, "immediately");
    let keys = alice.keys().list_keys(v1::ListKeysRequest::default()).await.unwrap();
    let keys = keys.into_inner().keys;
    let successor = |id: &str| keys.iter().find(|key| key.id == id).unwrap().successor.clone();
    assert_eq!((successor(&old.id), successor(&id)), (id.clone(), last.key.unwrap().id));
}

#[tokio::test]
async fn a_password_change_ends_the_other_sessions() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let other = Session::sign_in(&product.admin, "alice").await;
    let change = async |old: &str| {
        let request = v1::ChangePasswordRequest {
            old_password: old.to_owned(),
            new_password: "a better one".to_owned(),
        };
        alice.accounts().change_password(request).await
    };
    assert_eq!(change("wrong").await.unwrap_err().code(), Code::PermissionDenied);
    let changed = change("correct horse battery alice").await.unwrap();
    assert_eq!(changed.into_inner().ended_sessions, 1);
    let gone = other.accounts().who_am_i(v1::WhoAmIRequest {}).await.unwrap_err();
    assert_eq!(gone.code(), Code::Unauthenticated);
    assert_eq!(alice.account().await.name, "alice");
    let sign_in = async |password: &str| {
        let (name, password) = ("alice".to_owned(), password.to_owned());
        let request = v1::SignInRequest { name, password };
        product.anonymous().await.accounts().sign_in(request).await.is_ok()
    };
    assert!(!sign_in("correct horse battery alice").await && sign_in("a better one").await);
}

#[tokio::test]
async fn the_audit_log_survives_a_restart_and_names_the_actor() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await;
    let operator = product.operator().await;
    operator.credit("alice", "2.5").await;
    suspend(&operator, "alice").await.unwrap();
    let product = product.stop().await.start().await;
    let operator = product.operator().await;
    let request = v1::ListAuditRequest { account: "alice".to_owned(), ..Default::default() };
    let log = operator.audit().list_audit(request).await.unwrap().into_inner().entries;
    let lines: Vec<_> = log
        .iter()
        .filter(|entry| entry.action != "session.create")
        .map(|entry| [&*entry.actor, &*entry.action, &*entry.object, &*entry.account])
        .collect();
    assert_eq!(
        lines,
        [
            ["operator", "account.suspend", "alice", "alice"],
            ["operator", "account.credit", "alice", "alice"],
            ["alice", "key.create", &*key.id, "alice"],
            ["alice", "account.register", "alice", "alice"],
        ]
    );
}

#[tokio::test]
async fn registrations_of_one_address_are_limited_with_a_retry_time() {
    // an admin plane at a port, whose clients have addresses
    let product = Product::on_http1(|setup| setup.config.registrations_per_hour = 2).await;
    product.member("alice").await;
    product.member("bob").await;
    let request = |name: &str| v1::RegisterRequest {
        name: name.to_owned(),
        password: "long enough".to_owned(),
        invite_code: String::new(),
    };
    let refused = product.anonymous().await.accounts().register(request("cid")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let seconds = refused.metadata().get("retry-after").unwrap().to_str().unwrap();
    assert!((3_000..=3_600).contains(&seconds.parse::<u64>().unwrap()), "{seconds}");
    assert!(refused.message().contains("try again in"), "{refused:?}");
    product.operator().await.accounts().register(request("cid")).await.unwrap();
}

#[tokio::test]
async fn trial_credit_beyond_the_daily_cap_is_withheld_and_reported() {
    let cap = domain::money::Nanos(7_000_000_000);
    let product = Product::with(|setup| setup.config.trial_daily = cap).await;
    let register = async |product: &Product, name: &str| {
        let request = v1::RegisterRequest {
            name: name.to_owned(),
            password: "long enough".to_owned(),
            invite_code: String::new(),
        };
        let made = product.anonymous().await.accounts().register(request).await.unwrap();
        let made = made.into_inner();
        let balance = made.account.unwrap().balance_usd;
        assert_eq!(balance, made.trial_credit_usd);
        (balance, made.trial_credit_withheld)
    };
    assert_eq!(register(&product, "alice").await, ("5".to_owned(), false));
    assert_eq!(register(&product, "bob").await, ("0".to_owned(), true));
    let product = product.stop().await.start().await;
    assert_eq!(
        register(&product, "cid").await,
        ("0".to_owned(), true),
        "a restart keeps the daily sum"
    );
}
