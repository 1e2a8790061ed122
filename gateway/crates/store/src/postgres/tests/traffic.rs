//! Tests of the reports of traffic.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::Database;
use crate::fleet::Membership;
use crate::traffic::TrafficReports;
use domain::id::AccountId;
use domain::node::NodeFigures;
use domain::traffic::{Count, ErrorCount, MinuteFigures, MinuteReport, ReportedTraffic};

const HOUR: Duration = Duration::from_hours(1);

fn figures(requests: u64) -> MinuteFigures {
    let error = ErrorCount { code: "a\0b".to_owned(), count: 1, last_at: Timestamp::UNIX_EPOCH };
    let count = Count { requests, errors: 1, tokens: 7 };
    MinuteFigures { count, errors: vec![error], ttft: vec![(3, 2)], ..MinuteFigures::default() }
}

fn report(minute: i64, requests: u64) -> MinuteReport {
    let account = AccountId(Uuid::from_u128(9));
    MinuteReport {
        started_at: Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute),
        total: figures(requests),
        accounts: HashMap::from([(account, figures(1))]),
    }
}

fn requests(found: &ReportedTraffic) -> Vec<u64> {
    let mut minutes: Vec<_> = found.minutes.iter().collect();
    minutes.sort_by_key(|minute| minute.started_at);
    minutes.iter().map(|minute| minute.figures.count.requests).collect()
}

#[tokio::test]
async fn processes_read_the_reports_of_others_by_account_and_in_total() {
    let Some(database) = Database::create("traffic").await else { return };
    let (one, two) = (database.open(1).await.unwrap(), database.open(2).await.unwrap());
    for reports in [vec![report(1, 3)], vec![report(1, 4), report(2, 5)]] {
        one.report_traffic(&reports).await.unwrap();
    }
    one.heartbeat(NodeFigures::default(), HOUR).await.unwrap();
    let all = two.reported_traffic(None, HOUR).await.unwrap();
    assert_eq!(requests(&all), [4, 5]);
    let (first, epoch) = one.node();
    let serving = all.serving.iter().find(|process| process.node == first).unwrap();
    assert_eq!((serving.epoch, all.minutes[0].process), (epoch, *serving));
    assert_eq!(all.minutes[0].figures.errors[0].code, "a\u{fffd}b");
    let account = AccountId(Uuid::from_u128(9));
    assert_eq!(requests(&two.reported_traffic(Some(account), HOUR).await.unwrap()), [1, 1]);
    let other = AccountId(Uuid::from_u128(8));
    assert_eq!(requests(&two.reported_traffic(Some(other), HOUR).await.unwrap()), [0; 0]);
    assert_eq!(requests(&one.reported_traffic(None, HOUR).await.unwrap()), [0; 0], "its own");
    // A later process of the node reads those of the earlier one.
    let again = database.open(1).await.unwrap();
    assert_eq!(requests(&again.reported_traffic(None, HOUR).await.unwrap()), [4, 5]);

    let client = database.connect().await;
    let age = "UPDATE traffic_minutes SET written_at = now() - interval '62 min'";
    client.batch_execute(age).await.unwrap();
    assert_eq!(requests(&two.reported_traffic(None, HOUR).await.unwrap()), [0; 0]);
    two.report_traffic(&[report(3, 6), report(4, 6)]).await.unwrap();
    let left = client.query_one("SELECT count(*) FROM traffic_minutes", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), 2);
    for store in [one, two] {
        store.close();
    }
    database.remove(again).await;
}
