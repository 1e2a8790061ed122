//! Short versions of the drills: a fault loses, duplicates and leaks nothing.
//!
//! `crash.rs` contains the one for `kill -9`.

use std::time::Duration;

use tests::drill::clients_gone::{ClientCounts, ClientsGone};
use tests::drill::deployment::Transport;
use tests::drill::edge::{EdgeSettings, HostileClients};
use tests::drill::failover::{Failover, FailoverSettings};
use tests::drill::fleet::{Fault, FleetDrill, FleetSettings};
use tests::drill::hostile::{Attack, AttackKind, Hostile};
use tests::drill::overspend::Overspend;
use tests::drill::round::{Drill, Figure, Round};
use tests::drill::upstream::{HostileUpstreams, UpstreamSettings};

fn check(round: &Round) {
    assert!(round.verdict.differences.is_empty(), "{round}");
    assert!(round.verdict.upstream > 0, "{round}");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_and_oversized_requests_spend_exactly_the_balance() {
    let round = Overspend::prepare(300, 13).await.round().await;
    check(&round);
    assert!(round.verdict.rejected > 0, "{round}");
    assert!(!round.figures.contains(&Figure::Count("served by lenient upstreams", 0)), "{round}");
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnecting_clients_stop_their_upstreams_and_leak_nothing() {
    let counts = ClientCounts { clients: 16, requests: 16 };
    let round = ClientsGone::prepare(counts).await.round().await;
    check(&round);
    assert!(round.verdict.cancelled > 0 && round.verdict.seen > 0, "{round}");
}

#[tokio::test(flavor = "multi_thread")]
async fn honest_clients_are_served_during_attacks_of_every_kind() {
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

#[tokio::test(flavor = "multi_thread")]
async fn hostile_clients_leave_nothing_behind() {
    let hold = Duration::from_millis(50);
    let pause = Duration::from_millis(1);
    let settings = EdgeSettings { connections: 4, concurrent: 4, hold, pause };
    check(&HostileClients::prepare(settings).await.round().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_notices_that_one_of_two_deployments_fails() {
    for transport in [Transport::Plain, Transport::Tls, Transport::Http2] {
        // The deadline is longer than a busy machine takes.
        let (phase, deadline_ms) = (Duration::from_millis(300), 5_000);
        let settings = FailoverSettings { clients: 2, phase, deadline_ms, transport };
        check(&Failover::prepare(settings).await.round().await);
    }
}

/// Runs a round of each fault, unless there is no PostgreSQL server.
async fn check_fleet(faults: &[Fault]) {
    let settings = FleetSettings {
        clients: 3,
        store_outage: Duration::from_secs(3),
        faults: faults.to_vec(),
        clock_skew_seconds: 300,
        postgres_bin: None,
        seed: 7,
    };
    let Some(mut drill) = FleetDrill::prepare(settings).await else { return };
    for _ in faults {
        check(&drill.round().await);
    }
    drill.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_on_one_database_survive_a_kill_a_partition_and_a_removal() {
    check_fleet(&[Fault::Partition, Fault::Removal, Fault::Kill]).await;
}

/// Without the programs of PostgreSQL, only the outage is left.
#[tokio::test(flavor = "multi_thread")]
async fn gateways_survive_an_outage_a_crash_and_a_failover_of_their_database() {
    check_fleet(&[Fault::StoreCrash, Fault::Promotion, Fault::StoreOutage]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_upstreams_cause_no_false_success() {
    let settings = UpstreamSettings { requests: 1, clients: 4, max_wait: None, seed: 7 };
    check(&HostileUpstreams::prepare(settings).await.round().await);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_stops_admission_and_freeing_it_restores_service() {
    use tests::drill::disk_full::{Disk, DiskFull};
    for disk in [Disk::Limited, Disk::ROOMY] {
        // mounting a small disk is not permitted everywhere
        if disk.is_possible().await {
            let round = DiskFull::prepare(disk).await.round().await;
            check(&round);
            assert!(round.verdict.rejected > 0, "{round}");
        }
    }
}

/// Returns all findings of the gateway's diagnosis.
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
async fn a_full_disk_is_reported_as_a_full_disk() {
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
                client.send_request(Shape::Chat, "hi", None).await.expect("an answer");
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
        assert!(!reason.contains('/'), "unauthenticated clients see no path: {reason}");

        let credit = v1::CreditAccountRequest {
            account: "alice".to_owned(),
            amount_usd: "1".to_owned(),
            reason: "a test".to_owned(),
        };
        // the journal may be full first: then the database accepts a few more changes
        let refused = async {
            loop {
                if let Err(refused) = operator.accounts().credit_account(credit.clone()).await {
                    return refused;
                }
            }
        };
        let refused = with_timeout("a refused credit", refused).await;
        assert!(refused.message().contains("the gateway's disk"), "{refused:?}");
        // a small database fits within the limit on file sizes
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
        // the limit on file sizes may stop the journal alone
        if disk != Disk::Limited {
            let database: Vec<_> = of(v1::DiagnosticArea::Database).collect();
            assert_eq!(database[0].severity(), v1::Severity::Problem, "{database:?}");
            assert!(database[0].finding.contains("the gateway's disk"), "{database:?}");
            assert!(database[0].remedy.contains("free space"), "{database:?}");
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

/// Regression test: the write-ahead log grew until the disk was full, and then no checkpoint was
/// possible.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_smaller_than_the_write_ahead_log_limit_keeps_serving() {
    use tests::drill::disk_full::{Disk, DiskFull};
    let disk = Disk::Small(12);
    if disk.is_possible().await {
        let round = DiskFull::prepare(disk).await.serve(3_000).await;
        check(&round);
        assert_eq!(round.verdict.rejected, 0, "{round}");
    }
}
