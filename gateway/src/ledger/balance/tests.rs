//! Balances under concurrent holds, payments and credits.

use proptest::prelude::*;

use super::*;

/// An operation on a balance.
#[derive(Clone, Debug)]
enum Step {
    Credit(i64),
    BalanceHold(i64),
    /// The index selects one of the open holds.
    Grow(usize, i64),
    Settle(usize, i64),
    Drop(usize),
    Pay(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let amount = 0..1_000_i64;
    let step = prop_oneof![
        amount.clone().prop_map(Step::Credit),
        amount.clone().prop_map(Step::BalanceHold),
        (any::<usize>(), amount.clone()).prop_map(|(which, by)| Step::Grow(which, by)),
        (any::<usize>(), amount.clone()).prop_map(|(which, cost)| Step::Settle(which, cost)),
        any::<usize>().prop_map(Step::Drop),
        amount.prop_map(Step::Pay),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn no_order_of_operations_creates_or_loses_money(steps in steps()) {
        let balance = Arc::new(Balance::default());
        let (mut holds, mut entries) = (Vec::<BalanceHold>::new(), Vec::<i64>::new());
        for step in steps {
            let count = holds.len().max(1);
            match step {
                Step::Credit(amount) => {
                    balance.change(Nanos(amount));
                    entries.push(amount);
                }
                Step::BalanceHold(amount) => holds.extend(balance.hold(Nanos(amount))),
                Step::Grow(which, by) => {
                    if let Some(hold) = holds.get_mut(which % count) {
                        hold.grow(Nanos(by));
                    }
                }
                Step::Settle(which, cost) if !holds.is_empty() => {
                    let paid = holds.swap_remove(which % count).settle(Nanos(cost));
                    prop_assert_eq!(paid.charged.0 + paid.overrun.0, cost);
                    entries.push(-paid.charged.0);
                }
                Step::Drop(which) if !holds.is_empty() => drop(holds.swap_remove(which % count)),
                Step::Settle(..) | Step::Drop(_) => {}
                Step::Pay(cost) => entries.push(-balance.pay(Nanos(cost)).charged.0),
            }
            let held: i64 = holds.iter().map(|hold| hold.amount().0).sum();
            prop_assert_eq!(balance.total().0, entries.iter().sum::<i64>());
            prop_assert_eq!(balance.spendable().0 + held, balance.total().0);
            prop_assert!(balance.spendable() >= Nanos::ZERO);
        }
    }
}

#[test]
fn concurrent_holds_never_exceed_the_balance() {
    let balance = Arc::new(Balance::new(Nanos(10)));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let balance = balance.clone();
            std::thread::spawn(move || {
                let holds = (0..125).filter_map(|_| balance.hold(Nanos(1)));
                let paid = holds.map(|hold| hold.settle(Nanos(1)).charged.0);
                paid.sum::<i64>()
            })
        })
        .collect();
    let paid: i64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!((paid, balance.total(), balance.spendable()), (10, Nanos::ZERO, Nanos::ZERO));
}

#[test]
fn waiters_are_limited() {
    let balance = Arc::new(Balance::new(Nanos(10)));
    let first = balance.register_waiter(2).unwrap();
    let second = balance.register_waiter(2);
    assert!(second.is_some() && balance.register_waiter(2).is_none() && balance.has_waiters());
    drop((first, second));
    assert!(!balance.has_waiters() && balance.register_waiter(1).is_some());
}

#[test]
fn an_overrun_is_taken_from_the_spendable_amount_and_never_below_zero() {
    let balance = Arc::new(Balance::new(Nanos(10)));
    let paid = balance.hold(Nanos(4)).unwrap().settle(Nanos(7));
    assert_eq!(paid, Payment { charged: Nanos(7), overrun: Nanos::ZERO });
    let paid = balance.hold(Nanos(2)).unwrap().settle(Nanos(50));
    assert_eq!(paid, Payment { charged: Nanos(3), overrun: Nanos(47) });
    assert_eq!((balance.total(), balance.spendable()), (Nanos::ZERO, Nanos::ZERO));
}

#[test]
fn two_processes_share_what_a_balance_has() {
    // The balance in the process that is replaced, with a request.
    let before = Arc::new(Balance::new(Nanos(100)));
    assert_eq!(Balance::new(Nanos(7)).reduce_for_hand_over(), None);
    let mut held = before.hold(Nanos(20)).unwrap();
    assert_eq!(
        before.reduce_for_hand_over(),
        Some(Nanos(60)),
        "what is held, and half of the rest"
    );
    assert!(held.grow(Nanos(40)) && !held.grow(Nanos(1)));
    // The same balance in the next process.
    let after = Arc::new(Balance::new(Nanos(100)));
    let mut reserved = after.reserve(Nanos(60));
    assert_eq!((after.total(), after.spendable()), (Nanos(100), Nanos(40)));
    // It is replaced, too. What it has reserved is not its own.
    let own = after.hold(Nanos(10)).unwrap();
    assert_eq!(after.reduce_for_hand_over(), Some(Nanos(25)));
    // The third process reserves what both may spend, and no more becomes spendable here.
    let last = Arc::new(Balance::new(Nanos(100)));
    let [mut of_before, mut of_after] = [60, 25].map(|amount| last.reserve(Nanos(amount)));
    assert_eq!(last.spendable(), Nanos(15));
    let spendable = after.spendable();
    assert_eq!(reserved.pay(Nanos(1)).charged, Nanos(1));
    drop(reserved);
    assert_eq!((after.spendable(), after.total()), (spendable, Nanos(25)));
    let [before, after] = [held.settle(Nanos(50)), own.settle(Nanos(99))].map(|paid| paid.charged);
    assert_eq!((before, after), (Nanos(50), Nanos(25)));
    assert_eq!(of_before.pay(before), Payment { charged: before, overrun: Nanos::ZERO });
    assert_eq!(of_after.pay(after), Payment { charged: after, overrun: Nanos::ZERO });
    drop((of_before, of_after));
    assert_eq!((last.total(), last.spendable()), (Nanos(25), Nanos(25)));
}

#[test]
fn a_balance_below_zero_retains_nothing() {
    let overdrawn = Arc::new(Balance::new(Nanos(-5)));
    assert_eq!(overdrawn.reduce_for_hand_over(), None);
    assert_eq!(overdrawn.reserve(Nanos(3)).pay(Nanos(2)).charged, Nanos::ZERO);
    assert_eq!(overdrawn.total(), Nanos(-5));
}
