//! The drills in their quick forms: what goes wrong loses nothing, doubles nothing and leaks nothing.
//!
//! `crash.rs` has that of `kill -9`.

use std::time::Duration;

use tests::drill::clients_gone::{ClientCounts, ClientsGone};
use tests::drill::hostile::{Attack, AttackKind, Hostile};
use tests::drill::overspend::Overspend;
use tests::drill::round::{Drill, Figure, Round};

fn check(round: &Round) {
    assert!(round.verdict.differences.is_empty(), "{round}");
    assert!(round.verdict.upstream > 0, "{round}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_once_spend_what_there_is_and_a_dollar_serves_as_much_as_it_pays_for() {
    let round = Overspend::prepare(300, 13).await.round().await;
    check(&round);
    assert!(round.verdict.rejected > 0, "{round}");
    assert!(!round.figures.contains(&Figure::Count("served by lenient upstreams", 0)), "{round}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_leave_stop_their_upstreams_and_leave_nothing_behind() {
    let counts = ClientCounts { clients: 16, requests: 16 };
    let round = ClientsGone::prepare(counts).await.round().await;
    check(&round);
    assert!(round.verdict.cancelled > 0 && round.verdict.seen > 0, "{round}");
}

#[tokio::test(flavor = "multi_thread")]
async fn attackers_of_every_kind_at_once_keep_honest_clients_served() {
    let kinds = vec![
        AttackKind::Crumbs,
        AttackKind::Silent,
        AttackKind::Revoked,
        AttackKind::Endless,
        AttackKind::Deaf,
    ];
    let duration = Duration::from_secs(2);
    let attack = Attack { duration, kinds, clients: 6, max_slowdown: None };
    check(&Hostile::prepare(attack).await.round().await);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_without_room_stops_admission_and_service_comes_back_by_itself() {
    use tests::drill::disk_full::{Disk, DiskFull};
    for disk in [Disk::Limited, Disk::ROOMY] {
        // to mount a small disk is not allowed everywhere
        if disk.is_possible().await {
            let round = DiskFull::prepare(disk).await.round().await;
            check(&round);
            assert!(round.verdict.rejected > 0, "{round}");
        }
    }
}

/// All that the gateway says of itself.
#[cfg(target_os = "linux")]
async fn findings(operator: &tests::Session) -> Vec<proto::v1::DiagnoseResponse> {
    let request = proto::v1::DiagnoseRequest { send_requests: false };
    let mut found = operator.diagnostics().diagnose(request).await.unwrap().into_inner();
    let mut all = Vec::new();
    while let Some(finding) = found.message().await.unwrap() {
        all.push(finding);
    }
    all
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_without_room_is_told_as_what_it_is() {
    use proto::v1;
    use tests::drill::client::Shape;
    use tests::drill::disk_full::{Disk, DiskFull};
    use tests::http::Request;
    use tests::with_timeout;

    for disk in [Disk::Limited, Disk::ROOMY] {
        if !disk.is_possible().await {
            continue;
        }
        let drill = DiskFull::prepare(disk).await;
        let (rig, http) = (drill.rig(), drill.rig().gateway().http);
        let operator = rig.operator().await;
        let customer = rig.customer("alice").await;
        let client = rig.client(&customer, tests::drill::rig::MODEL);
        let ready = async || Request::get(http, "/readyz").answer().await;
        assert_eq!(ready().await.status, 200);

        drill.fill();
        let full = async {
            loop {
                client.ask(Shape::Chat, "hi", None).await.expect("an answer");
                let answer = ready().await;
                if answer.status != 200 {
                    return answer;
                }
            }
        };
        let answer = with_timeout("unreadiness", full).await;
        let body = answer.json();
        assert_eq!((answer.status, body["status"].as_str()), (503, Some("unavailable")));
        let reason = body["reason"].as_str().unwrap().to_owned();
        assert!(
            ["the gateway's disk", "the journal"].iter().any(|it| reason.contains(it)),
            "{reason}"
        );
        assert!(!reason.contains('/'), "no path is told to strangers: {reason}");

        let credit = v1::CreditAccountRequest {
            account: "alice".to_owned(),
            amount_usd: "1".to_owned(),
            reason: "a test".to_owned(),
        };
        // what is full first may be the journal: then the database takes a few more changes
        let refused = async {
            loop {
                if let Err(refused) = operator.accounts().credit_account(credit.clone()).await {
                    return refused;
                }
            }
        };
        let refused = with_timeout("a refused credit", refused).await;
        assert!(refused.message().contains("the gateway's disk"), "{refused:?}");
        // a small database fits below the limit on file sizes
        if disk != Disk::Limited {
            let mut backup = operator.maintenance();
            let refused = match backup.backup(v1::BackupRequest {}).await {
                Err(refused) => refused,
                Ok(answer) => answer.into_inner().message().await.unwrap_err(),
            };
            assert!(refused.message().contains("no room on the gateway's disk"), "{refused:?}");
        }

        let found = with_timeout("the findings", findings(&operator)).await;
        let of = |area| found.iter().filter(move |it| it.area() == area);
        for finding in of(v1::DiagnosticArea::Ledger) {
            assert!(!finding.finding.contains("stored balance"), "{finding:?}");
            assert!(!finding.remedy.contains("ctl account credit"), "{finding:?}");
        }
        // what a limit on file sizes stops may be the journal alone
        if disk != Disk::Limited {
            let database: Vec<_> = of(v1::DiagnosticArea::Database).collect();
            assert_eq!(database[0].severity(), v1::Severity::Problem, "{database:?}");
            assert!(database[0].finding.contains("the gateway's disk"), "{database:?}");
            assert!(database[0].remedy.contains("make room"), "{database:?}");
        }

        drill.clear();
        let again = async { while ready().await.status != 200 {} };
        with_timeout("readiness", again).await;
        assert_eq!(rig.wait_until_idle().await, None);
        let verdict = operator.ledger().verify_ledger(v1::VerifyLedgerRequest {}).await.unwrap();
        assert!(verdict.into_inner().ok);
        let log = rig.gateway().log();
        assert!(!log.contains("does not add up"), "{log}");
    }
}

/// The write-ahead log grew until the disk was full, and then could not be folded into the database.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_smaller_than_the_write_ahead_log_may_grow_serves_on() {
    use tests::drill::disk_full::{Disk, DiskFull};
    let disk = Disk::Small(12);
    if disk.is_possible().await {
        let round = DiskFull::prepare(disk).await.serve(3_000).await;
        check(&round);
        assert_eq!(round.verdict.rejected, 0, "{round}");
    }
}
