//! Writes and reads domain values as columns of PostgreSQL.
//!
//! A text of PostgreSQL cannot contain a NUL character, which some texts of clients do: it is
//! stored as U+FFFD, and looked up as such.

use std::error::Error;
use std::fmt;

use bytes::{BufMut, BytesMut};
use tokio_postgres::Row;
use tokio_postgres::row::RowIndex;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::StoreError;
use crate::codec::{Decode, DecodeError, Encode, Value};
use crate::objects::ReadRow;

type BoxError = Box<dyn Error + Send + Sync>;

/// A value as a statement parameter, encoded for the type of the parameter.
pub(super) struct Parameter<T>(pub(super) T);

/// A parameter of any type.
pub(super) type AnyParameter<'a> = &'a (dyn ToSql + Sync);

/// Reads columns as domain values.
pub(super) trait ReadColumn {
    /// Reads one column by its number or name.
    fn column<T: Decode>(&self, index: impl RowIndex + fmt::Display) -> Result<T, StoreError>;
}

/// A value as it is stored.
struct Stored<'a>(Value<'a>);

/// A column has a type, or a parameter a value, that the other side does not expect. This is a bug.
#[derive(Debug, thiserror::Error)]
#[error("a value does not fit into the type `{0}`")]
struct UnexpectedType(Type);

/// Statement parameters.
macro_rules! parameters {
    ($($value:expr),* $(,)?) => {
        &[$(&$crate::postgres::codec::Parameter(&$value)
            as $crate::postgres::codec::AnyParameter<'_>),*] as &[_]
    };
}
pub(super) use parameters;

/// Statement parameters that are arrays with one element per row.
macro_rules! arrays {
    ($rows:expr, |$row:ident| $($value:expr),+ $(,)?) => {
        &[$(&$rows
            .iter()
            .map(|$row| $crate::postgres::codec::Parameter($value))
            .collect::<Vec<_>>() as $crate::postgres::codec::AnyParameter<'_>),+] as &[_]
    };
}
pub(super) use arrays;

// Values can be secret, such as password hashes.
impl<T> fmt::Debug for Parameter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parameter")
    }
}

impl<T: Encode> ToSql for Parameter<T> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        match self.0.encode() {
            Value::Null => return Ok(IsNull::Yes),
            Value::Int(number) => match *kind {
                Type::BOOL => out.put_u8((number != 0).into()),
                Type::INT2 => out.put_i16(number.try_into()?),
                Type::INT4 => out.put_i32(number.try_into()?),
                Type::INT8 => out.put_i64(number),
                _ => return Err(UnexpectedType(kind.clone()).into()),
            },
            Value::Text(text) if *kind == Type::TEXT => {
                let mut parts = text.split('\0');
                out.put_slice(parts.next().unwrap_or_default().as_bytes());
                for part in parts {
                    out.put_slice("\u{fffd}".as_bytes());
                    out.put_slice(part.as_bytes());
                }
            }
            Value::Bytes(bytes) if matches!(*kind, Type::BYTEA | Type::UUID) => {
                out.put_slice(bytes);
            }
            Value::Text(_) | Value::Bytes(_) => return Err(UnexpectedType(kind.clone()).into()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Stored<'a> {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, BoxError> {
        Ok(Self(match *kind {
            Type::BOOL => Value::Int(bool::from_sql(kind, raw)?.into()),
            Type::INT2 => Value::Int(i16::from_sql(kind, raw)?.into()),
            Type::INT4 => Value::Int(i32::from_sql(kind, raw)?.into()),
            Type::INT8 => Value::Int(i64::from_sql(kind, raw)?),
            Type::TEXT => Value::from(<&str>::from_sql(kind, raw)?),
            Type::BYTEA | Type::UUID => Value::Bytes(raw),
            _ => return Err(UnexpectedType(kind.clone()).into()),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, BoxError> {
        Ok(Self(Value::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ReadColumn for Row {
    fn column<T: Decode>(&self, index: impl RowIndex + fmt::Display) -> Result<T, StoreError> {
        let Stored(value) = self.try_get(index)?;
        Ok(T::decode(value)?)
    }
}

impl ReadRow for Row {
    type Error = StoreError;

    fn named<T: Decode>(&self, name: &str) -> Result<T, StoreError> {
        self.column(name)
    }

    fn at<T: Decode>(&self, number: usize) -> Result<T, StoreError> {
        self.column(number)
    }
}

impl From<DecodeError> for StoreError {
    fn from(error: DecodeError) -> Self {
        Self::Unavailable(error.into())
    }
}
