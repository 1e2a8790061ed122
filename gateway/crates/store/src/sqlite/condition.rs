//! Builds the `WHERE` clause of a query.

use super::codec::ToColumn;

/// A condition with its values.
#[derive(Default)]
pub(super) struct Condition {
    sql: String,
    values: Vec<Box<dyn ToColumn>>,
}

impl Condition {
    /// Adds `clause`, which has one placeholder, if there is a value for it.
    pub(super) fn and_if_some(&mut self, clause: &str, value: Option<impl ToColumn + 'static>) {
        if let Some(value) = value {
            self.and(clause);
            self.values.push(Box::new(value));
        }
    }

    /// Adds `clause`, which has one placeholder per value.
    pub(super) fn and_with(
        &mut self,
        clause: &str,
        values: impl IntoIterator<Item = Box<dyn ToColumn>>,
    ) {
        self.and(clause);
        self.values.extend(values);
    }

    /// Adds `clause`, which has no placeholder.
    pub(super) fn and(&mut self, clause: &str) {
        self.sql.push_str(if self.sql.is_empty() { "WHERE " } else { " AND " });
        self.sql.push_str(clause);
    }

    /// Returns the `WHERE` clause; empty without conditions.
    pub(super) fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns the values of the placeholders.
    pub(super) fn values(&self) -> impl Iterator<Item = &dyn ToColumn> {
        self.values.iter().map(|value| &**value)
    }
}
