//! A model of the directories of several gateways, checked in every order of changes, readings and a failover.
//!
//! The decisions are those of [`domain::change`]; the transactions of `store::postgres::changes` and the follower of
//! the gateway are modelled after the real ones. A failover of the database can lose the latest commits, whose numbers
//! are then used again. [`Bug`] lists faults that the checker must find, which shows that the properties are not
//! vacuous.

use domain::change::{ChangeSeq, Unapplied};
use stateright::{Checker, HasDiscoveries, Model, Property};

const NODES: usize = 2;
const OBJECTS: usize = 2;
/// The changes that are kept when old ones are deleted.
const KEPT: usize = 1;

/// Directories agree with the database.
const CURRENT: &str = "a directory that has all changes is that of the database";
/// Nothing is overwritten unseen.
const BASED: &str = "a change is based on the state of the database";
/// The model reaches what it is meant to check.
const REUSED: &str = "the number of a lost change is used again";

/// What can happen in a run, and how often.
#[derive(Clone, Debug)]
struct Scenario {
    changes: u8,
    failovers: u8,
    deletions: u8,
    /// The deliberate fault; `None` for the behaviour of the real code.
    bug: Option<Bug>,
}

/// A deliberate fault. The checker must find the violation of a property for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// Changes are compared by their numbers only, as if there were no failovers.
    TimelineIgnored,
    /// A change is made without having applied all earlier ones.
    ChangeUnchecked,
    /// A gateway does not notice that changes that it lacks were deleted.
    DeletionIgnored,
    /// A gateway counts changes as applied that came after its reading.
    LaterChangesApplied,
    /// A gateway that reads everything keeps the objects that the database does not have.
    LostObjectsKept,
}

/// The state of the objects: the number of the change that wrote each, unique in the run; zero if it does not exist.
type Directory = [u8; OBJECTS];

/// The database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Store {
    newest: ChangeSeq,
    objects: Directory,
    /// The changes that were not deleted: their numbers and objects.
    changes: Vec<(i64, usize)>,
}

/// A gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    applied: ChangeSeq,
    directory: Directory,
    /// What it has read and not applied yet: its changes wait meanwhile.
    reading: Option<Reading>,
}

/// What a gateway reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reading {
    newest: ChangeSeq,
    /// Whether these are all objects that exist.
    is_complete: bool,
    objects: Vec<(usize, u8)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    store: Store,
    /// The states before the latest commits, which a failover can return to.
    earlier: Vec<Store>,
    nodes: [Node; NODES],
    /// The number of changes so far.
    written: u8,
    is_overwritten: bool,
    /// The newest change before the failover.
    lost: Option<ChangeSeq>,
    failovers: u8,
    deletions: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    /// A gateway changes an object, and learns whether that succeeded, or does not.
    Change { node: usize, object: usize, is_answered: bool },
    /// A gateway reads what it lacks.
    Read(usize),
    /// It applies what it has read.
    Apply(usize),
    /// The oldest changes are deleted.
    Delete,
    /// A standby becomes the primary that lacks the latest commits.
    Failover { lost: usize },
}

impl Scenario {
    fn includes(&self, applied: ChangeSeq, other: ChangeSeq) -> bool {
        match self.bug {
            Some(Bug::TimelineIgnored) => applied.number >= other.number,
            _ => applied.includes(other),
        }
    }

    fn unapplied(&self, applied: ChangeSeq, store: &Store) -> Unapplied {
        let has_next = store.changes.iter().any(|(number, _)| *number == applied.number + 1);
        let newest = store.newest;
        match self.bug {
            Some(Bug::TimelineIgnored) => {
                ChangeSeq { timeline: newest.timeline, ..applied }.unapplied(newest, has_next)
            }
            Some(Bug::DeletionIgnored) => applied.unapplied(newest, true),
            _ => applied.unapplied(newest, has_next),
        }
    }
}

impl Model for Scenario {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let newest = ChangeSeq { timeline: 1, number: 0 };
        let node = Node { applied: newest, ..Node::default() };
        vec![State {
            store: Store { newest, objects: [0; OBJECTS], changes: Vec::new() },
            earlier: Vec::new(),
            nodes: std::array::from_fn(|_| node.clone()),
            written: 0,
            is_overwritten: false,
            lost: None,
            failovers: 0,
            deletions: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (node, it) in state.nodes.iter().enumerate() {
            if it.reading.is_some() {
                actions.push(Action::Apply(node));
                continue;
            }
            if self.unapplied(it.applied, &state.store) != Unapplied::Nothing {
                actions.push(Action::Read(node));
            }
            let is_current = self.includes(it.applied, state.store.newest);
            if state.written < self.changes
                && (is_current || self.bug == Some(Bug::ChangeUnchecked))
            {
                for object in 0..OBJECTS {
                    let answers = [true, false];
                    let change = |is_answered| Action::Change { node, object, is_answered };
                    actions.extend(answers.map(change));
                }
            }
        }
        if state.deletions < self.deletions && state.store.changes.len() > KEPT {
            actions.push(Action::Delete);
        }
        if state.failovers < self.failovers {
            actions.extend((0..=state.earlier.len()).map(|lost| Action::Failover { lost }));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let store = &mut state.store;
        match action {
            Action::Change { node, object, is_answered } => {
                state.earlier.push(store.clone());
                let node = &mut state.nodes[node];
                state.is_overwritten |= node.directory != store.objects;
                state.written += 1;
                store.newest.number += 1;
                store.objects[object] = state.written;
                store.changes.push((store.newest.number, object));
                if is_answered {
                    node.applied = store.newest;
                    node.directory[object] = state.written;
                }
            }
            Action::Read(node) => {
                let node = &mut state.nodes[node];
                let unapplied = self.unapplied(node.applied, store);
                let objects: Vec<_> = match unapplied {
                    Unapplied::Nothing => return None,
                    Unapplied::Everything => {
                        (0..OBJECTS).filter(|object| store.objects[*object] != 0).collect()
                    }
                    Unapplied::Changes => {
                        let after = node.applied.number;
                        let changes = store.changes.iter().filter(|(number, _)| *number > after);
                        changes.map(|(_, object)| *object).collect()
                    }
                };
                let found = objects.into_iter().map(|object| (object, store.objects[object]));
                node.reading = Some(Reading {
                    newest: store.newest,
                    is_complete: unapplied == Unapplied::Everything,
                    objects: found.collect(),
                });
            }
            Action::Apply(node) => {
                let node = &mut state.nodes[node];
                let Reading { newest: read, is_complete, objects } = node.reading.take()?;
                if is_complete && self.bug != Some(Bug::LostObjectsKept) {
                    node.directory = [0; OBJECTS];
                }
                for (object, value) in objects {
                    node.directory[object] = value;
                }
                let is_late = self.bug == Some(Bug::LaterChangesApplied);
                let newest = if is_late { store.newest } else { read };
                if !self.includes(node.applied, newest) {
                    node.applied = newest;
                }
            }
            Action::Delete => {
                store.changes.drain(..store.changes.len() - KEPT);
                state.deletions += 1;
            }
            Action::Failover { lost } => {
                state.lost = (lost > 0).then_some(store.newest);
                let timeline = store.newest.timeline + 1;
                for _ in 0..lost {
                    *store = state.earlier.pop()?;
                }
                store.newest.timeline = timeline;
                // What it had lost is lost to later failovers, too.
                state.earlier.clear();
                state.failovers += 1;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(CURRENT, |scenario: &Self, state: &State| {
                let newest = state.store.newest;
                let mut current = state.nodes.iter().filter(|node| {
                    node.reading.is_none() && scenario.includes(node.applied, newest)
                });
                current.all(|node| node.directory == state.store.objects)
            }),
            Property::always(BASED, |_: &Self, state: &State| !state.is_overwritten),
            Property::sometimes(REUSED, |_: &Self, state: &State| {
                let newest = state.store.newest;
                state.lost.is_some_and(|lost| newest.number >= lost.number)
            }),
        ]
    }
}

const REAL: Scenario = Scenario { changes: 4, failovers: 1, deletions: 1, bug: None };

/// Checks that `bug` violates `property`.
fn finds(bug: Bug, property: &'static str) {
    let until = HasDiscoveries::AnyOf([property].into());
    let scenario = Scenario { bug: Some(bug), ..REAL };
    let checker = scenario.checker().finish_when(until).spawn_bfs().join();
    assert!(checker.discovery(property).is_some(), "{bug:?} does not violate `{property}`");
}

#[test]
fn directories_follow_the_database_through_failovers() {
    let checker = REAL.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    for property in [CURRENT, BASED] {
        let path = checker.discovery(property).map(stateright::Path::into_actions);
        assert_eq!(path, None, "{property}");
    }
    assert!(checker.discovery(REUSED).is_some());
    // So that a change of the model that checks less is noticed.
    assert_eq!(checker.unique_state_count(), 131_119);
}

#[test]
fn changes_of_another_timeline_are_not_the_same() {
    finds(Bug::TimelineIgnored, CURRENT);
}

#[test]
fn a_change_is_made_with_all_earlier_ones() {
    finds(Bug::ChangeUnchecked, BASED);
}

#[test]
fn deleted_changes_are_missed() {
    finds(Bug::DeletionIgnored, CURRENT);
}

#[test]
fn changes_after_a_reading_are_not_applied() {
    finds(Bug::LaterChangesApplied, CURRENT);
}

/// Regression test: keys and accounts that a failover had lost remained in use.
#[test]
fn lost_objects_are_removed() {
    finds(Bug::LostObjectsKept, CURRENT);
}
