//! Writes and reads domain values as columns of SQLite.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, Null, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Row, RowIndex};

use crate::codec::{Decode, DecodeError, Encode, Value};
use crate::objects::ReadRow;

/// Reads columns as domain values.
pub(super) trait ReadColumn {
    /// Reads one column by its number or name.
    fn column<T: Decode>(&self, index: impl RowIndex) -> rusqlite::Result<T>;
}

/// A value as a statement parameter.
pub(super) struct Parameter<T>(pub(super) T);

/// Decodes a column with [`Decode`] where `rusqlite` expects its own trait.
struct Decoded<T>(T);

/// Statement parameters, like [`rusqlite::params`] but for domain values.
macro_rules! parameters {
    ($($value:expr),* $(,)?) => {
        &[$(&$crate::sqlite::codec::Parameter(&$value) as &dyn rusqlite::ToSql),*]
            as &[&dyn rusqlite::ToSql]
    };
}
pub(super) use parameters;

impl<T: Encode> ToSql for Parameter<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0.encode() {
            Value::Null => ToSqlOutput::from(Null),
            Value::Int(number) => ToSqlOutput::from(number),
            Value::Text(std::borrow::Cow::Borrowed(text)) => ToSqlOutput::from(text),
            Value::Text(std::borrow::Cow::Owned(text)) => ToSqlOutput::from(text),
            Value::Bytes(bytes) => ToSqlOutput::from(bytes),
        })
    }
}

impl<T: Decode> FromSql for Decoded<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let value = match value {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Int(number),
            ValueRef::Text(_) => Value::from(value.as_str()?),
            ValueRef::Blob(bytes) => Value::Bytes(bytes),
            ValueRef::Real(_) => return Err(FromSqlError::InvalidType),
        };
        T::decode(value).map(Self).map_err(|error| match error {
            DecodeError::Type => FromSqlError::InvalidType,
            invalid @ DecodeError::Invalid(..) => FromSqlError::other(invalid),
        })
    }
}

impl ReadColumn for Row<'_> {
    fn column<T: Decode>(&self, index: impl RowIndex) -> rusqlite::Result<T> {
        self.get(index).map(|Decoded(value)| value)
    }
}

impl ReadRow for Row<'_> {
    type Error = rusqlite::Error;

    fn named<T: Decode>(&self, name: &str) -> rusqlite::Result<T> {
        self.column(name)
    }

    fn at<T: Decode>(&self, number: usize) -> rusqlite::Result<T> {
        self.column(number)
    }
}

impl From<DecodeError> for rusqlite::Error {
    fn from(error: DecodeError) -> Self {
        FromSqlError::other(error).into()
    }
}

#[cfg(test)]
mod tests {
    use domain::account::Role;
    use domain::id::{AccountId, ModelId, RequestId};
    use domain::key::KeyDigest;
    use domain::money::Nanos;
    use domain::usage::Tokens;
    use rusqlite::Connection;
    use uuid::Uuid;

    use super::*;
    use crate::codec::Count;

    fn round_trips<T: Encode + Decode + PartialEq + std::fmt::Debug>(values: &[T]) {
        let db = Connection::open_in_memory().unwrap();
        for value in values {
            assert_eq!(
                &db.query_row("SELECT ?", parameters![value], |row| row.column::<T>(0)).unwrap(),
                value
            );
        }
    }

    #[test]
    fn values_round_trip() {
        round_trips(&[AccountId(Uuid::max()), AccountId(Uuid::nil())]);
        round_trips(&[RequestId(Uuid::max())]);
        round_trips(&[KeyDigest([0xa5; 32])]);
        round_trips(&[Nanos(i64::MIN), Nanos(0), Nanos(i64::MAX)]);
        round_trips(&[Tokens(0), Tokens(u64::MAX / 2)]);
        round_trips(&[ModelId::new("ü/ \0")]);
    }

    #[test]
    fn errors_name_invalid_values() {
        let db = Connection::open_in_memory().unwrap();
        let read = |sql: &str| db.query_row(sql, [], |row| row.column::<Role>(0)).unwrap_err();
        assert!(read("SELECT 'king'").to_string().contains("`king` is not a Role"));
        assert!(read("SELECT 7").to_string().contains("Invalid column type"));
        for sql in ["SELECT -1", "SELECT x''", "SELECT 'x'", "SELECT NULL"] {
            assert!(db.query_row(sql, [], |row| row.column::<Count>(0).map(|n| n.0)).is_err());
            assert!(db.query_row(sql, [], |row| row.column::<AccountId>(0)).is_err());
        }
    }
}
