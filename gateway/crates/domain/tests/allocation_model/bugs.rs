//! Each deliberate fault is found.

use stateright::{Checker, HasDiscoveries, Model};

use super::properties::{
    AVAILABLE, CONSERVED, COVERED, NOT_USED_TWICE, RECORDED, RECORDED_ONCE, RELEASED,
};
use super::scenario::{Bounds, Bug, Scenario};
use super::two_nodes;

/// The bounds within which most faults show.
const BOUNDS: Bounds =
    Bounds { allocations: 3, quiet: 1, timeouts: 1, crashes: 1, removals: 0, changes: 0 };

/// Checks that `bug` violates `property`.
fn finds(bug: Bug, property: &'static str, bounds: Bounds) {
    let scenario = Scenario { bug: Some(bug), ..two_nodes(bounds) };
    let until = HasDiscoveries::AnyOf([property].into());
    let checker = scenario.checker().finish_when(until).spawn_bfs().join();
    assert!(checker.discovery(property).is_some(), "{bug:?} does not violate `{property}`");
}

#[test]
fn an_amount_is_not_in_memory_before_it_is_granted() {
    finds(Bug::CreditBeforeGrant, COVERED, BOUNDS);
}

#[test]
fn an_amount_leaves_the_memory_before_it_is_given_back() {
    finds(Bug::GiveBackBeforeReduction, COVERED, BOUNDS);
}

#[test]
fn a_commit_reduces_the_allocation() {
    finds(Bug::CommitKeepsAllocation, AVAILABLE, BOUNDS);
}

#[test]
fn a_second_delivery_does_not_reduce_the_allocation() {
    finds(Bug::SecondDeliveryReduces, COVERED, BOUNDS);
}

#[test]
fn a_commit_skips_known_records() {
    finds(Bug::RecordWrittenTwice, RECORDED_ONCE, BOUNDS);
    finds(Bug::RecordWrittenTwice, CONSERVED, BOUNDS);
}

#[test]
fn a_replay_is_bounded_by_the_allocation() {
    finds(Bug::UnboundedReplay, NOT_USED_TWICE, BOUNDS);
}

#[test]
fn a_start_replays_before_it_gives_back() {
    finds(Bug::ReleaseBeforeReplay, COVERED, BOUNDS);
}

#[test]
fn a_start_fences_the_earlier_process() {
    finds(Bug::JoinWithoutFence, COVERED, BOUNDS);
}

#[test]
fn a_removal_fences_the_node() {
    finds(Bug::RemovalWithoutFence, RELEASED, Bounds { removals: 1, ..BOUNDS });
}

#[test]
fn an_allocation_reads_the_allocations_before_the_balance() {
    finds(Bug::BalanceReadFirst, NOT_USED_TWICE, BOUNDS);
}

#[test]
fn a_lost_answer_is_no_reason_to_give_back_again() {
    finds(Bug::GiveBackRepeated, COVERED, BOUNDS);
}

#[test]
fn a_stop_keeps_what_waiting_records_need() {
    finds(Bug::ReleaseWithWaitingRecords, COVERED, BOUNDS);
}

#[test]
fn a_stop_waits_for_abandoned_transactions() {
    finds(Bug::ReleaseWithoutWait, RELEASED, BOUNDS);
}

#[test]
fn the_journal_keeps_records_until_the_store_has_them() {
    let bounds = Bounds { allocations: 1, crashes: 1, ..Bounds::default() };
    finds(Bug::JournalTrimmedEarly, RECORDED, bounds);
}
