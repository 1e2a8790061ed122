//! Tests of the nodes screen.

use super::*;
use crate::model::fetched::FetchState;
use crate::model::nodes::{Node, NodeState};

/// Returns a model on the nodes screen, with a node in each state.
fn on_nodes() -> Model {
    let mut model = signed_in(Role::Operator);
    let states = [NodeState::Serving, NodeState::Draining, NodeState::Silent, NodeState::Stopped];
    let node = |state: NodeState| Node {
        name: state.name().to_owned(),
        state: Some(state),
        ..Node::default()
    };
    load(&mut model, Loaded::Nodes(states.map(node).into()));
    press(&mut model, KeyCode::Char('0'));
    assert_eq!(model.screen, Screen::Nodes);
    model
}

/// Presses `key` on the row, and confirms. Returns the requested change, or the problem.
fn ask(row: usize, key: char) -> Result<String, String> {
    let mut model = on_nodes();
    for _ in 0..row {
        press(&mut model, KeyCode::Char('j'));
    }
    assert!(press(&mut model, KeyCode::Char(key)).is_empty(), "without a question");
    match (&model.overlay, &model.notice) {
        (Some(Overlay::Confirm(_)), None) => Ok(change(&press(&mut model, KeyCode::Char('y')))),
        (None, Some(Notice::Problem(problem))) => Err(problem.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_is_drained_and_undrained_if_it_serves() {
    let drain =
        |name, is_draining| format!("DrainNode {{ name: {name:?}, is_draining: {is_draining} }}");
    assert_eq!(ask(0, 'd'), Ok(drain("serving", true)));
    assert_eq!(ask(1, 'd'), Ok(drain("draining", false)));
    for row in [2, 3] {
        assert!(ask(row, 'd').unwrap_err().contains("does not serve"));
    }
}

#[test]
fn a_node_is_removed_if_it_does_not_serve() {
    let remove = |name, is_lost| format!("RemoveNode {{ name: {name:?}, is_lost: {is_lost} }}");
    for row in [0, 1] {
        assert!(ask(row, 'x').unwrap_err().contains("stop it first"));
    }
    assert_eq!(ask(2, 'x'), Ok(remove("silent", true)));
    assert_eq!(ask(3, 'x'), Ok(remove("stopped", false)));
}

#[test]
fn there_is_a_tab_if_there_are_nodes() {
    let mut model = signed_in(Role::Operator);
    update(&mut model, Message::NotLoaded(Topic::Nodes, FetchState::Unsupported));
    assert!(!model.tabs().any(|it| it == Screen::Nodes));
    press(&mut model, KeyCode::BackTab);
    assert_eq!(model.screen, Screen::Audit);
    let effects = press(&mut model, KeyCode::Char('0'));
    assert_eq!(subscribed(&effects).topics, [Topic::Account, Topic::Nodes]);
    assert!(model.tabs().any(|it| it == Screen::Nodes), "it is open, and says why it is empty");
    press(&mut model, KeyCode::Char('d'));
    let Some(Notice::Problem(problem)) = &model.notice else { panic!("{:?}", model.notice) };
    assert_eq!(problem, "`nodes` is not available on this gateway");

    assert!(on_nodes().tabs().any(|it| it == Screen::Nodes));
    let mut member = signed_in(Role::Member);
    press(&mut member, KeyCode::Char('0'));
    assert_eq!(member.screen, Screen::Overview);
}
