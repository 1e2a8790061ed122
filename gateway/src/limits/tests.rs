//! Limits never admit more than they say over any minute, and give back what was not used.

use super::*;

const NONE: Limits = Limits { rpm: None, tpm: None, concurrency: None };

struct Fixture {
    limiter: Limiter,
    account: AccountId,
    model: ModelId,
    key: KeyId,
}

impl Fixture {
    fn new() -> Self {
        Self {
            limiter: Limiter::default(),
            account: AccountId(uuid::Uuid::nil()),
            model: ModelId::new("m"),
            key: KeyId::new("k"),
        }
    }

    fn admit(
        &self,
        plan: Limits,
        model: Limits,
        key: Limits,
        millis: u64,
    ) -> Result<Permit, Exceeded> {
        self.limiter.admit(
            &Subject {
                account: (self.account, &plan),
                model: (&self.model, &model),
                key: (&self.key, &key),
            },
            Duration::from_millis(millis),
        )
    }
}

#[test]
fn requests_per_minute_slide() {
    let fixture = Fixture::new();
    let two = Limits { rpm: Some(2), ..NONE };
    assert!(fixture.admit(NONE, NONE, two, 500).is_ok());
    assert!(fixture.admit(NONE, NONE, two, 30_000).is_ok());
    let exceeded = fixture.admit(NONE, NONE, two, 59_900).unwrap_err();
    assert_eq!(
        (exceeded.scope, exceeded.kind, exceeded.limit),
        (LimitScope::Key, LimitKind::Requests, 2)
    );
    assert_eq!(exceeded.retry_after, Duration::from_millis(1_100));
    assert!(fixture.admit(NONE, NONE, two, 61_000).is_ok());
    assert!(fixture.admit(NONE, NONE, two, 61_500).is_err());
    assert!(fixture.admit(NONE, NONE, two, 500_000).is_ok());
}

#[test]
fn no_minute_sees_more_than_the_limit() {
    let fixture = Fixture::new();
    let limits = Limits { rpm: Some(7), ..NONE };
    let mut admitted: Vec<u64> = Vec::new();
    for step in 0..4_000_u64 {
        let now = step * 137 + (step % 11) * 29;
        if fixture.admit(NONE, limits, NONE, now).is_ok() {
            admitted.push(now);
        }
    }
    assert!(admitted.len() > 50);
    for (i, from) in admitted.iter().enumerate() {
        let within = admitted[i..].iter().take_while(|&&at| at < from + 60_000).count();
        assert!(within <= 7, "{within} within a minute of {from}");
    }
}

#[test]
fn a_refusal_counts_nowhere() {
    let fixture = Fixture::new();
    let (wide, none_left) =
        (Limits { rpm: Some(2), ..NONE }, Limits { concurrency: Some(0), ..NONE });
    for _ in 0..10 {
        assert_eq!(fixture.admit(wide, NONE, none_left, 0).unwrap_err().scope, LimitScope::Key);
    }
    assert!(fixture.admit(wide, NONE, NONE, 0).is_ok());
    assert!(fixture.admit(wide, NONE, NONE, 0).is_ok());
    assert_eq!(fixture.admit(wide, NONE, NONE, 0).unwrap_err().scope, LimitScope::Plan);
}

#[test]
fn a_slot_comes_back_when_the_permit_is_dropped() {
    let fixture = Fixture::new();
    let one = Limits { concurrency: Some(1), ..NONE };
    let permit = fixture.admit(NONE, one, NONE, 0).unwrap();
    assert_eq!(fixture.admit(NONE, one, NONE, 0).unwrap_err().kind, LimitKind::Concurrency);
    drop(permit);
    assert!(fixture.admit(NONE, one, NONE, 0).is_ok());
}

#[test]
fn tokens_count_once_they_are_known() {
    let fixture = Fixture::new();
    let limits = Limits { tpm: Some(100), ..NONE };
    let permit = fixture.admit(limits, NONE, NONE, 0).unwrap();
    permit.spend(100, Duration::from_secs(1));
    let exceeded = fixture.admit(limits, NONE, NONE, 2_000).unwrap_err();
    assert_eq!(exceeded.kind, LimitKind::Tokens);
    assert_eq!(exceeded.retry_after, Duration::from_mins(1));
    assert!(fixture.admit(limits, NONE, NONE, 62_000).is_ok());
}
