//! The rows of the help: the keys of the screen below first, then those of every screen, then
//! those of other places.

use super::Binding;
use super::table::TABLE;
use crate::model::overlay::Help;
use crate::model::{Action, Focus, Model, Screen};

/// The number of places from which on they are not named.
const MANY_PLACES: usize = 6;

/// A row of the help.
#[derive(Debug)]
pub struct HelpRow {
    /// The binding.
    pub binding: &'static Binding,
    /// Where it is active.
    pub place: String,
    /// Whether it is active on the screen below.
    pub is_here: bool,
    /// The first screen on which it is active and allowed, if it is not active below. There is none
    /// if it is active only in overlays.
    pub screen: Option<Screen>,
}

/// Returns the rows that contain each word of the search as a key, in the description, as a command
/// or as the place, or have a synonym that begins with it, ignoring case. A key or a command that is
/// the whole search comes first.
pub fn help(model: &Model, open: &Help) -> Vec<HelpRow> {
    let query = open.input.value().trim();
    let words: Vec<_> = query.split_whitespace().map(str::to_lowercase).collect();
    let below = if open.form.is_some() { Focus::Form } else { model.focus_below() };
    let mut rows = all(model, below);
    rows.retain(|row| {
        let text = row.text().to_lowercase();
        words.iter().all(|word| text.contains(word) || row.binding.has_synonym(word))
    });
    if !query.is_empty() {
        rows.sort_by_key(|row| !row.is_named(query));
    }
    rows
}

/// Returns all rows, those of the focus `below` first, then in the order of the places.
fn all(model: &Model, below: Focus) -> Vec<HelpRow> {
    let mut rows = Vec::new();
    let mut others: Vec<(String, Vec<HelpRow>)> = Vec::new();
    for binding in TABLE {
        let is_here = binding.focus.contains(&below);
        if is_here && model.allows(binding.action) {
            let place = if binding.is_global() { "everywhere" } else { below.name() }.to_owned();
            rows.push(HelpRow { binding, place, is_here, screen: None });
        } else if !is_here && let Some((place, screen)) = place(model, binding) {
            let row = HelpRow { binding, place: place.clone(), is_here, screen };
            match others.iter_mut().find(|(name, _)| *name == place) {
                Some((_, rows)) => rows.push(row),
                None => others.push((place, vec![row])),
            }
        }
    }
    rows.sort_by_key(|row| row.binding.is_global());
    rows.extend(others.into_iter().flat_map(|(_, rows)| rows));
    rows
}

/// Returns the names of the places where the account can use the binding, and the first of them that
/// is a screen. There are none on the sign-in screen, from which no other place can be reached.
fn place(model: &Model, binding: &Binding) -> Option<(String, Option<Screen>)> {
    let is_reachable = |focus: &Focus| match focus {
        Focus::Screen(Screen::SignIn) => false,
        Focus::Screen(screen) => {
            model.allows(Action::Open(*screen)) && model.allows_on(*screen, binding.action)
        }
        // Only accounts have more than one thing to choose from.
        Focus::Choose => model.allows(Action::Open(Screen::Accounts)),
        Focus::Route => model.allows(Action::Explain),
        Focus::Trial => model.allows(Action::Try),
        Focus::Confirm | Focus::Secret => !model.is_read_only,
        _ => true,
    };
    if model.screen == Screen::SignIn {
        return None;
    }
    let places: Vec<_> = binding.focus.iter().filter(|it| is_reachable(it)).collect();
    let mut names: Vec<_> = places.iter().map(|it| it.name()).collect();
    names.dedup();
    let name = match names.len() {
        0 => return None,
        MANY_PLACES.. => "lists".to_owned(),
        _ => names.join(", "),
    };
    let screen = places.into_iter().find_map(|focus| match focus {
        Focus::Screen(screen) => Some(*screen),
        _ => None,
    });
    Some((name, screen))
}

// === impl HelpRow ===

impl HelpRow {
    /// Returns the keys, separated by spaces.
    pub fn keys(&self) -> String {
        self.binding.labels().collect::<Vec<_>>().join(" ")
    }

    /// Returns the palette command with its colon; empty if there is none.
    pub fn command(&self) -> String {
        self.binding.command.map(|name| format!(":{name}")).unwrap_or_default()
    }

    fn text(&self) -> String {
        format!("{} {} {} {}", self.keys(), self.binding.help, self.command(), self.place)
    }

    /// Returns whether `query` is one of the keys or the command.
    fn is_named(&self, query: &str) -> bool {
        let name = query.trim_start_matches(':');
        self.binding.labels().any(|label| label == query) || self.binding.command == Some(name)
    }
}
