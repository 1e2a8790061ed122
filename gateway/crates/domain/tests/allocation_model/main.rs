//! A model of the allocations of money, checked in every order of events within its bounds.
//!
//! Several nodes share the balances of accounts in one store. The decisions are those of
//! [`domain::allocation`]; the transactions of `store::postgres`, the allocator, the recorder, the
//! replay of the journal, and the order of steps at start and stop are modelled after the real ones.
//! Nothing is assumed of clocks: a call of the store can take arbitrarily long, which includes a
//! partition of the network, and a node can be removed while it serves. [`scenario::Bug`] lists faults that the
//! checker must find, which shows that the properties are not vacuous.
//!
//! [`store`] and [`node`] have the state, [`fleet`] the steps, [`model`] the actions and
//! [`properties`] what must hold.

mod bugs;
mod fleet;
mod model;
mod node;
mod properties;
mod scenario;
mod store;

use std::collections::BTreeMap;

use stateright::{Checker, HasDiscoveries, Model};

use scenario::{Bounds, Request, Scenario};

/// Returns two nodes with requests of one account that its balance does not cover together, and one
/// request of another account. One request costs less and one more than its hold; replay assumes more
/// than the hold of the first.
fn two_nodes(bounds: Bounds) -> Scenario {
    let request =
        |node, account, hold, cost, open_cost| Request { node, account, hold, cost, open_cost };
    let requests = vec![request(0, 0, 2, 1, 3), request(1, 0, 2, 3, 2), request(1, 1, 1, 1, 1)];
    let changes = vec![(0, -3), (0, 1)];
    Scenario { nodes: 2, balances: [3, 1], requests, bounds, changes, bug: None }
}

/// Returns three nodes with one request each, of one account.
fn three_nodes(bounds: Bounds) -> Scenario {
    let two = two_nodes(bounds);
    let request = |node, hold, cost| Request { node, account: 0, hold, cost, open_cost: 3 };
    let requests = vec![request(0, 2, 1), request(1, 1, 1), request(2, 1, 2)];
    Scenario { nodes: 3, requests, ..two }
}

/// Checks that all properties hold, and that the run has exactly `states` states, so that a change of
/// the model that checks less is noticed.
fn check(scenario: Scenario, states: usize) {
    let checker = scenario.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found: BTreeMap<_, _> = checker
        .discoveries()
        .into_iter()
        .map(|(property, path)| (property, path.into_actions()))
        .collect();
    let expected = checker.model().properties();
    for property in expected {
        let is_failure = property.expectation.discovery_is_failure();
        let path = found.get(property.name);
        assert_eq!(path.is_some(), !is_failure, "{}: {path:?}", property.name);
    }
    let found = checker.unique_state_count();
    assert_eq!(found, states, "see that the changed model still reaches what it is meant to check");
}

#[test]
fn recalls_unused_parts_and_debits_use_no_amount_twice() {
    let bounds = Bounds { allocations: 4, quiet: 2, changes: 1, ..Bounds::default() };
    check(two_nodes(bounds), 359_849);
}

#[test]
fn lost_and_late_answers_use_no_amount_twice() {
    let bounds = Bounds { allocations: 3, quiet: 1, timeouts: 1, ..Bounds::default() };
    check(two_nodes(bounds), 176_632);
}

#[test]
fn a_crash_and_a_lost_answer_lose_and_double_nothing() {
    let bounds = Bounds { allocations: 3, timeouts: 1, crashes: 1, ..Bounds::default() };
    check(two_nodes(bounds), 362_733);
}

#[test]
fn a_removed_node_that_still_acts_uses_no_amount_of_others() {
    let bounds = Bounds { allocations: 3, timeouts: 1, removals: 1, ..Bounds::default() };
    check(two_nodes(bounds), 201_026);
}

#[test]
fn a_crash_before_or_after_a_removal_uses_no_amount_twice() {
    let bounds = Bounds { allocations: 3, crashes: 1, removals: 1, ..Bounds::default() };
    check(two_nodes(bounds), 140_416);
}

#[test]
fn three_nodes_and_a_crash_use_no_amount_twice() {
    let bounds = Bounds { allocations: 3, crashes: 1, ..Bounds::default() };
    check(three_nodes(bounds), 268_001);
}

#[test]
fn one_of_each_fault_uses_no_amount_twice() {
    let faults = Bounds { timeouts: 1, crashes: 1, removals: 1, changes: 1, ..Bounds::default() };
    let bounds = Bounds { allocations: 2, ..faults };
    check(two_nodes(bounds), 1_135_929);
}
