//! The request log, read.

use super::super::usage::RequestQuery;
use super::*;

#[tokio::test]
async fn records_are_listed_page_by_page_newest_first() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    bench.record(ann.account.id, 5).await;
    let mut seen = Vec::new();
    let mut token = Some(String::new());
    while let Some(from) = token {
        let choice = RequestQuery::default();
        let page = bench.control.list_requests(&ann, choice, 2, &from).await.unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.items.into_iter().map(|view| view.record.id));
        token = page.next;
    }
    assert_eq!(seen.len(), 5);
    let mut unique = seen.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), 5);
    let choice = RequestQuery::default();
    let strange = bench.control.list_requests(&ann, choice, 2, "-1").await;
    assert_eq!(field(strange), "page_token");
}

#[tokio::test]
async fn members_see_and_sum_their_own_requests_only() {
    let bench = Bench::new(Registration::Open).await;
    let (ann, bob) = (bench.member("ann").await, bench.member("bob").await);
    bench.record(ann.account.id, 2).await;
    bench.record(bob.account.id, 3).await;
    let list = async |caller: &Caller, account: Option<&str>| {
        let choice = RequestQuery { account: account.map(Into::into), ..RequestQuery::default() };
        let page = bench.control.list_requests(caller, choice.clone(), 10, "").await?;
        let summary = bench.control.summarize(caller, choice).await?;
        assert_eq!(summary.summary.totals.requests, page.items.len() as u64);
        Ok::<_, ControlError>(page.items)
    };
    assert_eq!(list(&ann, None).await.unwrap().len(), 2);
    assert_eq!(list(&ann, Some("ann")).await.unwrap()[0].account, "ann");
    assert_eq!(list(&bench.operator, None).await.unwrap().len(), 5);
    assert_eq!(list(&bench.operator, Some("bob")).await.unwrap().len(), 3);
    for caller in [&ann, &bench.operator] {
        let missing = list(caller, Some("nix")).await.unwrap_err();
        assert!(matches!(missing, ControlError::NotFound(_)), "{missing:?}");
    }
    assert!(matches!(list(&ann, Some("bob")).await, Err(ControlError::NotFound(_))));

    let of_bob = list(&bob, None).await.unwrap()[0].record.id.to_string();
    assert!(bench.control.get_request(&bob, &of_bob).await.is_ok());
    assert!(bench.control.get_request(&bench.operator, &of_bob).await.is_ok());
    let hidden = bench.control.get_request(&ann, &of_bob).await.unwrap_err().to_string();
    let missing = bench.control.get_request(&ann, "nix").await.unwrap_err().to_string();
    assert_eq!(hidden.replace(&of_bob, "nix"), missing);
}

#[tokio::test]
async fn sums_begin_thirty_days_ago() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    bench.record(ann.account.id, 1).await;
    let sum = async |since| {
        let choice = RequestQuery { since, ..RequestQuery::default() };
        bench.control.summarize(&ann, choice).await.unwrap().summary.totals
    };
    assert_eq!(sum(None).await.cost, Nanos(7));
    bench.clock.advance(Duration::from_hours(31 * 24));
    assert_eq!(sum(None).await.requests, 0);
    assert_eq!(sum(Some(Timestamp::UNIX_EPOCH)).await.requests, 1);
}
