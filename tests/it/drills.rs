//! The drills in their quick forms: what goes wrong loses nothing, doubles nothing and leaks nothing.
//!
//! `crash.rs` has that of `kill -9`.

use tests::drill::clients_gone::{ClientsGone, Crowd};
use tests::drill::overspend::Overspend;
use tests::drill::round::{Drill, Round};

fn check(round: &Round) {
    assert!(round.verdict.differences.is_empty(), "{round}");
    assert!(round.verdict.upstream > 0, "{round}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_once_spend_what_there_is_and_a_dollar_serves_as_much_as_it_pays_for() {
    let round = Overspend::prepare(300).await.round().await;
    check(&round);
    assert!(round.verdict.rejected > 0, "{round}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_leave_stop_their_upstreams_and_leave_nothing_behind() {
    let crowd = Crowd { clients: 16, requests: 16 };
    let round = ClientsGone::prepare(crowd).await.round().await;
    check(&round);
    assert!(round.verdict.cancelled > 0 && round.verdict.seen > 0, "{round}");
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
