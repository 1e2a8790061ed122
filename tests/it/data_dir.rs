//! Starts on an incomplete data directory.

use std::collections::BTreeSet;
use std::path::Path;

use proto::v1;
use proto::v1::credential::Source;
use tests::drill::rig;
use tests::process::Gateway;
use tests::{Home, Session, question};

/// Returns the file names in the directory, except the lock, which every start creates.
fn names(dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "lock").collect()
}

/// Returns why a gateway does not start.
async fn refusal(home: &Home) -> String {
    format!("{:#}", home.start_and_stop().await.unwrap_err())
}

/// Returns a data directory in which a gateway has run, with an account `alice`.
async fn used() -> Home {
    let product = Home::new(|_| {}).start().await;
    product.member("alice").await;
    product.stop().await
}

async fn has_alice(home: &Home) -> bool {
    let product = home.start().await;
    let operator = product.operator().await;
    let alice = v1::GetAccountRequest { account: "alice".to_owned() };
    let is_there = operator.accounts().get_account(alice).await.is_ok();
    product.stop().await;
    is_there
}

#[tokio::test]
async fn a_lost_database_is_not_replaced_by_an_empty_one() {
    let home = used().await;
    let dir = home.data_dir();
    let database = dir.join("tollgate.db");
    let backup = home.scratch().join("backup.db");
    std::fs::rename(&database, &backup).unwrap();
    for lost in ["missing", "empty"] {
        if lost == "empty" {
            std::fs::write(&database, "").unwrap();
        }
        let before = names(dir);
        let message = refusal(&home).await;
        for part in [
            "tollgate.db` is missing or empty",
            "`journal`, `seal.key`",
            "ctl backup",
            "begin anew",
        ] {
            assert!(message.contains(part), "{lost}: `{part}` is not in {message}");
        }
        assert_eq!(names(dir), before, "{lost}: no file is created");
    }
    std::fs::copy(&backup, &database).unwrap();
    assert!(has_alice(&home).await, "a restored backup serves");

    for name in ["tollgate.db", "journal", "seal.key"] {
        std::fs::rename(dir.join(name), home.scratch().join(name)).unwrap();
    }
    assert!(!has_alice(&home).await, "after the named files are removed, it starts afresh");
}

#[tokio::test]
async fn a_write_ahead_log_without_its_database_is_kept() {
    let home = Home::new(|_| {});
    std::fs::create_dir_all(home.data_dir()).unwrap();
    let log = home.data_dir().join("tollgate.db-wal");
    std::fs::write(&log, "pages").unwrap();
    assert!(refusal(&home).await.contains("`tollgate.db-wal`"));
    assert_eq!(std::fs::read(&log).unwrap(), b"pages");
}

/// The files of a first start, removed in the reverse order of their creation.
#[tokio::test]
async fn an_interrupted_first_start_is_completed_by_the_next_start() {
    let home = Home::new(|_| {});
    home.start_and_stop().await.unwrap();
    let dir = home.data_dir();
    let remove: [fn(&Path); 4] = [
        |dir| std::fs::remove_file(dir.join("operator.token")).unwrap(),
        |dir| std::fs::remove_file(dir.join("seal.key")).unwrap(),
        |dir| std::fs::remove_dir_all(dir.join("journal")).unwrap(),
        |dir| std::fs::write(dir.join("tollgate.db"), "").unwrap(),
    ];
    for until in 1..=remove.len() {
        remove.iter().take(until).for_each(|remove| remove(dir));
        home.start_and_stop().await.unwrap();
        assert!(dir.join("operator.token").exists() && dir.join("seal.key").exists());
    }
}

#[tokio::test]
async fn a_lost_seal_key_is_not_replaced_while_credentials_depend_on_it() {
    let home = Home::new(|_| {});
    home.start_and_stop().await.unwrap();
    let seal = home.data_dir().join("seal.key");
    std::fs::remove_file(&seal).unwrap();
    let product = home.start().await;
    let credential = v1::Credential { source: Some(Source::Secret("sk-hidden".to_owned())) };
    product
        .operator()
        .await
        .add_upstream(v1::Upstream {
            name: "sealed-one".to_owned(),
            url: "http://127.0.0.1:9/v1".to_owned(),
            credential: Some(credential),
            ..Default::default()
        })
        .await;
    product.stop().await;

    let key = std::fs::read(&seal).unwrap();
    std::fs::remove_file(&seal).unwrap();
    let message = refusal(&home).await;
    assert!(
        message.contains("seal.key` is missing") && message.contains("`sealed-one`"),
        "{message}"
    );
    assert!(!seal.exists(), "no other key is created");
    std::fs::write(&seal, key).unwrap();
    home.start_and_stop().await.unwrap();
}

/// While the database is locked, only the journal can contain finished requests.
#[tokio::test]
async fn the_journal_of_another_service_is_not_replayed() {
    let scratch = tempfile::tempdir().unwrap();
    let other = Gateway::start(scratch.path(), |_| {}).await;
    let operator = rig::operator(&other, scratch.path()).await;
    let key = operator.key().await.secret;
    let database = rusqlite::Connection::open(scratch.path().join("tollgate.db")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let chat = tests::http::Request::post(other.http, "/v1/chat/completions").bearer(&key);
    assert_eq!(chat.json(&question("sim-chat", "hi")).answer().await.status, 200);
    other.kill().await;
    drop(database);

    let home = used().await;
    let (ours, theirs) = (home.data_dir().join("journal"), scratch.path().join("journal"));
    std::fs::remove_dir_all(&ours).unwrap();
    std::fs::rename(&theirs, &ours).unwrap();
    let before = names(&ours);
    let message = refusal(&home).await;
    assert!(
        message.contains("none of the accounts") && message.contains("move the journal away"),
        "{message}"
    );
    assert_eq!(names(&ours), before, "the directory is unchanged");
    std::fs::rename(&ours, &theirs).unwrap();
    assert!(has_alice(&home).await);

    let home_again = Gateway::start(scratch.path(), |_| {}).await;
    let operator: Session = rig::operator(&home_again, scratch.path()).await;
    assert_eq!(operator.records(1).await.len(), 1, "its own service replays it");
}
