//! Tokens per minute and per month.

use super::*;

fn tpm(tokens: u64) -> [Limits; 3] {
    [Limits { tpm: Some(tokens), ..NONE }, NONE, NONE]
}

fn monthly(tokens: u64) -> [Limits; 3] {
    [Limits { monthly_tokens: Some(tokens), ..NONE }, NONE, NONE]
}

#[test]
fn tokens_are_reserved_before_they_are_used_and_given_back() {
    let fixture = Fixture::new();
    let limits = tpm(100);
    let permit = fixture.decide(limits, demand(20, 60), 0).permit.unwrap();
    let refused = fixture.decide(limits, demand(20, 60), 1_000).permit.unwrap_err();
    assert_eq!(refused.cause, ExceededCause::Wait(Duration::from_mins(1)));
    permit.settle(30, || Duration::from_secs(2));
    assert_eq!(fixture.used(limits[0], 2_000), [(LimitKind::Tokens, 30)]);
    assert!(fixture.decide(limits, demand(20, 50), 2_000).permit.is_ok());
}

#[test]
fn little_room_reserves_what_there_is_and_less_than_an_eighth_waits() {
    let fixture = Fixture::new();
    let limits = tpm(1_000);
    let _first = fixture.decide(limits, demand(500, 100), 0).permit.unwrap();
    let huge = Demand { max_answer: 100_000, ..demand(50, 1_024) };
    let second = fixture.decide(limits, huge, 0).permit.unwrap();
    assert_eq!(fixture.used(limits[0], 0), [(LimitKind::Tokens, 1_000)]);
    assert_eq!(second.cap(), None, "a minute's limit does not shorten an answer");
    second.settle(300, || Duration::ZERO);
    let third = fixture.decide(limits, huge, 0).permit.unwrap_err();
    assert_eq!(third.kind, LimitKind::Tokens);
}

#[test]
fn the_largest_numbers_fill_a_minute_and_no_more() {
    let fixture = Fixture::new();
    let limits = tpm(100);
    let decide = |millis| fixture.decide(limits, demand(1, 1), millis).permit;
    let permits: Vec<_> = (0..3).map(|_| decide(0).unwrap()).collect();
    for (second, permit) in (1..).zip(permits) {
        permit.settle(u64::MAX, || Duration::from_secs(second));
    }
    let refused = decide(62_500).unwrap_err();
    assert_eq!(refused.cause, ExceededCause::Wait(Duration::from_millis(1_500)));
    assert!(decide(64_000).is_ok());
}

#[test]
fn an_answer_that_outgrows_a_minute_goes_on_and_those_after_it_wait() {
    let fixture = Fixture::new();
    let limits = tpm(1_000);
    let mut permit = fixture.decide(limits, demand(10, 100), 0).permit.unwrap();
    assert!(permit.ensure_covered(2_000, || Duration::from_secs(10)));
    assert!(fixture.used(limits[0], 10_000)[0].1 > 1_000);
    permit.settle(3_000, || Duration::from_secs(20));
    assert_eq!(fixture.used(limits[0], 20_000), [(LimitKind::Tokens, 3_000)]);
    let refused = fixture.admit(limits, 20_000).unwrap_err();
    // By then, the growth in its tenth second has expired.
    assert_eq!(refused.cause, ExceededCause::Wait(Duration::from_secs(51)));
    assert!(fixture.admit(limits, 70_999).is_err());
    assert!(fixture.admit(limits, 71_000).is_ok());
}

#[test]
fn a_request_larger_than_a_limit_is_refused_as_too_large() {
    let fixture = Fixture::new();
    let refused = fixture.decide(tpm(100), demand(95, 50), 0).permit.unwrap_err();
    assert_eq!(refused.cause, ExceededCause::TooLarge { needed: 107 });
    let refused = fixture.decide(monthly(100), demand(100, 50), 0).permit.unwrap_err();
    assert_eq!(refused.cause, ExceededCause::TooLarge { needed: 101 });
}

#[test]
fn a_month_is_used_to_its_end_and_no_further() {
    let fixture = Fixture::new();
    let limits = monthly(1_000);
    let long = Demand { max_answer: 100_000, ..demand(100, 400) };
    let mut permit = fixture.decide(limits, long, 0).permit.unwrap();
    assert_eq!(permit.cap(), Some(900));
    assert!(permit.ensure_covered(800, || Duration::ZERO));
    assert!(permit.ensure_covered(900, || Duration::ZERO), "the last step is what is left");
    assert!(
        permit.ensure_covered(1_800, || Duration::ZERO),
        "the upstream's tokenizer may find fewer"
    );
    assert!(!permit.ensure_covered(1_900, || Duration::ZERO), "it does not keep to its cap");
    let held = fixture.admit(limits, 0).unwrap_err();
    assert_eq!(
        (held.kind, held.cause),
        (LimitKind::MonthlyTokens, ExceededCause::Wait(Duration::from_secs(1)))
    );
    permit.settle(1_000, || Duration::ZERO);
    let until = "2026-12-01T00:00:00Z".parse().unwrap();
    assert_eq!(fixture.admit(limits, 0).unwrap_err().cause, ExceededCause::Spent { until });
    let noon_to_midnight = 12 * 3_600_000;
    assert!(fixture.admit(limits, noon_to_midnight - 1).is_err());
    assert!(fixture.admit(limits, noon_to_midnight).is_ok());
}

#[test]
fn a_quota_is_not_reserved_beyond_the_bound_on_the_input() {
    let limits = monthly(1_000);
    let plain = HoldPolicy::Plain { is_capped: false };
    for (policy, output, committed) in [(HoldPolicy::Stream, 600, 1_000), (plain, 600, 1_000)] {
        let fixture = Fixture::new();
        let long = Demand { max_input: 400, max_answer: 100_000, policy, ..demand(100, 1_024) };
        let mut permit = fixture.decide(limits, long, 0).permit.unwrap();
        assert_eq!(permit.cap(), Some(600), "{policy:?}");
        assert_eq!(permit.reserved(), 100 + output, "{policy:?}");
        assert_eq!(fixture.used(limits[0], 0), [(LimitKind::MonthlyTokens, committed)]);
        permit.bound_input(250);
        assert_eq!(fixture.used(limits[0], 0), [(LimitKind::MonthlyTokens, committed - 150)]);
        drop(permit);
        assert_eq!(fixture.used(limits[0], 0), [(LimitKind::MonthlyTokens, 0)]);
    }
}

#[test]
fn a_limiter_goes_on_from_what_was_used() {
    let used = Consumption {
        accounts: vec![(AccountId(uuid::Uuid::nil()), 70)],
        keys: vec![(KeyId::new("k"), 90)],
        ..Consumption::default()
    };
    let fixture = Fixture::over(Limiter::resume(&used, moment(0).wall));
    let quota = Limits { monthly_tokens: Some(100), ..NONE };
    let refused = fixture.decide([quota, quota, quota], demand(20, 1), 5).permit.unwrap_err();
    assert_eq!(refused.scope, LimitScope::Key);
    let permit = fixture.decide([quota, quota, NONE], demand(20, 5), 5).permit.unwrap();
    permit.settle(12, || Duration::ZERO);
    assert_eq!(fixture.used(quota, 5), [(LimitKind::MonthlyTokens, 82)]);
}

#[test]
fn a_quota_that_is_set_later_knows_what_the_month_has_used() {
    let fixture = Fixture::new();
    fixture.admit([NONE; 3], 0).unwrap().settle(95, || Duration::ZERO);
    assert_eq!(fixture.used(monthly(100)[0], 0), [(LimitKind::MonthlyTokens, 95)]);
    let refused = fixture.decide(monthly(100), demand(9, 1), 0).permit.unwrap_err();
    assert!(matches!(refused.cause, ExceededCause::Spent { .. }));
}
