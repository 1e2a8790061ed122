//! Tests of the statistics of one upstream.

use super::super::check_results::MAX_FAILED_CHECKS;
use super::*;
use domain::health::BreakerState;
use domain::wire::error::ReportedError;

fn at(seconds: u64) -> (Timestamp, Duration) {
    (Timestamp::from_second(seconds.cast_signed()).unwrap(), Duration::from_secs(seconds))
}

fn fail(stats: &UpstreamStats, seconds: u64) -> Option<Duration> {
    let (at, now) = at(seconds);
    stats.record_failure(stats.generation(), &UpstreamError::CutOff, at, now)
}

#[test]
fn counts_are_of_the_last_five_minutes() {
    let stats = UpstreamStats::default();
    assert_eq!(stats.health(Duration::ZERO).latency, None);
    for second in [0, 59, 60, 250] {
        stats.record_answer(
            stats.generation(),
            Duration::from_millis(40),
            Duration::from_secs(second),
        );
    }
    fail(&stats, 200);
    let counts = |second| {
        let health = stats.health(Duration::from_secs(second));
        (health.requests, health.failures)
    };
    assert_eq!(
        [250, 299, 300, 360, 500, 600].map(counts),
        [(5, 1), (5, 1), (3, 1), (2, 1), (1, 0), (0, 0)]
    );
    let health = stats.health(Duration::from_secs(500));
    assert!(matches!(health.latency.unwrap().p99.as_millis(), 40..=43), "{health:?}");
    let error = health.last_error.unwrap();
    assert_eq!((error.text.as_str(), error.at), ("it closed the answer early", at(200).0));
}

/// Regression test: an upstream that was slow for a while never got another request.
#[test]
fn the_latency_of_an_upstream_without_answers_decays() {
    let stats = UpstreamStats::default();
    stats.record_answer(stats.generation(), Duration::from_millis(200), at(10).1);
    let latency = |seconds| stats.load(at(seconds).1).latency.as_micros();
    assert_eq!([10, 11, 13, 20, 1_000].map(latency), [200_000, 100_000, 25_000, 195, 0]);
    stats.record_answer(stats.generation(), Duration::from_millis(200), at(1_000).1);
    assert_eq!(latency(1_000), 200_000);
    // One that hangs does not become the fastest.
    let stats = Arc::new(stats);
    let _hanging = stats.begin();
    assert_eq!(stats.load(at(1_100).1).latency.as_micros(), 200_000);
}

#[test]
fn half_of_twenty_failures_open_the_breaker_though_others_succeed() {
    let stats = UpstreamStats::default();
    let mut opened = Vec::new();
    for _ in 0..12 {
        stats.record_answer(stats.generation(), Duration::from_millis(40), at(70).1);
        opened.push(fail(&stats, 70).is_some());
    }
    // A success in between is necessary to close it again.
    assert_eq!(opened, (1..=12).map(|pair| pair >= 10).collect::<Vec<_>>());
    assert!(matches!(stats.health(at(70).1).breaker, BreakerState::Open { .. }));
}

#[test]
fn failing_health_checks_deny_requests() {
    let stats = UpstreamStats::default();
    let now = at(1).1;
    let granted = [false, false, true].map(|has_passed| {
        stats.record_check(has_passed);
        stats.permit(now) == Permission::Granted
    });
    assert_eq!(granted, [true, false, true]);
}

fn refused(status: u16, retry_after: Option<&'static str>) -> UpstreamError {
    let mut headers = Box::<hyper::HeaderMap>::default();
    if let Some(value) = retry_after {
        headers.insert("retry-after", value.parse().unwrap());
    }
    UpstreamError::Refused { status, body: ReportedError::default(), headers }
}

#[test]
fn a_reset_lets_requests_through_and_keeps_the_statistics() {
    let stats = UpstreamStats::new(2);
    let now = at(70).1;
    for _ in 0..10 {
        stats.record_answer(stats.generation(), Duration::from_millis(40), now);
        fail(&stats, 70);
    }
    for _ in 0..MAX_FAILED_CHECKS {
        stats.record_check(false);
    }
    stats.credentials().record_failure(CredentialIndex(1), &refused(401, None), now);
    stats.reset(now);
    let health = stats.health(now);
    assert_eq!((health.breaker, health.check), (BreakerState::Closed, None));
    assert!(health.credentials.iter().all(|it| it.pause_left.is_none()), "{health:?}");
    assert_eq!((health.requests, health.failures), (20, 10));
    assert_eq!(stats.permit(now), Permission::Granted);
    // The rate of before the reset does not open it again, five failures in a row do.
    let opened: Vec<_> = (0..5).map(|_| fail(&stats, 71).is_some()).collect();
    assert_eq!(opened, [false, false, false, false, true]);
    // From the next minute on, the rate counts again.
    stats.reset(at(71).1);
    let opened: Vec<_> = (0..12)
        .map(|_| {
            stats.record_answer(stats.generation(), Duration::from_millis(40), at(125).1);
            fail(&stats, 125).is_some()
        })
        .collect();
    assert_eq!(opened, (1..=12).map(|pair| pair >= 10).collect::<Vec<_>>());
}

/// Regression test: requests that were sent before a reset opened the breaker again.
#[test]
fn results_of_requests_from_before_a_reset_are_counted_and_do_not_matter_to_the_breaker() {
    let stats = Arc::new(UpstreamStats::default());
    let (time, now) = at(70);
    let before = stats.begin().generation();
    stats.reset(now);
    for _ in 0..30 {
        let error = UpstreamError::CutOff;
        assert_eq!(stats.record_failure(before, &error, time, now), None);
        assert_eq!(stats.record_broken_answer(before, &error, time, at(125).1), None);
    }
    assert_eq!((stats.health(now).requests, stats.health(at(125).1).failures), (30, 60));
    // Nor do they make the rate too high for one that was sent later.
    assert_eq!(fail(&stats, 125), None);
    let opened: Vec<_> = (0..4).map(|_| fail(&stats, 125).is_some()).collect();
    assert_eq!(opened, [false, false, false, true]);
    // It is open, which an answer to an earlier request does not change.
    assert!(!stats.record_answer(before, Duration::from_millis(40), at(126).1));
    assert!(matches!(stats.health(at(126).1).breaker, BreakerState::Open { .. }));
}

/// Regression test: results from before a reset were counted among the requests, so that half of the later ones could fail
/// without opening the breaker.
#[test]
fn results_of_requests_from_before_a_reset_do_not_lower_the_failure_rate() {
    let stats = Arc::new(UpstreamStats::default());
    let before = stats.begin().generation();
    stats.reset(at(70).1);
    let (time, now) = at(125);
    for _ in 0..15 {
        stats.record_answer(before, Duration::from_millis(40), now);
        stats.record_failure(before, &UpstreamError::CutOff, time, now);
    }
    let opened: Vec<_> = (0..10)
        .map(|_| {
            stats.record_answer(stats.generation(), Duration::from_millis(40), now);
            fail(&stats, 125).is_some()
        })
        .collect();
    assert_eq!(opened, (1..=10).map(|pair| pair == 10).collect::<Vec<_>>());
}

/// Regression test: a refusal of a request that was sent before a reset paused the credentials again.
#[test]
fn refusals_of_requests_from_before_a_reset_are_counted_and_pause_no_credential() {
    let first = CredentialIndex(0);
    for (credentials, status, retry_after) in [
        (0, 429, Some("30")),
        (1, 429, Some("30")),
        (2, 429, Some("30")),
        (2, 503, Some("30")),
        (2, 401, None),
        (2, 402, None),
        (2, 403, None),
    ] {
        let stats = Arc::new(UpstreamStats::new(credentials));
        let (before, now) = (stats.begin().generation(), at(70).1);
        stats.reset(now);
        let error = refused(status, retry_after);
        let is_its_own = stats.record_credential_failure(before, first, &error, now);
        assert_eq!(is_its_own, credentials == 2 && status != 503, "{status}");
        assert_eq!(stats.permit(now), Permission::Granted, "{status}");
        let health = stats.credentials().health(now);
        let refusals = u64::from(status != 503);
        for (index, it) in health.iter().enumerate() {
            let counted = if index == 0 { (1, refusals) } else { (0, 0) };
            assert_eq!((it.pause_left, it.requests, it.refusals), (None, counted.0, counted.1));
        }
        // One that was sent after the reset pauses it.
        let now_sent = stats.begin().generation();
        stats.record_credential_failure(now_sent, first, &error, now);
        assert!(credentials == 0 || stats.credentials().health(now)[0].pause_left.is_some());
    }
}

#[test]
fn an_answer_that_breaks_is_one_request_and_one_failure() {
    let stats = UpstreamStats::default();
    let (time, now) = at(5);
    stats.record_answer(stats.generation(), Duration::from_millis(40), now);
    stats.record_broken_answer(stats.generation(), &UpstreamError::CutOff, time, now);
    let health = stats.health(now);
    assert_eq!((health.requests, health.failures), (1, 1));
}
