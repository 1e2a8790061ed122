//! The ledger's entries and verification, exports and backups.

use std::os::unix::fs::PermissionsExt;

use ctl::profile::Environment;
use proto::v1;
use serde_json::Value;
use tests::{Home, Product, Session, question};

/// Runs an operator's command. Returns its exit code, stdout and stderr.
async fn ctl(product: &Product, line: &str) -> (u8, String, String) {
    let home = tempfile::tempdir().unwrap();
    let mut environment = Environment::for_home(home.path());
    environment.server = Some(product.admin.clone());
    environment.token = Some(product.home.operator_token().into());
    let args = std::iter::once("ctl").chain(line.split(' '));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = ctl::run(args, &environment, &mut &b""[..], &mut out, &mut err).await;
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// Sends `count` requests one after another and waits for their records.
pub(super) async fn send_requests(product: &Product, caller: &Session, count: usize) {
    let key = caller.key().await.secret;
    let before = caller.records(0).await.len();
    for _ in 0..count {
        assert_eq!(product.chat(&key, &question("sim-chat", "hi")).answer().await.status, 200);
    }
    caller.records(before + count).await;
}

/// Returns the result of a ledger verification.
pub(super) async fn proof(product: &Product) -> v1::VerifyLedgerResponse {
    let operator = product.operator().await;
    operator.ledger().verify_ledger(v1::VerifyLedgerRequest {}).await.unwrap().into_inner()
}

#[tokio::test]
async fn the_ledger_verifies_and_entries_name_their_cause() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    product.operator().await.credit("alice", "-1.5").await;
    send_requests(&product, &alice, 3).await;
    let (code, out, _) = ctl(&product, "ledger verify -o json").await;
    let proof: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &proof["ok"], &proof["requests"]), (0, &true.into(), &3.into()), "{proof}");

    let (_, entries, _) = ctl(&product, "ledger list --account alice -o jsonl").await;
    let entries: Vec<Value> =
        entries.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = entries.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["charge", "charge", "charge", "credit", "trial"]);
    let record = alice.records(3).await.remove(2);
    assert_eq!(entries[0]["request_id"], record.id);
    assert_eq!(entries[0]["amount_usd"], format!("-{}", record.cost_usd.unwrap()));

    let product = product.stop().await.start().await;
    assert_eq!(ctl(&product, "ledger verify").await.0, 0, "it also verifies after a restart");
}

#[tokio::test]
async fn an_export_contains_every_record_in_the_format_of_the_list() {
    let product = Product::start().await;
    let (alice, bob) = (product.member("alice").await, product.member("bob").await);
    send_requests(&product, &alice, 3).await;
    send_requests(&product, &bob, 2).await;
    let (_, listed, _) = ctl(&product, "request list -o jsonl").await;
    let mut listed: Vec<_> = listed.lines().collect();
    listed.reverse();
    let (code, exported, _) = ctl(&product, "usage export --since 1h --format jsonl").await;
    assert_eq!((code, exported.lines().collect::<Vec<_>>()), (0, listed));
    let (_, csv, _) = ctl(&product, "usage export --account bob --format csv").await;
    assert_eq!(csv.lines().count(), 3, "a header and two records: {csv}");
}

#[tokio::test]
async fn a_gateway_starts_on_a_backup_made_while_serving() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    send_requests(&product, &alice, 2).await;
    let balance = alice.account().await.balance_usd;
    let file = product.home.scratch().join("backup.db");
    let key = alice.key().await.secret;
    let line = format!("backup {}", file.display());
    let (serving, (code, out, stderr)) = tokio::join!(
        product.chat(&key, &question("sim-chat", "hi")).answer(),
        ctl(&product, &line)
    );
    assert_eq!((serving.status, code, &*out), (200, 0, ""), "{stderr}");
    assert!(stderr.contains("seal.key"), "{stderr}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!product.home.data_dir().join("tollgate.db-copy").exists());

    let restored = Home::new(|_| {});
    std::fs::create_dir_all(restored.data_dir()).unwrap();
    std::fs::copy(&file, restored.data_dir().join("tollgate.db")).unwrap();
    let seal = product.home.data_dir().join("seal.key");
    std::fs::copy(seal, restored.data_dir().join("seal.key")).unwrap();
    let restored = restored.start().await;
    let alice = Session::sign_in(&restored.admin, "alice").await;
    let records = alice.records(2).await.len();
    assert!((2..=3).contains(&records), "{records}");
    if records == 2 {
        assert_eq!(alice.account().await.balance_usd, balance);
    }
    assert!(proof(&restored).await.ok);
    assert_eq!(restored.chat(&key, &question("sim-chat", "hi")).answer().await.status, 200);
}
