//! A model of the shares of limits, checked in every order of events within its bounds.
//!
//! Several nodes share one limit, per minute or on concurrency. The decisions are those of [`domain::allocation`]; the
//! transactions of `store::postgres`, the allocator and `limits::share` are modelled after the real ones. What differs
//! from money (`tests/allocation_model`) is time: only the part of an allocation of a limit per minute is returned
//! that was not used in the last minute, and the allocation of a process that was killed or removed counts for another minute.
//!
//! Time advances in steps, of which a minute has [`scenario::MINUTE`], and on all nodes and in the store at the same pace. A
//! call of the store can take arbitrarily long, and its answer can be lost. [`scenario::Bug`] lists faults that the
//! checker must find, which shows that the properties are not vacuous.
//!
//! A failover of the database loses nothing here, as with a synchronous standby. Nodes cannot know that, so each reduces its
//! part to what is in use. Each notices the failover at any later time, and operations under way continue.
//!
//! [`store`] has the transactions, [`fleet`] the state and its steps, [`model`] the actions, and [`properties`] what
//! must hold.

mod bugs;
mod fleet;
mod model;
mod properties;
mod scenario;
mod store;

use std::collections::BTreeMap;

use stateright::{Checker, HasDiscoveries, Model};

use scenario::{Bounds, LimitKind, Scenario};

/// Checks that all properties hold, and that the run has exactly `states` states, so that a change of the model that
/// checks less is noticed.
fn check(nodes: usize, kind: LimitKind, bounds: Bounds, states: usize) {
    let scenario = Scenario { nodes, kind, limit: 2, bounds, bug: None };
    let checker = scenario.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found: BTreeMap<_, _> = checker
        .discoveries()
        .into_iter()
        .map(|(property, path)| (property, path.into_actions()))
        .collect();
    for property in checker.model().properties() {
        let is_failure = property.expectation.discovery_is_failure();
        let path = found.get(property.name);
        assert_eq!(path.is_some(), !is_failure, "{}: {path:?}", property.name);
    }
    let found = checker.unique_state_count();
    assert_eq!(found, states, "see that the changed model still reaches what it is meant to check");
}

#[test]
fn a_limit_per_minute_holds_while_its_parts_move() {
    let bounds = Bounds { admissions: 5, allocations: 5, unused_returns: 1, ..Bounds::default() };
    check(2, LimitKind::PerMinute, bounds, 57_088);
}

#[test]
fn a_limit_per_minute_holds_with_a_lost_answer_and_a_crash() {
    let bounds =
        Bounds { admissions: 3, allocations: 3, timeouts: 1, crashes: 1, ..Bounds::default() };
    check(2, LimitKind::PerMinute, bounds, 59_073);
}

#[test]
fn a_limit_per_minute_holds_over_a_stop_and_a_removal() {
    let faults = Bounds { stops: 1, silences: 1, removals: 1, ..Bounds::default() };
    check(2, LimitKind::PerMinute, Bounds { admissions: 3, allocations: 3, ..faults }, 123_398);
}

#[test]
fn a_limit_on_concurrency_holds_over_a_crash_and_a_removal() {
    let faults = Bounds { crashes: 1, silences: 1, removals: 1, ..Bounds::default() };
    check(2, LimitKind::Concurrency, Bounds { admissions: 3, allocations: 3, ..faults }, 44_146);
}

#[test]
fn a_limit_per_minute_of_three_nodes_holds_over_a_crash() {
    let bounds = Bounds { admissions: 3, allocations: 3, crashes: 1, ..Bounds::default() };
    check(3, LimitKind::PerMinute, bounds, 83_027);
}

#[test]
fn a_limit_per_minute_holds_over_a_failover() {
    let faults = Bounds { failovers: 1, timeouts: 1, ..Bounds::default() };
    check(2, LimitKind::PerMinute, Bounds { admissions: 3, allocations: 3, ..faults }, 132_566);
}

#[test]
fn a_limit_on_concurrency_holds_over_a_failover() {
    let faults = Bounds { failovers: 1, timeouts: 1, ..Bounds::default() };
    check(2, LimitKind::Concurrency, Bounds { admissions: 3, allocations: 3, ..faults }, 80_766);
}
