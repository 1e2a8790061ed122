//! What must hold in every state, and what a run must reach to check anything.

use stateright::Property;

use super::fleet::{GatewayFleet, Node, Phase};
use super::scenario::{LimitKind, MINUTE, Scenario};
use super::store::{Operation, Part, Process};

/// The limit holds. What a removed node still has in progress does not count: nothing can end it.
pub(crate) const WITHIN: &str = "all nodes together use no more than the limit";
/// The parts are those of one limit.
pub(crate) const AVAILABLE: &str = "the parts that count are at most the limit";
/// The invariant of `limits::share`.
pub(crate) const COVERED: &str = "a node has no more than the store has allocated to it";
/// What nothing can use returns: at once, or within a minute.
pub(crate) const NOT_STRANDED: &str = "each part belongs to a process that can use it, or expires";

/// Returns the properties that hold in all states, and what a run with the bounds of `scenario` must reach.
pub(crate) fn all(scenario: &Scenario) -> Vec<Property<Scenario>> {
    let mut properties = vec![
        Property::always(WITHIN, |scenario: &Scenario, fleet: &GatewayFleet| {
            let used: i64 = match scenario.kind {
                LimitKind::PerMinute => fleet.admitted.iter().copied().map(i64::from).sum(),
                LimitKind::Concurrency => {
                    members(fleet).map(|node| i64::from(node.in_flight)).sum()
                }
            };
            used <= scenario.limit
        }),
        Property::always(AVAILABLE, |scenario: &Scenario, fleet: &GatewayFleet| {
            fleet.store.parts.values().map(|part| part.amount).sum::<i64>() <= scenario.limit
        }),
        Property::always(COVERED, |_: &Scenario, fleet: &GatewayFleet| {
            fleet.nodes.iter().enumerate().all(|(node, it)| {
                let process = Process { node, epoch: it.epoch };
                let part = fleet.store.parts.get(&process).filter(|it| it.expires_in.is_none());
                fleet.store.nodes[node].is_removed
                    || it.granted <= part.map_or(0, |part| part.amount)
            })
        }),
        Property::always(NOT_STRANDED, |_: &Scenario, fleet: &GatewayFleet| {
            fleet.store.parts.iter().all(|(process, part)| is_usable(fleet, *process, part))
        }),
    ];
    let Scenario { kind, bounds, .. } = *scenario;
    let reachable: [(bool, Property<Scenario>); 6] = [
        (
            bounds.allocations > 3,
            Property::sometimes("a part passes on", |scenario: &Scenario, fleet: &GatewayFleet| {
                // All have been given back before it had all.
                fleet.nodes[0].operations > 1
                    && fleet.nodes[1].granted == scenario.limit
                    && fleet.nodes[1].used(scenario.kind) > 0
            }),
        ),
        (
            bounds.timeouts > 0,
            Property::sometimes("an operation is repeated", |_, fleet: &GatewayFleet| {
                let mut calls = fleet.calls.iter();
                calls.any(|call| !call.is_awaited && fleet.awaits(call.process.node))
            }),
        ),
        (
            bounds.crashes > 0 && kind == LimitKind::PerMinute,
            Property::sometimes("an earlier process still counts", |_, fleet: &GatewayFleet| {
                let expiring = fleet.store.parts.values().any(|part| part.expires_in.is_some());
                expiring && members(fleet).any(|node| node.epoch > 1 && node.granted > 0)
            }),
        ),
        (
            bounds.removals > 0,
            Property::sometimes(
                "what a removed node had is used by another one",
                |scenario: &Scenario, fleet: &GatewayFleet| {
                    fleet.store.nodes[0].is_removed
                        && fleet.nodes[0].granted > 0
                        && fleet.nodes[1].used(scenario.kind) == scenario.limit
                },
            ),
        ),
        (
            bounds.silences > 0,
            Property::sometimes(
                "a node without the store admits",
                |scenario: &Scenario, fleet: &GatewayFleet| {
                    let silent = |node: &&Node| node.phase == Phase::Silent(0);
                    fleet.nodes.iter().filter(silent).any(|node| node.used(scenario.kind) > 0)
                },
            ),
        ),
        (
            bounds.failovers > 0,
            Property::sometimes(
                "a failover reduces a part of which something is in use",
                |scenario: &Scenario, fleet: &GatewayFleet| {
                    fleet.calls.iter().any(|call| match call.operation {
                        Operation::Set(used) => {
                            let is_in_use = fleet.nodes[call.process.node].used(scenario.kind) > 0;
                            let part = fleet.store.parts.get(&call.process);
                            is_in_use && part.is_some_and(|part| part.amount > used)
                        }
                        Operation::Allocate(_) | Operation::GiveBack(_) => false,
                    })
                },
            ),
        ),
    ];
    properties.extend(
        reachable.into_iter().filter(|(applies, _)| *applies).map(|(_, property)| property),
    );
    properties
}

/// Returns the nodes that were not removed.
fn members(fleet: &GatewayFleet) -> impl Iterator<Item = &Node> {
    let rows = fleet.nodes.iter().zip(&fleet.store.nodes);
    rows.filter(|(_, row)| !row.is_removed).map(|(node, _)| node)
}

/// Returns whether a part expires, or can be used or given back: by its process or, after a crash, by the next start of
/// the node or its removal. Of a process that waits for no call, this is what it has in memory.
fn is_usable(fleet: &GatewayFleet, process: Process, part: &Part) -> bool {
    if let Some(steps) = part.expires_in {
        return steps <= MINUTE;
    }
    let Process { node, epoch } = process;
    let is_of_process = epoch == fleet.nodes[node].epoch;
    if fleet.store.nodes[node].is_removed {
        return false;
    }
    match fleet.nodes[node].phase {
        Phase::Starting | Phase::Ended => true,
        Phase::Stopped => false,
        Phase::Serving | Phase::Silent(_) => {
            let is_settled = !fleet.has_calls(node);
            is_of_process && (!is_settled || fleet.nodes[node].granted == part.amount)
        }
    }
}
