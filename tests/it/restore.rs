//! `ctl restore`, without a running gateway.

use std::path::Path;
use std::process::Output;

use rusqlite::Connection;
use tests::process::{self, Gateway};
use tests::{Home, with_timeout};

use crate::ledger::send_requests;

/// Returns a stopped gateway's home with an account `alice` and two requests.
async fn used() -> Home {
    let product = Home::new(|_| {}).start().await;
    let alice = product.member("alice").await;
    send_requests(&product, &alice, 2).await;
    product.stop().await
}

async fn restore(file: &Path, to: &Path, secrets: Option<&Path>) -> Output {
    let mut ctl = process::command("ctl");
    ctl.arg("restore").arg(file).arg("--to").arg(to);
    if let Some(dir) = secrets {
        ctl.arg("--secrets-from").arg(dir);
    }
    with_timeout("the restore", ctl.output()).await.unwrap()
}

/// Returns what a restore that fails writes to stderr.
async fn refusal(file: &Path, to: &Path) -> String {
    let output = restore(file, to, None).await;
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn a_restored_backup_is_verified_and_serves() {
    let home = used().await;
    let database = home.data_dir().join("tollgate.db");
    let to = home.scratch().join("restored");
    let output = restore(&database, &to, Some(home.data_dir())).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for part in ["undamaged", "2 accounts, 2 request records", "charges and sums agree"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for name in ["seal.key", "operator.token"] {
        let [old, new] = [home.data_dir(), &to].map(|dir| std::fs::read(dir.join(name)).unwrap());
        assert_eq!(old, new);
    }
    assert!(!to.join("journal").exists());
    Gateway::start(&to, |_| {}).await.stop().await;
}

#[tokio::test]
async fn only_a_new_directory_and_a_whole_database_are_accepted() {
    let home = used().await;
    let database = home.data_dir().join("tollgate.db");
    let text = refusal(&database, home.data_dir()).await;
    assert!(text.contains("is not empty"), "{text}");

    let other = home.scratch().join("other");
    std::fs::write(&other, "not a database, but long enough to be taken for one".repeat(99))
        .unwrap();
    let to = home.scratch().join("restored");
    refusal(&other, &to).await;
    assert!(!to.join("tollgate.db").exists());

    let locked = home.scratch().join("locked");
    std::fs::create_dir(&locked).unwrap();
    let lock = std::fs::File::create(locked.join("lock")).unwrap();
    lock.lock().unwrap();
    let text = refusal(&database, &locked).await;
    assert!(text.contains("another gateway is using"), "{text}");
}

#[tokio::test]
async fn differences_of_the_ledger_are_reported() {
    let home = used().await;
    let database = home.data_dir().join("tollgate.db");
    let tampered = Connection::open(&database).unwrap();
    assert!(tampered.execute("UPDATE balances SET amount = amount + 1", []).unwrap() > 0);
    drop(tampered);
    let to = home.scratch().join("restored");
    let output = restore(&database, &to, None).await;
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("differences; it was restored as it is"), "{errors}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("balance"));
    assert!(to.join("tollgate.db").exists());
}
