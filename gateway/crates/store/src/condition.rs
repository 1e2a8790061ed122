//! Builds the `WHERE` clause of a query.

use crate::codec::Encode;

/// A value of a condition.
pub(crate) type ConditionValue = Box<dyn Encode + Send + Sync>;

/// A condition with its values.
#[derive(Default)]
pub(crate) struct Condition {
    sql: String,
    values: Vec<ConditionValue>,
}

impl Condition {
    /// Adds `clause`, which has one placeholder, if there is a value for it.
    pub(crate) fn and_if_some(
        &mut self,
        clause: &str,
        value: Option<impl Encode + Send + Sync + 'static>,
    ) {
        if let Some(value) = value {
            self.and(clause);
            self.values.push(Box::new(value));
        }
    }

    /// Adds `clause`, which has one placeholder per value.
    pub(crate) fn and_with(
        &mut self,
        clause: &str,
        values: impl IntoIterator<Item = ConditionValue>,
    ) {
        self.and(clause);
        self.values.extend(values);
    }

    /// Adds `clause`, which has no placeholder.
    pub(crate) fn and(&mut self, clause: &str) {
        self.sql.push_str(if self.sql.is_empty() { "WHERE " } else { " AND " });
        self.sql.push_str(clause);
    }

    /// Returns the `WHERE` clause; empty without conditions.
    pub(crate) fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns the values of the placeholders.
    pub(crate) fn values(&self) -> impl Iterator<Item = &(dyn Encode + Send + Sync)> {
        self.values.iter().map(|value| &**value)
    }
}
