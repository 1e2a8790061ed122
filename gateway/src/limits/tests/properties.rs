//! Compares any order of events with a list of the counted amounts and their times.

use proptest::prelude::*;

use super::*;

const RPM: u64 = 12;
const TPM: u64 = 2_000;
const QUOTA: u64 = 9_000;
const CONCURRENCY: u64 = 4;
const MINUTE: u64 = 60_000;

/// An event; `usize` selects one of the requests in progress.
#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    /// A request arrives: estimated input, surplus of the bound on the input, first output, and whether the
    /// answer is streamed.
    Admit(u64, u64, u64, bool),
    Grow(usize, u64),
    /// A request ends after using this many tokens.
    Settle(usize, u64),
    Drop(usize),
}

/// A request in progress and the amounts counted for it.
struct Running {
    permit: Permit,
    parts: Vec<(u64, u64)>,
}

/// The counted amounts: usage of ended requests, reservations of the others.
#[derive(Default)]
struct Model {
    now: u64,
    admitted: Vec<u64>,
    ended: Vec<(u64, u64)>,
    running: Vec<Running>,
    month: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let which = any::<usize>();
    let admit = (1..400_u64, 0..800_u64, 1..600_u64, any::<bool>())
        .prop_map(|(input, more, output, stream)| Step::Admit(input, more, output, stream));
    let step = prop_oneof![
        (0..20_000_u64).prop_map(Step::Wait),
        admit.clone(),
        admit,
        (which, 0..3_000_u64).prop_map(|(which, tokens)| Step::Grow(which, tokens)),
        (which, 0..3_000_u64).prop_map(|(which, used)| Step::Settle(which, used)),
        which.prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 0..120)
}

impl Model {
    fn in_last_minute(&self) -> u64 {
        let parts = self.running.iter().flat_map(|running| &running.parts);
        let recent = parts.chain(&self.ended).filter(|(at, _)| at + MINUTE > self.now);
        recent.map(|(_, tokens)| tokens).sum()
    }

    fn in_month(&self) -> u64 {
        let parts = self.running.iter().flat_map(|running| &running.parts);
        self.month + parts.map(|(_, tokens)| tokens).sum::<u64>()
    }

    fn pick(&mut self, which: usize) -> Option<&mut Running> {
        let count = self.running.len();
        (count > 0).then(|| &mut self.running[which % count])
    }

    /// Ends a request: usage replaces the reservation from its end, and usage beyond the reservation is
    /// counted now.
    fn end(&mut self, which: usize, used: impl FnOnce(u64) -> u64) {
        if self.running.is_empty() {
            return;
        }
        let at = which % self.running.len();
        let Running { permit, parts } = self.running.swap_remove(at);
        let mut left = used(parts.iter().map(|(_, tokens)| tokens).sum());
        self.month += left;
        permit.settle(left, || Duration::from_millis(self.now));
        for (at, tokens) in parts {
            self.ended.push((at, tokens.min(left)));
            left -= tokens.min(left);
        }
        self.ended.push((self.now, left));
    }
}

fn limits() -> [Limits; 3] {
    let plan = Limits { monthly_tokens: Some(QUOTA), rpm: Some(RPM), ..NONE };
    let key = Limits { tpm: Some(TPM), concurrency: Some(CONCURRENCY), ..NONE };
    [plan, NONE, key]
}

/// Returns the tokens of the month that are used or reserved.
fn month_use(fixture: &Fixture, now: u64) -> u64 {
    let used = fixture.used(limits()[0], now);
    used.into_iter().find(|(kind, _)| *kind == LimitKind::MonthlyTokens).map_or(0, |(_, used)| used)
}

/// Plays `steps` and checks at each admission that no limit is exceeded. `honest` requests use at most their
/// first reservation.
fn play(fixture: &Fixture, steps: Vec<Step>, honest: bool) -> Result<Model, TestCaseError> {
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Wait(millis) => model.now += millis,
            Step::Admit(input, more, output, stream) => {
                let max_input = input + more;
                let policy = if stream {
                    HoldPolicy::Stream
                } else {
                    HoldPolicy::Plain { is_capped: more % 2 == 0 }
                };
                let demand =
                    Demand { max_input, policy, max_answer: output * 2, ..demand(input, output) };
                let decision = fixture.decide(limits(), demand, model.now);
                let Ok(permit) = decision.permit else { continue };
                let reserved = permit.reserved();
                prop_assert!(reserved > input);
                let parts = vec![(model.now, reserved)];
                model.running.push(Running { permit, parts });
                model.admitted.push(model.now);
                let requests = model.admitted.iter().filter(|&&at| at + MINUTE > model.now);
                prop_assert!(requests.count() as u64 <= RPM);
                prop_assert!(model.running.len() as u64 <= CONCURRENCY);
                prop_assert!(model.in_last_minute() <= TPM);
                prop_assert!(model.in_month() <= QUOTA);
                prop_assert!(month_use(fixture, model.now) <= QUOTA);
            }
            Step::Grow(..) if honest => {}
            Step::Grow(which, tokens) => {
                let now = model.now;
                let Some(running) = model.pick(which) else { continue };
                let before = running.permit.reserved();
                running.permit.ensure_covered(tokens, || Duration::from_millis(now));
                let more = running.permit.reserved() - before;
                running.parts.push((now, more));
                let in_month = month_use(fixture, now);
                prop_assert!(more == 0 || in_month <= QUOTA, "it grows within the month");
            }
            Step::Settle(which, used) if honest => {
                model.end(which, |reserved| used.min(reserved));
            }
            Step::Settle(which, used) => model.end(which, |_| used),
            Step::Drop(which) => {
                if !model.running.is_empty() {
                    let at = which % model.running.len();
                    drop(model.running.swap_remove(at));
                }
            }
        }
    }
    Ok(model)
}

proptest! {
    #[test]
    fn nothing_is_admitted_beyond_a_limit_whatever_answers_grow_to(steps in steps()) {
        let fixture = Fixture::new();
        play(&fixture, steps, false)?;
    }

    #[test]
    fn no_minute_sees_more_than_the_limits_if_answers_keep_to_what_is_reserved(
        steps in steps(),
    ) {
        let fixture = Fixture::new();
        let mut model = play(&fixture, steps, true)?;
        for running in std::mem::take(&mut model.running) {
            model.ended.extend(running.parts);
        }
        for (from, _) in &model.ended {
            let within = model.ended.iter().filter(|(at, _)| (*from..from + MINUTE).contains(at));
            prop_assert!(within.map(|(_, tokens)| tokens).sum::<u64>() <= TPM);
        }
        for from in &model.admitted {
            let within = model.admitted.iter().filter(|at| (*from..from + MINUTE).contains(at));
            prop_assert!(within.count() as u64 <= RPM);
        }
    }

    #[test]
    fn what_was_not_used_is_there_again(steps in steps()) {
        let fixture = Fixture::new();
        let mut model = play(&fixture, steps, false)?;
        model.running.clear();
        let (now, [plan, _, key]) = (model.now, limits());
        let month = model.month;
        let tokens: u64 = model.in_last_minute();
        let in_use = |of, limits: &Limits| {
            let limits = fixture.limiter.limits_in_use(of, limits, moment(now));
            limits.into_iter().map(|limit| (limit.kind, limit.used)).collect::<Vec<_>>()
        };
        let of_plan = in_use(LimitOwner::Plan(fixture.account), &plan);
        prop_assert_eq!(of_plan[1], (LimitKind::MonthlyTokens, month));
        let of_key = in_use(LimitOwner::Key(&fixture.key), &key);
        prop_assert_eq!(of_key[1], (LimitKind::Concurrency, 0));
        // The oldest second counts as a whole.
        let oldest: u64 = model.ended.iter()
            .filter(|(at, _)| at + MINUTE <= now && at / 1_000 + 60 >= now / 1_000)
            .map(|(_, tokens)| tokens).sum();
        prop_assert_eq!(of_key[0], (LimitKind::Tokens, tokens + oldest));
    }
}
