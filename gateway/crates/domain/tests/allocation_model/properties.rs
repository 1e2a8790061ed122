//! What must hold in every state, and in those in which nothing more can happen.

use stateright::{Model, Property};

use super::fleet::{GatewayFleet, Transaction};
use super::model::Action;
use super::node::{JournalEntry, Node, Phase};
use super::scenario::{ACCOUNTS, AccountIndex, Bounds, NodeIndex, Scenario};

/// Entries, deposits and records agree.
pub(crate) const CONSERVED: &str = "a balance is its deposits less the charges of its records";
/// Nothing is allocated that does not exist.
pub(crate) const AVAILABLE: &str = "allocations exceed a balance by no more than debits took";
/// The invariant of `store::Allocations`.
pub(crate) const COVERED: &str = "a node has no more than is allocated to it";
/// No amount is used twice. Without a debit beyond what is available, this means that committed charges,
/// charges in journals, holds, and what is in memory together never exceed the deposits. A debit may take
/// what is allocated; then they may exceed the deposits by that much, because a node is not asked before.
/// What a removed node does after its removal never reaches the store, and does not count.
pub(crate) const NOT_USED_TWICE: &str =
    "charges and holds exceed deposits by no more than debits took";
/// No request is charged twice.
pub(crate) const RECORDED_ONCE: &str = "a request is recorded at most once";
/// Nothing is lost.
pub(crate) const RECORDED: &str =
    "finally, each request of a node that was not removed is recorded";
/// Nothing remains allocated.
pub(crate) const RELEASED: &str =
    "finally, nothing is allocated to nodes that stopped or were removed";

/// Returns the properties that hold in all states, and what a run with these bounds must reach to check
/// anything.
pub(crate) fn all(bounds: Bounds) -> Vec<Property<Scenario>> {
    let mut properties = vec![
        Property::always(CONSERVED, |scenario: &Scenario, fleet: &GatewayFleet| {
            let charges = |account| {
                let records = fleet.store.records.iter();
                let of = records.filter(|(id, _)| scenario.requests[**id].account == account);
                of.map(|(_, record)| record.charge).sum::<i64>()
            };
            let store = &fleet.store;
            (0..ACCOUNTS).all(|of| store.balances[of] == store.deposits[of] - charges(of))
        }),
        Property::always(AVAILABLE, |_: &Scenario, fleet: &GatewayFleet| {
            let store = &fleet.store;
            (0..ACCOUNTS).all(|account| store.available(account) >= -store.shortfalls[account])
        }),
        Property::always(COVERED, |scenario: &Scenario, fleet: &GatewayFleet| {
            let mut members =
                fleet.store.nodes.iter().enumerate().filter(|(_, row)| !row.is_removed);
            members.all(|(node, _)| {
                (0..ACCOUNTS).all(|account| {
                    let used = in_use(scenario, fleet, node, account);
                    used <= fleet.store.allocated_to(node, account)
                })
            })
        }),
        Property::always(NOT_USED_TWICE, |scenario: &Scenario, fleet: &GatewayFleet| {
            (0..ACCOUNTS).all(|account| {
                let store = &fleet.store;
                let members = (0..scenario.nodes).filter(|node| !store.nodes[*node].is_removed);
                let used: i64 = members.map(|node| in_use(scenario, fleet, node, account)).sum();
                used <= store.balances[account] + store.shortfalls[account]
            })
        }),
        Property::always(RECORDED_ONCE, |_: &Scenario, fleet: &GatewayFleet| {
            fleet.store.records.values().all(|record| record.times == 1)
        }),
        Property::always(RECORDED, |scenario: &Scenario, fleet: &GatewayFleet| {
            !is_final(scenario, fleet)
                || scenario.requests.iter().enumerate().all(|(index, request)| {
                    !fleet.admitted[index]
                        || fleet.store.nodes[request.node].is_removed
                        || fleet.store.records.contains_key(&index)
                })
        }),
        Property::always(RELEASED, |scenario: &Scenario, fleet: &GatewayFleet| {
            !is_final(scenario, fleet) || fleet.store.allocations.is_empty()
        }),
    ];
    let reachable: [(bool, Property<Scenario>); 5] = [
        (
            bounds.allocations > 2,
            Property::sometimes("a node is recalled", |_, fleet: &GatewayFleet| {
                fleet.nodes.iter().any(|node| !node.recalls.is_empty())
            }),
        ),
        (
            bounds.timeouts > 0,
            Property::sometimes("a call is abandoned", |_, fleet: &GatewayFleet| {
                fleet.calls.iter().any(|call| !call.is_awaited)
            }),
        ),
        (
            bounds.crashes > 0,
            Property::sometimes(
                "a replay charges less than the cost",
                |scenario: &Scenario, fleet: &GatewayFleet| {
                    fleet.calls.iter().any(|call| match &call.transaction {
                        Transaction::Commit(batch)
                            if fleet.nodes[call.process.node].phase == Phase::ReplayingOpen =>
                        {
                            batch.iter().any(|(index, charge)| {
                                *charge < scenario.requests[*index].open_cost
                            })
                        }
                        _ => false,
                    })
                },
            ),
        ),
        (
            bounds.removals > 0,
            Property::sometimes("a removed node still acts", |_, fleet: &GatewayFleet| {
                let rows = fleet.store.nodes.iter();
                rows.zip(&fleet.nodes).any(|(row, node)| row.is_removed && !node.queue.is_empty())
            }),
        ),
        (
            bounds.changes > 0,
            Property::sometimes("a debit takes what is allocated", |_, fleet: &GatewayFleet| {
                (0..ACCOUNTS).any(|account| fleet.store.available(account) < 0)
            }),
        ),
    ];
    properties.extend(
        reachable.into_iter().filter(|(applies, _)| *applies).map(|(_, property)| property),
    );
    properties
}

/// Returns what a node has of an account: in memory, held, and charged without a record. Of a
/// process that does not serve, this is what its journal has.
fn in_use(
    scenario: &Scenario,
    fleet: &GatewayFleet,
    index: NodeIndex,
    account: AccountIndex,
) -> i64 {
    let node = &fleet.nodes[index];
    let charges = fleet.unrecorded(index).filter_map(|(request, entry)| match entry {
        JournalEntry::Closed(charge) if scenario.requests[request].account == account => {
            Some(charge)
        }
        _ => None,
    });
    let held = node.held.iter().map(|request| &scenario.requests[*request]);
    let held = held.filter(|request| request.account == account).map(|request| request.hold);
    node.spendable[account] + charges.sum::<i64>() + held.sum::<i64>()
}

/// Returns whether nothing more can happen, except for actions of an operator.
fn is_final(scenario: &Scenario, fleet: &GatewayFleet) -> bool {
    let has_ended = |node: &Node| !node.is_running();
    if !fleet.calls.is_empty() || !fleet.nodes.iter().all(has_ended) {
        return false;
    }
    let mut actions = Vec::new();
    scenario.actions(fleet, &mut actions);
    actions.iter().all(|action| matches!(action, Action::Change(_) | Action::Remove(_)))
}
