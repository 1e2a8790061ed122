//! Statistics of the last hour at given monotonic times.

use std::num::NonZeroU32;

use jiff::Timestamp;
use uuid::Uuid;

use super::*;
use domain::endpoint::Endpoint;
use domain::id::{KeyId, RequestId};
use domain::money::Nanos;
use domain::record::RequestStatus;
use domain::traffic::Count;
use domain::usage::{Tokens, Usage, UsageBasis};

fn record(account: u128, status: RequestStatus, error_code: Option<&str>) -> RequestRecord {
    RequestRecord {
        id: RequestId(Uuid::nil()),
        account: AccountId(Uuid::from_u128(account)),
        key: KeyId::new("k"),
        endpoint: Endpoint::ChatCompletions,
        model: None,
        deployment: None,
        stream: false,
        status,
        http_status: None,
        error_code: error_code.map(str::to_owned),
        usage: Some(Usage { input: Tokens(30), output: Tokens(10), ..Usage::default() }),
        basis: UsageBasis::Upstream,
        cost: None,
        overrun: Nanos::ZERO,
        price_version: None,
        started_at: Timestamp::UNIX_EPOCH,
        duration: Duration::from_secs(2),
        ttft: Some(Duration::from_millis(400)),
        notes: Vec::new(),
        idempotency: None,
        count: NonZeroU32::MIN,
        trace: None,
    }
}

fn good() -> RequestRecord {
    record(1, RequestStatus::Completed, None)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn rates_cover_the_last_ten_completed_seconds() {
    let traffic = Traffic::default();
    for second in 100..110 {
        traffic.record_ended(&[good(), good()], seconds(second));
    }
    let rate = |second| {
        let history = traffic.figures(None, seconds(second)).into_history();
        (history.requests_per_second, history.tokens_per_second)
    };
    assert_eq!(rate(109), (1.8, 72.0));
    assert_eq!(rate(110), (2.0, 80.0));
    assert_eq!(rate(114), (1.2, 48.0));
    assert_eq!(rate(120), (0.0, 0.0));
}

#[test]
fn the_history_has_a_count_per_minute() {
    let traffic = Traffic::default();
    traffic.record_ended(&[good()], seconds(30));
    traffic.record_ended(&[record(1, RequestStatus::Rejected, Some("c")), good()], seconds(61));
    let minutes = |second| traffic.figures(None, seconds(second)).into_history().minutes;
    let actual = minutes(61);
    assert_eq!(actual.len(), 60);
    assert_eq!(actual[58], Count { requests: 1, errors: 0, tokens: 40 });
    assert_eq!(actual[59], Count { requests: 2, errors: 1, tokens: 80 });
    assert!(actual[..58].iter().all(|minute| *minute == Count::default()));
    assert_eq!(minutes(60 * 60)[0], actual[59], "the first minute has left the window");
    assert_eq!(minutes(61 * 60), vec![Count::default(); 60]);
}

#[test]
fn counts_per_account_and_removes_idle_accounts() {
    let traffic = Traffic::default();
    traffic.record_ended(&[good()], seconds(0));
    traffic.record_ended(&[record(2, RequestStatus::Completed, None)], seconds(1_800));
    let of = |account| {
        let minutes = traffic
            .figures(Some(AccountId(Uuid::from_u128(account))), seconds(1_800))
            .into_history()
            .minutes;
        minutes.iter().map(|minute| minute.requests).sum::<u64>()
    };
    assert_eq!((of(1), of(2), of(3)), (1, 1, 0));
    traffic.record_ended(&[record(3, RequestStatus::Completed, None)], seconds(3_600));
    assert_eq!(traffic.lock().accounts.len(), 2);
}

#[test]
fn evicts_accounts_beyond_the_maximum() {
    let traffic = Traffic::default();
    let first = MAX_ACCOUNTS as u128;
    for account in 0..=first {
        traffic.record_ended(&[record(account, RequestStatus::Completed, None)], seconds(5));
    }
    let state = traffic.lock();
    assert!(state.accounts.len() <= MAX_ACCOUNTS, "{}", state.accounts.len());
    let has = |account| state.accounts.contains_key(&AccountId(Uuid::from_u128(account)));
    assert!(!has(0) && has(first - 1) && has(first));
}

#[test]
fn counts_errors_by_code_or_status() {
    let traffic = Traffic::default();
    let failed = |code| record(1, RequestStatus::Failed, code);
    traffic.record_ended(&[failed(Some("a")), failed(None), failed(Some("a"))], seconds(0));
    traffic.record_ended(&[record(1, RequestStatus::Cancelled, Some("b")), good()], seconds(0));
    let actual = |second| {
        let errors = traffic.figures(None, seconds(second)).into_history().errors;
        errors.into_iter().map(|error| (error.code, error.count)).collect::<Vec<_>>()
    };
    assert_eq!(actual(0), [("a".to_owned(), 2), ("failed".to_owned(), 1)]);
    assert_eq!(
        traffic.figures(None, seconds(0)).into_history().errors[0].last_at.to_string(),
        "1970-01-01T00:00:02Z"
    );
    assert_eq!(actual(3_600), []);
}

#[test]
fn counts_codes_beyond_the_maximum_together() {
    let traffic = Traffic::default();
    let failed = |code: u32| record(1, RequestStatus::Failed, Some(&code.to_string()));
    (0..100).for_each(|code| traffic.record_ended(&[failed(code)], seconds(0)));
    let actual = traffic.figures(None, seconds(0)).into_history().errors;
    assert_eq!((actual.len(), actual[0].code.as_str(), actual[0].count), (33, "other", 68));
    // An hour later, unused codes are replaced.
    traffic.record_ended(&[failed(99)], seconds(3_600));
    let actual = traffic.figures(None, seconds(3_600)).into_history().errors;
    assert_eq!((actual.len(), actual[0].code.as_str()), (1, "99"));
}

#[test]
fn the_time_to_the_first_token_covers_the_last_five_minutes() {
    let traffic = Traffic::default();
    traffic.record_ended(&[good()], seconds(60));
    let p50 = |second| {
        traffic.figures(None, seconds(second)).into_history().ttft.map(|ttft| ttft.p50.as_millis())
    };
    assert!(matches!(p50(60), Some(400..=425)), "{:?}", p50(60));
    assert!(p50(359).is_some());
    assert_eq!(p50(360), None);
}

#[test]
fn the_reports_of_another_gateway_add_up_to_what_it_counted() {
    let traffic = Traffic::default();
    traffic.record_ended(&[good(), record(1, RequestStatus::Failed, Some("a"))], seconds(30));
    traffic.record_ended(&[record(2, RequestStatus::Completed, None)], seconds(70));
    let own = traffic.figures(None, seconds(75)).into_history();
    let mut sum = Figures::default();
    for (minute, second) in [(0, None), (1, Some(75))] {
        let report = traffic.lock().total.report(minute, second);
        sum.recent.add(report.recent);
        sum.add_minute(&report, seconds(75 - minute * 60));
    }
    assert_eq!(sum.into_history(), own);
    // Minutes that are over are not part of the history.
    let mut late = Figures::default();
    late.add_minute(&traffic.lock().total.report(0, None), seconds(3_600));
    assert_eq!(late.into_history(), Figures::default().into_history());
}
