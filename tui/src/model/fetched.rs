//! Data fetched from the gateway with its load state; for lists, also the cursor and the filter.

use std::collections::BTreeSet;

use super::keys::public_id;
use super::table::{TableState, Tabular, Value};

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
    /// Whether the entry under the cursor is another one since the last fetch, because the previous
    /// one is gone.
    pub is_displaced: bool,
    /// The id of an entry that was added and has not been fetched yet. The cursor moves there, unless
    /// the user moves it before.
    pub awaited: Option<String>,
    /// What an entry must match: words that it contains, ignoring case, and terms such as
    /// `account:ada`, which compare the whole value of a column. Empty matches all entries.
    pub filter: String,
    /// The order of the entries, and which of them are marked.
    pub table: TableState,
}

/// A part of a filter.
#[derive(Debug)]
enum Term<'a> {
    /// Lower-case text within an entry.
    Contains(String),
    /// The exact text in the column with this title.
    Equals(&'static str, &'a str),
    /// Lower-case text within the column with this title.
    Within(&'static str, String),
}

// === impl Term ===

impl<'a> Term<'a> {
    /// Parses a word of a filter for `entries`. A word with a colon is an ordinary one unless a
    /// column has that title. A value that an entry has in whole stands for that alone.
    fn parse<T: ListEntry>(word: &'a str, entries: &[T]) -> Self {
        let column = |title: &str| T::COLUMNS.iter().find(|it| **it == title);
        // The entries have the public ids of keys, not their text.
        let known = |text: &'a str| public_id(text).unwrap_or(text);
        match word.split_once(':').and_then(|(title, value)| Some((*column(title)?, value))) {
            None => Self::Contains(known(word).to_lowercase()),
            Some((column, value)) => {
                let value = known(value);
                let equals = Self::Equals(column, value);
                if entries.iter().any(|entry| equals.matches(entry)) {
                    equals
                } else {
                    Self::Within(column, value.to_lowercase())
                }
            }
        }
    }

    fn matches<T: ListEntry>(&self, entry: &T) -> bool {
        match self {
            Self::Contains(word) => {
                let contains = |text: &str| text.to_lowercase().contains(word);
                entry.texts().into_iter().any(contains)
                    || T::COLUMNS.iter().any(|column| contains(&entry.value(column).plain()))
            }
            Self::Equals(column, value) => {
                matches!(entry.value(column), Value::Text(text) if text == *value)
            }
            Self::Within(column, value) => {
                entry.value(column).plain().to_lowercase().contains(value)
            }
        }
    }
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
            is_displaced: false,
            awaited: None,
            filter: String::new(),
            table: TableState::default(),
        }
    }
}

impl<T: ListEntry> List<T> {
    /// Returns the entries that match the filter, in the order that the user chose.
    pub fn visible(&self) -> impl Iterator<Item = &T> {
        let terms: Vec<_> =
            self.filter.split_whitespace().map(|word| Term::parse(word, &self.entries)).collect();
        let matches = |entry: &&T| terms.iter().all(|term| term.matches(*entry));
        let mut entries: Vec<_> = self.entries.iter().filter(matches).collect();
        if let Some(sort) = self.table.sort {
            entries.sort_by(|a, b| sort.compare(*a, *b));
        }
        entries.into_iter()
    }

    /// Returns terms of a filter that begin like `word`: columns of texts, or values of a column.
    pub fn filter_words(&self, word: &str) -> Vec<String> {
        let text = |entry: &T, column: &str| match entry.value(column) {
            Value::Text(text) if !text.contains(' ') => Some(text),
            _ => None,
        };
        let columns = T::COLUMNS.iter().filter(|column| !column.contains(' '));
        match word.split_once(':') {
            None => columns
                .filter(|column| column.starts_with(word))
                .filter(|column| self.entries.iter().any(|it| text(it, column).is_some()))
                .map(|column| format!("{column}:"))
                .collect(),
            Some((column, value)) => {
                let value = value.to_lowercase();
                let texts = self.entries.iter().filter_map(|entry| text(entry, column));
                let found: BTreeSet<_> =
                    texts.filter(|text| text.to_lowercase().contains(&value)).collect();
                found.into_iter().map(|text| format!("{column}:{text}")).collect()
            }
        }
    }

    /// Returns the marked entries that match the filter.
    pub fn marked(&self) -> Vec<&T> {
        self.visible().filter(|entry| self.table.marked.contains(entry.id())).collect()
    }

    /// Returns the marked entries that match the filter; without any, the selected one.
    pub fn chosen(&self) -> Vec<&T> {
        let marked = self.marked();
        if marked.is_empty() { self.current().into_iter().collect() } else { marked }
    }

    /// Changes the order of the entries. The cursor stays on its entry.
    pub fn rearrange(
        &mut self,
        change: impl FnOnce(&mut TableState, &mut dyn Iterator<Item = &T>),
    ) {
        self.keep_cursor(|list| change(&mut list.table, &mut list.entries.iter()));
    }

    /// Changes values of the entries, on which the order and the filter may depend. The cursor
    /// stays on its entry.
    pub fn change_entries(&mut self, change: impl FnOnce(&mut [T])) {
        self.keep_cursor(|list| change(&mut list.entries));
    }

    /// Makes a change after which the cursor is on the same entry, or in the same place if that
    /// entry is no longer visible.
    fn keep_cursor(&mut self, change: impl FnOnce(&mut Self)) {
        let id = self.current().map(|entry| entry.id().to_owned());
        change(self);
        let (was_displaced, awaited) = (self.is_displaced, self.awaited.take());
        let had_entry = id.is_some();
        let same = id.and_then(|id| self.visible().position(|entry| entry.id() == id));
        self.select(same.unwrap_or(self.selected));
        self.is_displaced = was_displaced || (had_entry && same.is_none());
        self.awaited = awaited;
    }

    /// Returns the selected entry.
    pub fn current(&self) -> Option<&T> {
        self.visible().nth(self.selected)
    }

    /// Stores the result of a successful fetch. The cursor stays on the same entry if it still
    /// exists. Marks stay, because a screen may fetch only some of the entries of another one.
    pub fn set(&mut self, entries: Vec<T>) {
        self.fetch = FetchState::Ready;
        self.keep_cursor(|list| list.entries = entries);
        let awaited = self.awaited.as_ref();
        let row = awaited.and_then(|id| self.visible().position(|entry| entry.id() == id));
        if let Some(row) = row {
            self.select(row);
        }
    }

    /// Drops the entries, because others are fetched. Filter, order and marks stay.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.has_more = false;
        self.fetch = FetchState::Loading;
        self.selected = 0;
    }

    /// Sets the filter and moves the cursor to the first match.
    pub fn set_filter(&mut self, filter: &str) {
        filter.clone_into(&mut self.filter);
        self.selected = 0;
    }

    /// Moves the cursor to `row`, or to the last row if there are fewer.
    pub fn select(&mut self, row: usize) {
        self.selected = row.min(self.visible().count().saturating_sub(1));
        self.is_displaced = false;
        self.awaited = None;
    }
}
