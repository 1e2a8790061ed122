//! Ledger queries, verification, exports and backups.

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::super::usage::RequestQuery;
use super::*;
use domain::verification::Difference;

#[tokio::test]
async fn members_list_their_own_entries_and_operators_all_entries() {
    let bench = Bench::new(Registration::Open).await;
    let (ann, bob) = (bench.member("ann").await, bench.member("bob").await);
    bench.record(ann.account.id, 3).await;
    bench.record(bob.account.id, 2).await;
    let mut seen = Vec::new();
    let mut token = Some(String::new());
    while let Some(from) = token {
        let page = bench.control.list_entries(&ann, None, 3, &from).await.unwrap();
        seen.extend(page.items.into_iter().map(|view| (view.account, view.entry.amount.0)));
        token = page.next;
    }
    let amounts: Vec<_> = seen.iter().map(|(_, amount)| *amount).collect();
    assert_eq!(amounts, [-7, -7, -7, 5_000_000_000]);
    assert!(seen.iter().all(|(account, _)| account == "ann"));
    let all = bench.control.list_entries(&bench.operator, None, 100, "").await.unwrap();
    assert_eq!(all.items.len(), 8, "the operator has an entry, too");
    let of_bob = bench.control.list_entries(&bench.operator, Some("bob"), 100, "").await.unwrap();
    assert_eq!(of_bob.items.len(), 3);
    let hidden = bench.control.list_entries(&ann, Some("bob"), 100, "").await;
    assert!(matches!(hidden, Err(ControlError::NotFound(_))));
    assert_eq!(field(bench.control.list_entries(&ann, None, 3, "x").await), "page_token");
}

#[tokio::test]
async fn verification_covers_all_records_and_requires_an_operator() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    bench.record(ann.account.id, 4).await;
    let refused = bench.control.verify_ledger(&ann).await;
    assert!(matches!(refused, Err(ControlError::Forbidden(_))));
    let verification = bench.control.verify_ledger(&bench.operator).await.unwrap();
    assert!(verification.proof.is_consistent(), "{verification:?}");
    assert_eq!(
        (verification.proof.requests, verification.proof.charges, verification.under_way),
        (4, 4, 0)
    );
}

#[tokio::test]
async fn verification_reports_a_balance_that_permanently_differs_in_memory() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    bench.control.ledger.add_account(ann.account.id, Nanos(11));
    let verification = bench.control.verify_ledger(&bench.operator).await.unwrap();
    assert_eq!((verification.proof.found, verification.under_way), (1, 0));
    let (difference, account) = &verification.differences[0];
    assert!(matches!(difference, Difference::Memory { .. }), "{difference:?}");
    assert_eq!(account.as_deref(), Some("ann"));
}

#[tokio::test]
async fn an_export_is_complete_and_restricted_to_the_members_account() {
    let bench = Bench::new(Registration::Open).await;
    let (ann, bob) = (bench.member("ann").await, bench.member("bob").await);
    bench.record(ann.account.id, 700).await;
    bench.record(bob.account.id, 10).await;
    let export = async |caller: &Caller, stop: &CancellationToken| {
        let pages =
            bench.control.export_requests(caller, RequestQuery::default(), stop.clone()).await;
        pages.unwrap().collect::<Vec<_>>().await
    };
    let stop = CancellationToken::new();
    for (caller, expected) in [(&ann, 700), (&bob, 10), (&bench.operator, 710)] {
        let pages: Result<Vec<_>, _> = export(caller, &stop).await.into_iter().collect();
        let ids: Vec<_> = pages.unwrap().concat().iter().map(|view| view.record.id).collect();
        assert_eq!(ids.len(), expected);
        let mut unique = ids.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), expected);
    }
    stop.cancel();
    let truncated = export(&ann, &stop).await;
    assert!(
        matches!(truncated[..], [Err(ControlError::Busy(_))]),
        "a truncated export ends with an error"
    );
}

#[tokio::test]
async fn a_backup_requires_an_operator() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    assert!(matches!(bench.control.backup(&ann).await, Err(ControlError::Forbidden(_))));
    assert!(bench.control.backup(&bench.operator).await.unwrap().bytes > 0);
}
