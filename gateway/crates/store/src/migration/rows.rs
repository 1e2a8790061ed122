//! Rows on their way from one database to the other.

use super::Table;
#[cfg(test)]
use crate::codec::{Decode, DecodeError};
use crate::codec::{Encode, Value};

/// A column of a row.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug, PartialOrd, Ord))]
pub(crate) enum StoredValue {
    /// No value.
    Null,
    /// A number or a truth value.
    Int(i64),
    /// A text.
    Text(String),
    /// Bytes or an id.
    Bytes(Vec<u8>),
}

/// Some rows of a table, which are written in one transaction.
pub(crate) struct Batch {
    /// The table.
    pub(crate) table: &'static Table,
    /// The rows, with the columns in the order of the table.
    pub(crate) rows: Vec<Vec<StoredValue>>,
}

impl StoredValue {
    /// Returns the approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Null | Self::Int(_) => 0,
                Self::Text(text) => text.len(),
                Self::Bytes(bytes) => bytes.len(),
            }
    }
}

impl Encode for StoredValue {
    fn encode(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Int(number) => Value::Int(*number),
            Self::Text(text) => Value::from(text.as_str()),
            Self::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

#[cfg(test)]
impl Decode for StoredValue {
    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        Ok(match value {
            Value::Null => Self::Null,
            Value::Int(number) => Self::Int(number),
            Value::Text(text) => Self::Text(text.into_owned()),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_owned()),
        })
    }
}
