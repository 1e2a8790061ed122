//! What the gateway has and we show: how far it is fetched, and for lists the cursor and the filter.

/// How far something is fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FetchState {
    /// There was no answer yet.
    #[default]
    Loading,
    /// There was one.
    Ready,
    /// The last attempt failed; what is shown, if anything, is older.
    Failed(String),
    /// This gateway does not have it.
    Unsupported,
}

/// One thing of the gateway.
#[derive(Debug)]
pub struct Fetched<T> {
    /// What it was when it was last fetched.
    pub value: Option<T>,
    /// How far it is fetched.
    pub fetch: FetchState,
}

/// An entry of a [`List`].
pub trait ListEntry {
    /// Returns what tells it from the others.
    fn id(&self) -> &str;
    /// Returns the texts in which a filter looks.
    fn texts(&self) -> Vec<&str>;
}

/// A list of the gateway, fetched whole.
#[derive(Debug)]
pub struct List<T> {
    /// All entries, in the gateway's order.
    pub entries: Vec<T>,
    /// How far it is fetched.
    pub fetch: FetchState,
    /// Which of the entries that pass the filter is under the cursor.
    pub selected: usize,
    /// What an entry has to contain, in whatever case; empty lets all pass.
    pub filter: String,
}

// === impl Remote ===

impl<T> Default for Fetched<T> {
    fn default() -> Self {
        Self { value: None, fetch: FetchState::Loading }
    }
}

impl<T> Fetched<T> {
    /// Takes in an answer.
    pub fn set(&mut self, value: T) {
        self.value = Some(value);
        self.fetch = FetchState::Ready;
    }
}

// === impl List ===

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), fetch: FetchState::Loading, selected: 0, filter: String::new() }
    }
}

impl<T: ListEntry> List<T> {
    /// Returns the entries that pass the filter.
    pub fn visible(&self) -> impl Iterator<Item = &T> {
        let needle = self.filter.to_lowercase();
        self.entries.iter().filter(move |entry| {
            needle.is_empty() || entry.texts().iter().any(|it| it.to_lowercase().contains(&needle))
        })
    }

    /// Returns the entry under the cursor.
    pub fn current(&self) -> Option<&T> {
        self.visible().nth(self.selected)
    }

    /// Takes in an answer; the cursor stays with its entry.
    pub fn set(&mut self, entries: Vec<T>) {
        let id = self.current().map(|entry| entry.id().to_owned());
        self.entries = entries;
        self.fetch = FetchState::Ready;
        let same = id.and_then(|id| self.visible().position(|entry| entry.id() == id));
        self.select(same.unwrap_or(self.selected));
    }

    /// Lets only entries with `filter` in them pass; the cursor goes to the first of them.
    pub fn set_filter(&mut self, filter: &str) {
        filter.clone_into(&mut self.filter);
        self.selected = 0;
    }

    /// Puts the cursor on `row`, or on the last one if there are fewer.
    pub fn select(&mut self, row: usize) {
        self.selected = row.min(self.visible().count().saturating_sub(1));
    }
}
