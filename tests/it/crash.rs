//! `kill -9` in mid-load: what was written stays, nothing is there twice, and the money adds up.

use std::collections::BTreeSet;
use std::path::Path;

use gateway::domain::durability::Durability;
use gateway::domain::money::Nanos;
use tests::drill::client::Shape;
use tests::drill::crash::{Crash, Kill, Pressure};
use tests::drill::round::Drill;
use tests::process::Gateway;
use tests::soon;

async fn killed(ends: usize, durability: Durability) -> Crash {
    let pressure = Pressure { clients: 16, kill: Kill::AfterEnds(ends), durability };
    let mut crash = Crash::prepare(pressure).await;
    let round = crash.round().await;
    let verdict = &round.verdict;
    assert!(verdict.differences.is_empty(), "{round}");
    assert!(verdict.interrupted > 0 && verdict.counted > 0, "{round}");
    assert!(Shape::QUICK.iter().all(|shape| verdict.shapes.contains(shape)), "{verdict:?}");
    crash
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_comes_back_with_its_records_and_its_money() {
    let (_dir, data) = killed(300, Durability::Process).await.stop().await;
    check_money(&data);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_waits_for_the_disk_comes_back_the_same() {
    let (_dir, data) = killed(100, Durability::Power).await.stop().await;
    check_money(&data);
}

/// With one processor the gateway has one thread, and lets messages leave together.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn one_that_has_one_processor_comes_back_the_same() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    // what this thread may use, a process that it starts may
    let all = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|&processor| all.is_set(processor)).unwrap());
    sched_setaffinity(None, &one).unwrap();
    let (_dir, data) = killed(300, Durability::Process).await.stop().await;
    check_money(&data);
}

#[tokio::test(flavor = "multi_thread")]
async fn books_that_were_tampered_with_do_not_pass() {
    for (sabotage, differences) in killed(50, Durability::Process).await.sabotage().await {
        assert!(sabotage.is_seen_in(differences), "{sabotage} makes {differences} differences");
    }
}

/// Every charge has its record and the other way round, once, and the sums agree.
fn check_money(data: &Path) {
    let database = rusqlite::Connection::open(data.join("tollgate.db")).unwrap();
    let number = |query: &str| -> i64 { database.query_row(query, (), |row| row.get(0)).unwrap() };
    let credit = number("SELECT sum(amount) FROM ledger_entries WHERE request IS NULL");
    let charges = number("SELECT sum(amount) FROM ledger_entries WHERE request IS NOT NULL");
    let costs = number("SELECT sum(cost) FROM requests");
    let balance = number("SELECT sum(amount) FROM balances");
    assert!(costs > 0);
    assert_eq!(Nanos(charges), -Nanos(costs));
    assert_eq!(Nanos(balance), Nanos(credit) + Nanos(charges));
    let twice = number("SELECT count(request) - count(DISTINCT request) FROM ledger_entries");
    assert_eq!(twice, 0, "a request is charged twice");
    let mut billed = database.prepare("SELECT id FROM requests WHERE cost > 0").unwrap();
    let mut entries =
        database.prepare("SELECT request FROM ledger_entries WHERE request IS NOT NULL").unwrap();
    let ids = |statement: &mut rusqlite::Statement<'_>| -> BTreeSet<Vec<u8>> {
        statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(ids(&mut billed), ids(&mut entries));
}

#[tokio::test]
async fn a_second_gateway_on_the_same_port_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let first = Gateway::start(&dir.path().join("one"), |_| {}).await;
    let mut second = tests::process::command("gateway");
    second.arg("--data-dir").arg(dir.path().join("two"));
    second.args(["--listen", &first.http.to_string(), "--admin-listen", "127.0.0.1:0"]);
    let output = soon("its end", second.output()).await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(said.contains("--listen") && said.contains(&first.http.to_string()), "{said}");
}
