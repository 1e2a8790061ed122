//! A condition on rows, put together from what is asked.

use super::codec::ToColumn;

/// A condition and its values.
#[derive(Default)]
pub(super) struct Condition {
    sql: String,
    values: Vec<Box<dyn ToColumn>>,
}

impl Condition {
    /// Narrows the choice by `clause`, if there is a value for its question mark.
    pub(super) fn and(&mut self, clause: &str, value: Option<impl ToColumn + 'static>) {
        if let Some(value) = value {
            self.and_always(clause);
            self.values.push(Box::new(value));
        }
    }

    /// Narrows the choice by `clause`, which has as many question marks.
    pub(super) fn and_all(
        &mut self,
        clause: &str,
        values: impl IntoIterator<Item = Box<dyn ToColumn>>,
    ) {
        self.and_always(clause);
        self.values.extend(values);
    }

    /// Narrows the choice by `clause`, which has no question mark.
    pub(super) fn and_always(&mut self, clause: &str) {
        self.sql.push_str(if self.sql.is_empty() { "WHERE " } else { " AND " });
        self.sql.push_str(clause);
    }

    /// Returns the `WHERE` clause, if there is any condition.
    pub(super) fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns the values of its question marks.
    pub(super) fn values(&self) -> impl Iterator<Item = &dyn ToColumn> {
        self.values.iter().map(|value| &**value)
    }
}
