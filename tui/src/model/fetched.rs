//! Data fetched from the gateway with its load state; for lists, also the cursor and the filter.

use std::collections::BTreeSet;

use super::table::{TableState, Tabular};

/// The load state of fetched data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FetchState {
    /// No response has arrived yet.
    #[default]
    Loading,
    /// The last fetch succeeded.
    Ready,
    /// The last fetch failed with this error; the data, if any, is from an earlier fetch.
    Failed(String),
    /// This gateway does not support the request.
    Unsupported,
}

/// A value fetched from the gateway.
#[derive(Debug)]
pub struct Fetched<T> {
    /// The value of the last successful fetch.
    pub value: Option<T>,
    /// The load state.
    pub fetch: FetchState,
}

/// An entry of a [`List`].
pub trait ListEntry: Tabular {
    /// Returns the id, unique within the list.
    fn id(&self) -> &str;
    /// Returns the texts that the filter searches.
    fn texts(&self) -> Vec<&str>;
}

/// A list fetched as a whole, with a cursor and a filter.
#[derive(Debug)]
pub struct List<T> {
    /// All entries, in the gateway's order.
    pub entries: Vec<T>,
    /// Whether the gateway has more entries than were fetched.
    pub has_more: bool,
    /// The load state.
    pub fetch: FetchState,
    /// The index of the selected entry among those that match the filter.
    pub selected: usize,
    /// Words that an entry must contain, ignoring case; empty matches all entries.
    pub filter: String,
    /// The order of the entries, and which of them are marked.
    pub table: TableState,
}

// === impl Fetched ===

impl<T> Default for Fetched<T> {
    fn default() -> Self {
        Self { value: None, fetch: FetchState::Loading }
    }
}

impl<T> Fetched<T> {
    /// Stores the result of a successful fetch.
    pub fn set(&mut self, value: T) {
        self.value = Some(value);
        self.fetch = FetchState::Ready;
    }
}

// === impl List ===

impl<T> Default for List<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            has_more: false,
            fetch: FetchState::Loading,
            selected: 0,
            filter: String::new(),
            table: TableState::default(),
        }
    }
}

impl<T: ListEntry> List<T> {
    /// Returns the entries that match the filter, in the order that the user chose.
    pub fn visible(&self) -> impl Iterator<Item = &T> {
        let words = self.filter.to_lowercase();
        let matches = |entry: &&T| {
            let texts = || entry.texts().into_iter().map(str::to_lowercase);
            words.split_whitespace().all(|word| texts().any(|text| text.contains(word)))
        };
        let mut entries: Vec<_> = self.entries.iter().filter(matches).collect();
        if let Some(sort) = self.table.sort {
            entries.sort_by(|a, b| sort.compare(*a, *b));
        }
        entries.into_iter()
    }

    /// Returns the marked entries that match the filter; without any, the selected one.
    pub fn chosen(&self) -> Vec<&T> {
        let is_marked = |entry: &&T| self.table.marked.contains(entry.id());
        let marked: Vec<_> = self.visible().filter(is_marked).collect();
        if marked.is_empty() { self.current().into_iter().collect() } else { marked }
    }

    /// Changes the order of the entries. The cursor stays on its entry.
    pub fn rearrange(&mut self, change: impl FnOnce(&mut TableState, Option<&T>)) {
        let id = self.current().map(|entry| entry.id().to_owned());
        change(&mut self.table, self.entries.first());
        let same = id.and_then(|id| self.visible().position(|entry| entry.id() == id));
        self.select(same.unwrap_or(0));
    }

    /// Returns the selected entry.
    pub fn current(&self) -> Option<&T> {
        self.visible().nth(self.selected)
    }

    /// Stores the result of a successful fetch. The cursor stays on the same entry if it still
    /// exists.
    pub fn set(&mut self, entries: Vec<T>) {
        let id = self.current().map(|entry| entry.id().to_owned());
        self.entries = entries;
        self.fetch = FetchState::Ready;
        let ids: BTreeSet<_> = self.entries.iter().map(ListEntry::id).collect();
        self.table.marked.retain(|id| ids.contains(id.as_str()));
        let same = id.and_then(|id| self.visible().position(|entry| entry.id() == id));
        self.select(same.unwrap_or(self.selected));
    }

    /// Sets the filter and moves the cursor to the first match.
    pub fn set_filter(&mut self, filter: &str) {
        filter.clone_into(&mut self.filter);
        self.selected = 0;
    }

    /// Moves the cursor to `row`, or to the last row if there are fewer.
    pub fn select(&mut self, row: usize) {
        self.selected = row.min(self.visible().count().saturating_sub(1));
    }
}
