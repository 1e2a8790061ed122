//! What must hold of the whole table.

use std::collections::BTreeSet;

use super::table::TABLE;
use super::{Binding, bindings};
use crate::model::{Action, Focus, Screen};

/// Returns whoever can have the keys.
fn all() -> impl Iterator<Item = Focus> {
    let screens = [Screen::SignIn].into_iter().chain(Screen::TABS).map(Focus::Screen);
    screens.chain([
        Focus::Filter,
        Focus::Palette,
        Focus::Form,
        Focus::Confirm,
        Focus::Secret,
        Focus::Help,
    ])
}

/// Expects that no two of `names` are the same.
fn distinct(focus: Focus, names: impl Iterator<Item = String>) {
    let mut seen = BTreeSet::new();
    for name in names {
        assert!(seen.insert(name.clone()), "{focus:?} has `{name}` twice");
    }
}

#[test]
fn no_two_rows_claim_the_same_key_or_command() {
    for focus in all() {
        distinct(focus, bindings(focus).flat_map(Binding::labels));
        distinct(focus, bindings(focus).filter_map(|row| row.command.map(str::to_owned)));
    }
}

#[test]
fn everywhere_there_is_a_way_out_and_a_hint_of_it() {
    for focus in all() {
        let hinted = |action| bindings(focus).any(|row| row.action == action && row.hint.is_some());
        assert!(hinted(Action::Quit) || hinted(Action::Back), "{focus:?}");
        assert!(bindings(focus).any(|row| row.action == Action::Quit), "{focus:?}");
    }
}

#[test]
fn every_row_can_be_reached_and_is_explained() {
    for row in TABLE {
        assert!(!row.keys.is_empty() || row.command.is_some(), "`{}` has neither key nor command", row.help);
        assert!(!row.focus.is_empty() && !row.help.is_empty());
        assert!(row.hint.is_none() || !row.keys.is_empty(), "`{}` hints at no key", row.help);
    }
}

#[test]
fn tabs_have_the_number_of_their_place() {
    for (place, screen) in Screen::TABS.into_iter().enumerate() {
        let row = TABLE.iter().find(|row| row.action == Action::Open(screen)).unwrap();
        assert_eq!(row.labels().next(), Some((place + 1).to_string()));
        assert_eq!(row.command, Some(screen.name()));
    }
}
