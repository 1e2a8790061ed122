//! The version of a database's schema, and what an upgrade of it does.

use std::fmt;

/// The version of a schema, which counts the migrations. `Display` is for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The database: `SQLite` or `PostgreSQL`.
    pub backend: &'static str,
    /// The number of the newest migration.
    pub version: u32,
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} schema {}", self.backend, self.version)
    }
}

/// What opening a database does to its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// The schema version of the database.
    pub from: u32,
    /// The schema version afterwards; the same if nothing is to be done.
    pub to: u32,
    /// The names of the migrations that are missing, in their order.
    pub migrations: &'static [&'static str],
    /// The size of the database in bytes.
    pub bytes: u64,
}
