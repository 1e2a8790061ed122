//! Queries of the request log.

use super::super::usage::RequestQuery;
use super::*;

#[tokio::test]
async fn lists_records_in_pages_newest_first() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    bench.record(ann.account.id, 5).await;
    let mut seen = Vec::new();
    let mut token = Some(String::new());
    while let Some(from) = token {
        let query = RequestQuery::default();
        let page = bench.control.list_requests(&ann, query, 2, &from).await.unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.items.into_iter().map(|view| view.record.id));
        token = page.next;
    }
    assert_eq!(seen.len(), 5);
    let mut unique = seen.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), 5);
    let query = RequestQuery::default();
    let malformed = bench.control.list_requests(&ann, query, 2, "-1").await;
    assert_eq!(field(malformed), "page_token");
}

#[tokio::test]
async fn members_see_and_sum_only_their_own_requests() {
    let bench = Bench::new(Registration::Open).await;
    let (ann, bob) = (bench.member("ann").await, bench.member("bob").await);
    bench.record(ann.account.id, 2).await;
    bench.record(bob.account.id, 3).await;
    let list = async |caller: &Caller, account: Option<&str>| {
        let query = RequestQuery { account: account.map(Into::into), ..RequestQuery::default() };
        let page = bench.control.list_requests(caller, query.clone(), 10, "").await?;
        let summary = bench.control.summarize(caller, query).await?;
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
async fn a_summary_covers_thirty_days_by_default() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    bench.record(ann.account.id, 1).await;
    let sum = async |since| {
        let query = RequestQuery { since, ..RequestQuery::default() };
        bench.control.summarize(&ann, query).await.unwrap().summary.totals
    };
    assert_eq!(sum(None).await.cost, Nanos(7));
    bench.clock.advance(Duration::from_hours(31 * 24));
    assert_eq!(sum(None).await.requests, 0);
    assert_eq!(sum(Some(Timestamp::UNIX_EPOCH)).await.requests, 1);
}

#[tokio::test]
async fn a_summary_of_two_days_is_divided_by_hour() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    bench.record(ann.account.id, 2).await;
    let by_hour = async |hours| {
        let since = bench.clock.now().checked_sub(jiff::SignedDuration::from_hours(hours)).unwrap();
        let query = RequestQuery { since: Some(since), ..RequestQuery::default() };
        let summary = bench.control.summarize(&ann, query).await.unwrap().summary;
        assert_eq!(summary.totals.requests, 2);
        summary.by_hour.into_iter().map(|(start, sum)| (start, sum.requests)).collect::<Vec<_>>()
    };
    let [(start, 2)] = by_hour(48).await[..] else { panic!("one hour has both requests") };
    assert_eq!(start.as_second() % 3_600, 0);
    assert_eq!(by_hour(50).await, []);
}

#[tokio::test]
async fn a_summary_of_two_recent_hours_is_divided_by_minute() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    bench.record(ann.account.id, 2).await;
    let now = bench.clock.now();
    let by_minute = async |since_minutes, until| {
        let since = now.checked_sub(jiff::SignedDuration::from_mins(since_minutes)).unwrap();
        let query = RequestQuery { since: Some(since), until, ..RequestQuery::default() };
        let summary = bench.control.summarize(&ann, query).await.unwrap().summary;
        assert_eq!(summary.totals.requests, 2, "{since_minutes}");
        assert!(summary.by_minute.is_empty() || summary.by_hour.len() == 1);
        summary.by_minute.into_iter().map(|(start, sum)| (start, sum.requests)).collect::<Vec<_>>()
    };
    let [(start, 2)] = by_minute(121, None).await[..] else { panic!("one minute has both") };
    assert_eq!(start.as_second() % 60, 0);
    assert_eq!(by_minute(122, None).await, []);
    bench.clock.advance(Duration::from_hours(25));
    let end = now.checked_add(jiff::SignedDuration::from_mins(1)).unwrap();
    assert_eq!(by_minute(60, Some(end)).await, [], "the log may no longer have it");
}
