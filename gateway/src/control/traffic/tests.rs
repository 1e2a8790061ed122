//! The last hour as it is told, second by second.

use std::num::NonZeroU32;

use jiff::Timestamp;
use uuid::Uuid;

use super::*;
use domain::endpoint::Endpoint;
use domain::id::{KeyId, RequestId};
use domain::money::Nanos;
use domain::record::RequestStatus;
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
    }
}

fn good() -> RequestRecord {
    record(1, RequestStatus::Completed, None)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn rates_are_of_the_last_ten_seconds_that_are_over() {
    let traffic = Traffic::default();
    for second in 100..110 {
        traffic.record_ended(&[good(), good()], seconds(second));
    }
    let rate = |second| {
        let history = traffic.history(None, seconds(second));
        (history.requests_per_second, history.tokens_per_second)
    };
    assert_eq!(rate(109), (1.8, 72.0));
    assert_eq!(rate(110), (2.0, 80.0));
    assert_eq!(rate(114), (1.2, 48.0));
    assert_eq!(rate(120), (0.0, 0.0));
}

#[test]
fn an_hour_is_told_by_the_minute() {
    let traffic = Traffic::default();
    traffic.record_ended(&[good()], seconds(30));
    traffic.record_ended(&[record(1, RequestStatus::Rejected, Some("c")), good()], seconds(61));
    let minutes = |second| traffic.history(None, seconds(second)).minutes;
    let told = minutes(61);
    assert_eq!(told.len(), 60);
    assert_eq!(told[58], Count { requests: 1, errors: 0, tokens: 40 });
    assert_eq!(told[59], Count { requests: 2, errors: 1, tokens: 80 });
    assert!(told[..58].iter().all(|minute| *minute == Count::default()));
    assert_eq!(minutes(60 * 60)[0], told[59], "the first minute is over an hour ago");
    assert_eq!(minutes(61 * 60), vec![Count::default(); 60]);
}

#[test]
fn accounts_are_told_apart_and_forgotten_when_they_are_idle() {
    let traffic = Traffic::default();
    traffic.record_ended(&[good()], seconds(0));
    traffic.record_ended(&[record(2, RequestStatus::Completed, None)], seconds(1_800));
    let of = |account| {
        let minutes =
            traffic.history(Some(AccountId(Uuid::from_u128(account))), seconds(1_800)).minutes;
        minutes.iter().map(|minute| minute.requests).sum::<u64>()
    };
    assert_eq!((of(1), of(2), of(3)), (1, 1, 0));
    traffic.record_ended(&[record(3, RequestStatus::Completed, None)], seconds(3_600));
    assert_eq!(traffic.lock().accounts.len(), 2);
}

#[test]
fn it_holds_so_many_accounts_and_no_more() {
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
fn errors_are_counted_by_their_code_or_their_end() {
    let traffic = Traffic::default();
    let failed = |code| record(1, RequestStatus::Failed, code);
    traffic.record_ended(&[failed(Some("a")), failed(None), failed(Some("a"))], seconds(0));
    traffic.record_ended(&[record(1, RequestStatus::Cancelled, Some("b")), good()], seconds(0));
    let told = |second| {
        let errors = traffic.history(None, seconds(second)).errors;
        errors.into_iter().map(|error| (error.code, error.count)).collect::<Vec<_>>()
    };
    assert_eq!(told(0), [("a".to_owned(), 2), ("failed".to_owned(), 1)]);
    assert_eq!(
        traffic.history(None, seconds(0)).errors[0].last_at.to_string(),
        "1970-01-01T00:00:02Z"
    );
    assert_eq!(told(3_600), []);
}

#[test]
fn codes_beyond_a_number_are_counted_together() {
    let traffic = Traffic::default();
    let failed = |code: u32| record(1, RequestStatus::Failed, Some(&code.to_string()));
    (0..100).for_each(|code| traffic.record_ended(&[failed(code)], seconds(0)));
    let told = traffic.history(None, seconds(0)).errors;
    assert_eq!((told.len(), told[0].code.as_str(), told[0].count), (33, "other", 68));
    // an hour later there is room again
    traffic.record_ended(&[failed(99)], seconds(3_600));
    let told = traffic.history(None, seconds(3_600)).errors;
    assert_eq!((told.len(), told[0].code.as_str()), (1, "99"));
}

#[test]
fn the_time_to_the_first_piece_is_told_of_the_last_five_minutes() {
    let traffic = Traffic::default();
    traffic.record_ended(&[good()], seconds(60));
    let p50 = |second| traffic.history(None, seconds(second)).ttft.map(|ttft| ttft.p50.as_millis());
    assert!(matches!(p50(60), Some(400..=425)), "{:?}", p50(60));
    assert!(p50(359).is_some());
    assert_eq!(p50(360), None);
}
