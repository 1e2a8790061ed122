//! Invariants of the key table.

use std::collections::BTreeSet;

use super::table::TABLE;
use super::{Binding, bindings};
use crate::model::{Action, Focus, Screen};

/// Returns every focus.
fn all() -> impl Iterator<Item = Focus> {
    let screens = [Screen::SignIn].into_iter().chain(Screen::openable()).map(Focus::Screen);
    screens.chain([
        Focus::Filter,
        Focus::Palette,
        Focus::Chart,
        Focus::Columns,
        Focus::Values,
        Focus::Themes,
        Focus::Form,
        Focus::Choose,
        Focus::Confirm,
        Focus::Secret,
        Focus::Trial,
        Focus::Route,
        Focus::Help,
        Focus::HelpSearch,
    ])
}

/// Asserts that `names` has no duplicates.
fn distinct(focus: Focus, names: impl Iterator<Item = String>) {
    let mut seen = BTreeSet::new();
    for name in names {
        assert!(seen.insert(name.clone()), "{focus:?} has `{name}` twice");
    }
}

#[test]
fn keys_and_commands_are_unique_within_a_focus() {
    for focus in all() {
        distinct(focus, bindings(focus).flat_map(Binding::labels));
        distinct(focus, bindings(focus).filter_map(|row| row.command.map(str::to_owned)));
    }
}

#[test]
fn every_focus_has_a_hinted_way_out() {
    for focus in all() {
        let hinted = |action| bindings(focus).any(|row| row.action == action && row.hint.is_some());
        assert!(hinted(Action::Quit) || hinted(Action::Back), "{focus:?}");
        assert!(bindings(focus).any(|row| row.action == Action::Quit), "{focus:?}");
    }
}

#[test]
fn every_binding_is_reachable_and_documented() {
    for row in TABLE {
        assert!(
            !row.keys.is_empty() || row.command.is_some(),
            "`{}` has neither key nor command",
            row.help
        );
        assert!(!row.focus.is_empty() && !row.help.is_empty());
        assert!(row.hint.is_none() || !row.keys.is_empty(), "`{}` hints at no key", row.help);
        let repeated = row.command.is_some_and(|it| row.synonyms.split(' ').any(|word| word == it));
        assert!(!repeated, "`{}` has its command as a synonym", row.help);
    }
}

#[test]
fn tab_keys_match_the_tab_order() {
    for (place, screen) in Screen::TABS.into_iter().enumerate() {
        let row = TABLE.iter().find(|row| row.action == Action::Open(screen)).unwrap();
        assert_eq!(row.labels().next(), Some(((place + 1) % 10).to_string()));
        assert_eq!(row.command, Some(screen.name()));
    }
}
