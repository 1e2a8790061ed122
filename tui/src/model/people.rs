//! The people of an account, who sign in besides its owner.

use jiff::Timestamp;

use super::fetched::ListEntry;
use super::table::{Tabular, Value};

/// A person of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Person {
    /// The immutable id.
    pub id: String,
    /// The sign-in name.
    pub name: String,
    /// What it may do in the account; `None` if unknown.
    pub role: Option<PersonRole>,
    /// Whether it was removed.
    pub is_removed: bool,
    /// The time at which it was added.
    pub created_at: Option<Timestamp>,
}

/// What a person may do in its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonRole {
    /// Read everything, create keys, and change the keys that it created.
    Member,
    /// Also change all keys, and manage the people.
    Admin,
}

// === impl Person ===

impl Person {
    /// Returns `removed`, or `active`.
    pub fn state(&self) -> &'static str {
        if self.is_removed { "removed" } else { "active" }
    }
}

impl Tabular for Person {
    const COLUMNS: &'static [&'static str] = &["name", "role", "state", "added"];

    fn value(&self, column: &str) -> Value {
        match column {
            "name" => Value::text(&self.name),
            "role" => Value::optional_text(self.role.map(PersonRole::as_str)),
            "state" => Value::text(self.state()),
            "added" => Value::time(self.created_at),
            _ => Value::Unknown,
        }
    }
}

impl ListEntry for Person {
    fn id(&self) -> &str {
        &self.id
    }

    fn texts(&self) -> Vec<&str> {
        vec![&self.name, self.role.map_or("", PersonRole::as_str), self.state()]
    }
}

// === impl PersonRole ===

impl PersonRole {
    /// The names of all roles.
    pub const NAMES: &'static [&'static str] = &["member", "admin"];

    /// Returns the name of the role.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Admin => "admin",
        }
    }

    /// Returns the role with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Member, Self::Admin].into_iter().find(|role| role.as_str() == name)
    }
}
