//! Limits never admit more than they allow, name the limit that refuses, and release what was not used.

mod properties;
mod tokens;

use super::*;
use crate::shared_pool::{Correction, LocalPool, PoolPhase};
use domain::allocation::Allocation;
use domain::hold::HoldPolicy;
use domain::limit::LimitState;

const NONE: Limits =
    Limits { rpm: None, tpm: None, concurrency: None, monthly_tokens: None, observe: false };

/// An account, a model and a key of one limiter.
struct Fixture {
    limiter: Limiter,
    account: AccountId,
    model: ModelId,
    key: KeyId,
}

impl Fixture {
    fn new() -> Self {
        Self::over(Limiter::default())
    }

    fn over(limiter: Limiter) -> Self {
        Self {
            limiter,
            account: AccountId(uuid::Uuid::nil()),
            model: ModelId::new("m"),
            key: KeyId::new("k"),
        }
    }

    fn decide(&self, [plan, model, key]: [Limits; 3], demand: Demand, millis: u64) -> Decision {
        let subject = LimitedSubjects {
            account: (self.account, &plan),
            model: (&self.model, &model),
            key: (&self.key, &key),
        };
        let demand = subject.counts_tokens().then_some(demand);
        self.limiter.admit(&subject, demand.as_ref(), moment(millis))
    }

    fn admit(&self, limits: [Limits; 3], millis: u64) -> Result<Permit, Exceeded> {
        self.decide(limits, demand(1, 1), millis).permit
    }

    /// Returns the usage of a plan's limits.
    fn used(&self, plan: Limits, millis: u64) -> Vec<(LimitKind, u64)> {
        let limits =
            self.limiter.limits_in_use(LimitOwner::Plan(self.account), &plan, moment(millis));
        limits.into_iter().map(|limit| (limit.kind, limit.used)).collect()
    }
}

/// Returns the moment `millis` after noon on the last day of November.
fn moment(millis: u64) -> Moment {
    let noon: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    let monotonic = Duration::from_millis(millis);
    Moment { monotonic, wall: noon + monotonic }
}

/// Returns the demand of a request for one choice with an output cap.
fn demand(input: u64, output: u64) -> Demand {
    Demand {
        input,
        max_input: input,
        output,
        step: 100,
        max_answer: output,
        choices: 1,
        policy: HoldPolicy::Stream,
    }
}

#[test]
fn requests_per_minute_slide() {
    let fixture = Fixture::new();
    let limits = [NONE, NONE, Limits { rpm: Some(2), ..NONE }];
    assert!(fixture.admit(limits, 500).is_ok());
    assert!(fixture.admit(limits, 30_000).is_ok());
    assert_eq!(
        fixture.admit(limits, 59_900).unwrap_err(),
        Exceeded {
            scope: LimitScope::Key,
            kind: LimitKind::Requests,
            limit: 2,
            cause: ExceededCause::Wait(Duration::from_millis(1_100))
        }
    );
    assert!(fixture.admit(limits, 61_000).is_ok());
    assert!(fixture.admit(limits, 61_500).is_err());
    assert!(fixture.admit(limits, 500_000).is_ok());
}

#[test]
fn a_refusal_counts_nowhere() {
    let fixture = Fixture::new();
    let wide = Limits { rpm: Some(2), ..NONE };
    let shut = [wide, NONE, Limits { concurrency: Some(0), ..NONE }];
    for _ in 0..10 {
        assert_eq!(fixture.admit(shut, 0).unwrap_err().scope, LimitScope::Key);
    }
    assert!(fixture.admit([wide, NONE, NONE], 0).is_ok());
    assert!(fixture.admit([wide, NONE, NONE], 0).is_ok());
    assert_eq!(fixture.admit([wide, NONE, NONE], 0).unwrap_err().scope, LimitScope::Plan);
}

#[test]
fn of_several_limits_the_one_that_is_longest_in_the_way_is_named() {
    let fixture = Fixture::new();
    let one = Limits { rpm: Some(1), ..NONE };
    drop(fixture.admit([one, NONE, NONE], 0));
    drop(fixture.admit([NONE, one, NONE], 30_000));
    assert_eq!(fixture.admit([one; 3], 31_000).unwrap_err().scope, LimitScope::Model);
    let spent = Limits { monthly_tokens: Some(1), ..one };
    let exceeded = fixture.admit([one, one, spent], 31_000).unwrap_err();
    assert_eq!((exceeded.scope, exceeded.kind), (LimitScope::Key, LimitKind::MonthlyTokens));
}

#[test]
fn a_slot_comes_back_when_its_request_ends_or_is_given_up() {
    let fixture = Fixture::new();
    let limits = [NONE, Limits { concurrency: Some(1), ..NONE }, NONE];
    let permit = fixture.admit(limits, 0).unwrap();
    assert_eq!(fixture.admit(limits, 0).unwrap_err().kind, LimitKind::Concurrency);
    permit.settle(5, || Duration::ZERO);
    drop(fixture.admit(limits, 0).unwrap());
    let panicked = std::thread::scope(|scope| {
        let admitted = fixture.admit(limits, 0).unwrap();
        scope
            .spawn(move || {
                let _held = admitted;
                std::panic::resume_unwind(Box::new("a request panicked"));
            })
            .join()
    });
    assert!(panicked.is_err());
    assert!(fixture.admit(limits, 0).is_ok());
}

#[test]
fn a_request_over_an_observed_limit_is_admitted_counted_and_reported() {
    let fixture = Fixture::new();
    let observed = Limits { rpm: Some(1), tpm: Some(4), observe: true, ..NONE };
    let first = fixture.decide([observed, NONE, NONE], demand(2, 1), 0);
    assert!(first.permit.is_ok() && first.observed.is_empty());
    assert_eq!(first.limit_status, LimitStatus::default(), "headers report enforced limits only");
    let mut second = fixture.decide([observed, NONE, NONE], demand(2, 1), 0);
    assert!(second.permit.as_mut().unwrap().ensure_covered(500, || Duration::ZERO));
    let both = [(LimitScope::Plan, LimitKind::Requests), (LimitScope::Plan, LimitKind::Tokens)];
    assert_eq!(second.observed, both);
    assert_eq!(fixture.used(observed, 0), [(LimitKind::Requests, 2), (LimitKind::Tokens, 606)]);
    let enforced = Limits { observe: false, ..observed };
    assert!(fixture.admit([enforced, NONE, NONE], 0).is_err());
}

#[test]
fn the_status_is_that_of_the_tightest_limit_of_each_kind() {
    let fixture = Fixture::new();
    let plan = Limits { rpm: Some(10), tpm: Some(1_000), ..NONE };
    let key = Limits { rpm: Some(5), ..NONE };
    let limit_status = fixture.decide([plan, NONE, key], demand(20, 80), 500).limit_status;
    let reset = Duration::from_millis(60_500);
    let requests = LimitState { limit: 5, remaining: 4, reset };
    let tokens = LimitState { limit: 1_000, remaining: 900, reset };
    assert_eq!(limit_status, LimitStatus { requests: Some(requests), tokens: Some(tokens) });
    let refused =
        fixture.decide([plan, NONE, Limits { rpm: Some(1), ..NONE }], demand(20, 80), 500);
    assert!(refused.permit.is_err());
    assert_eq!(refused.limit_status.requests.unwrap().remaining, 0);
    assert_eq!(
        refused.limit_status.tokens,
        Some(LimitState { limit: 1_000, remaining: 1_000, reset: Duration::ZERO })
    );
    assert_eq!(fixture.decide([NONE; 3], demand(1, 1), 500).limit_status, LimitStatus::default());
}

#[test]
fn uses_say_what_is_limited_how_much_is_used_and_when_it_is_free() {
    let fixture = Fixture::new();
    let limits = Limits {
        rpm: Some(9),
        tpm: Some(900),
        concurrency: Some(3),
        monthly_tokens: Some(9_000),
        observe: false,
    };
    let permit = fixture.decide([limits, NONE, limits], demand(10, 90), 500).permit.unwrap();
    let wall = |text: &str| text.parse::<Timestamp>().ok();
    let (soon, month) = (wall("2026-11-30T12:01:01Z"), wall("2026-12-01T00:00:00Z"));
    let expected = |scope| {
        let limit_use = |kind, limit, used, resets_at| LimitUse {
            scope,
            kind,
            limit,
            used,
            observed: false,
            resets_at,
        };
        vec![
            limit_use(LimitKind::Requests, 9, 1, soon),
            limit_use(LimitKind::Tokens, 900, 100, soon),
            limit_use(LimitKind::Concurrency, 3, 1, None),
            limit_use(LimitKind::MonthlyTokens, 9_000, 100, month),
        ]
    };
    let limiter = &fixture.limiter;
    let in_use = |of| limiter.limits_in_use(of, &limits, moment(700));
    assert_eq!(in_use(LimitOwner::Plan(fixture.account)), expected(LimitScope::Plan));
    assert_eq!(in_use(LimitOwner::Key(&fixture.key)), expected(LimitScope::Key));
    let of_model = limiter.limits_in_use(LimitOwner::Model(&fixture.model), &NONE, moment(700));
    assert_eq!(of_model, []);
    permit.settle(40, || Duration::from_millis(900));
    let used: Vec<_> = in_use(LimitOwner::Key(&fixture.key)).iter().map(|it| it.used).collect();
    assert_eq!(used, [1, 40, 0, 40]);
    let unknown = ModelId::new("never asked");
    let unused = limiter.limits_in_use(LimitOwner::Model(&unknown), &limits, moment(700));
    assert!(unused.iter().all(|limit| limit.used == 0) && unused.len() == 4);
}

/// Grants `amount` to the only limit that lacks something, and returns it.
async fn grant(shortages: &Shortages, amount: i64) -> Arc<dyn LocalPool> {
    let pool = shortages.take().await.remove(0);
    assert!(pool.take_request().is_some());
    pool.add(Allocation { granted: amount, ..Allocation::default() }, PoolPhase::Open);
    pool
}

#[tokio::test]
async fn a_limit_reduced_to_what_is_used_admits_nothing_until_more_is_granted() {
    let per_minute = Limits { rpm: Some(10), ..NONE };
    let at_once = Limits { concurrency: Some(10), ..NONE };
    for limits in [per_minute, at_once] {
        let shortages = Arc::new(Shortages::default());
        let fixture = Fixture::over(Limiter::sharing(shortages.clone()));
        let admit = |millis| fixture.admit([limits, NONE, NONE], millis);
        assert_eq!(admit(0).unwrap_err().cause, ExceededCause::Requested);
        let pool = grant(&shortages, 4).await;
        let permits = [admit(0).unwrap(), admit(0).unwrap()];
        let correction = pool.reduce_to_used(moment(0).monotonic);
        assert_eq!(correction, Correction::Set(2));
        assert_eq!(pool.take_unused(Some(i64::MAX), moment(0).monotonic), 0);
        assert_eq!(admit(0).unwrap_err().cause, ExceededCause::Requested);
        grant(&shortages, 1).await;
        assert!(admit(0).is_ok());
        drop(permits);
    }
}
