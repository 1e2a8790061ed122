//! Each deliberate fault is found.

use stateright::{Checker, HasDiscoveries, Model};

use super::properties::{AVAILABLE, COVERED, NOT_STRANDED, WITHIN};
use super::scenario::{Bounds, Bug, LimitKind, Scenario};

/// The bounds within which most faults show.
const BOUNDS: Bounds = Bounds {
    admissions: 4,
    allocations: 3,
    unused_returns: 0,
    timeouts: 0,
    stops: 0,
    crashes: 0,
    silences: 0,
    removals: 0,
    failovers: 0,
};

/// Also one return of an unused part, which another node can then obtain.
const MOVE: Bounds = Bounds { unused_returns: 1, ..BOUNDS };
const CRASH: Bounds = Bounds { crashes: 1, ..BOUNDS };
const REMOVAL: Bounds = Bounds { silences: 1, removals: 1, ..BOUNDS };

/// Checks that `bug` violates `property`, of a limit per minute.
fn finds(bug: Bug, property: &'static str, bounds: Bounds) {
    finds_of(LimitKind::PerMinute, bug, property, bounds);
}

fn finds_of(kind: LimitKind, bug: Bug, property: &'static str, bounds: Bounds) {
    let scenario = Scenario { nodes: 2, kind, limit: 2, bounds, bug: Some(bug) };
    let until = HasDiscoveries::AnyOf([property].into());
    let checker = scenario.checker().finish_when(until).spawn_bfs().join();
    assert!(checker.discovery(property).is_some(), "{bug:?} does not violate `{property}`");
}

#[test]
fn what_was_used_in_the_last_minute_is_not_given_back() {
    finds(Bug::GivesBackUsed, WITHIN, MOVE);
}

#[test]
fn what_is_in_use_is_not_given_back() {
    finds_of(LimitKind::Concurrency, Bug::GivesBackUsed, WITHIN, MOVE);
}

#[test]
fn a_part_leaves_the_memory_before_it_is_given_back() {
    finds(Bug::GivesBackBeforeReduction, WITHIN, MOVE);
    finds_of(LimitKind::Concurrency, Bug::GivesBackBeforeReduction, WITHIN, MOVE);
}

#[test]
fn what_a_killed_process_has_used_counts_for_a_minute() {
    finds(Bug::ReleasesAtOnce, WITHIN, CRASH);
    finds(Bug::ExpiresEarly, WITHIN, CRASH);
    finds(Bug::IgnoresEarlierProcesses, WITHIN, CRASH);
    finds(Bug::IgnoresEarlierProcesses, AVAILABLE, CRASH);
}

#[test]
fn what_a_removed_node_has_used_counts_for_a_minute() {
    finds(Bug::ReleasesAtOnce, WITHIN, REMOVAL);
    finds(Bug::ExpiresEarly, WITHIN, Bounds { crashes: 1, ..REMOVAL });
}

#[test]
fn what_a_killed_process_had_returns_after_a_minute() {
    finds(Bug::NeverExpires, NOT_STRANDED, CRASH);
    finds(Bug::NeverExpires, NOT_STRANDED, REMOVAL);
}

#[test]
fn a_start_fences_the_earlier_process() {
    finds(Bug::JoinsWithoutFence, NOT_STRANDED, CRASH);
}

#[test]
fn a_removal_fences_the_node() {
    finds(Bug::RemovesWithoutFence, NOT_STRANDED, REMOVAL);
}

#[test]
fn a_removal_waits_until_the_node_refuses_requests() {
    finds(Bug::RemovesBeforePatience, WITHIN, REMOVAL);
    finds(Bug::ServesWithoutPatience, WITHIN, REMOVAL);
}

#[test]
fn an_operation_is_executed_once_although_its_answer_was_lost() {
    let bounds = Bounds { timeouts: 1, ..MOVE };
    finds(Bug::RepeatsOperation, NOT_STRANDED, bounds);
    finds(Bug::RepeatsOperation, COVERED, bounds);
    finds(Bug::RepeatsOperation, WITHIN, Bounds { allocations: 4, ..bounds });
}

#[test]
fn a_stop_waits_for_abandoned_operations() {
    finds(Bug::ReleasesWithoutWait, NOT_STRANDED, Bounds { stops: 1, ..BOUNDS });
}

#[test]
fn what_is_in_use_stays_allocated_through_a_failover() {
    let bounds = Bounds { failovers: 1, ..BOUNDS };
    finds(Bug::GivesBackAllAfterFailover, WITHIN, bounds);
    finds_of(LimitKind::Concurrency, Bug::GivesBackAllAfterFailover, WITHIN, bounds);
}
