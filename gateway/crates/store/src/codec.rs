//! Encodes domain values as columns, and decodes them; the same for every backend.
//!
//! A backend converts a [`Value`] to and from its own representation. Every domain value can be
//! encoded; counts and durations saturate at 2⁶³ − 1. The decoding of an invalid value is an error
//! that names the value.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use domain::audit::AuditAction;
use domain::id::{
    AccountId, InviteId, KeyId, ModelId, NodeId, NodeName, PlanName, RequestId, SessionId,
    UpstreamName,
};
use domain::key::KeyDigest;
use domain::money::Nanos;
use domain::source::CallAddress;
use domain::usage::Tokens;

/// A column value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// No value.
    Null,
    /// A number or a truth value.
    Int(i64),
    /// A text.
    Text(Cow<'a, str>),
    /// Bytes or an id.
    Bytes(&'a [u8]),
}

/// A value that can be written to a column.
pub(crate) trait Encode {
    /// Returns the encoded value.
    fn encode(&self) -> Value<'_>;
}

/// A value that can be read from a column.
pub(crate) trait Decode: Sized {
    /// Decodes a column.
    fn decode(value: Value<'_>) -> Result<Self, DecodeError>;
}

/// The reason why a column cannot be decoded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    /// The column has another type.
    #[error("the column has another type")]
    Type,
    /// The column has an invalid value.
    #[error("`{0}` is not a {1}")]
    Invalid(String, &'static str),
}

/// A time, in microseconds.
#[derive(Clone, Copy)]
pub(crate) struct At(pub(crate) Timestamp);

/// A duration, in microseconds.
#[derive(Clone, Copy)]
pub(crate) struct Micros(pub(crate) Duration);

/// A count, saturated at 2⁶³ − 1.
#[derive(Clone, Copy)]
pub(crate) struct Count(pub(crate) u64);

/// A list that is only read whole, as a JSON array.
pub(crate) struct List(pub(crate) Vec<String>);

macro_rules! columns {
    ($($type:ty: |$this:ident| $to:expr, |$value:ident| $from:expr;)+) => {$(
        impl Encode for $type {
            fn encode(&self) -> Value<'_> {
                let $this = self;
                Value::from($to)
            }
        }

        impl Decode for $type {
            fn decode($value: Value<'_>) -> Result<Self, DecodeError> {
                $from
            }
        }
    )+};
}

columns! {
    AccountId: |id| &id.0.as_bytes()[..], |value| value.as_array().map(|id| Self(Uuid::from_bytes(id)));
    RequestId: |id| &id.0.as_bytes()[..], |value| value.as_array().map(|id| Self(Uuid::from_bytes(id)));
    NodeId: |id| &id.0.as_bytes()[..], |value| value.as_array().map(|id| Self(Uuid::from_bytes(id)));
    KeyDigest: |digest| &digest.0[..], |value| value.as_array().map(Self);
    KeyId: |name| name.as_str(), |value| value.as_str().map(Self::new);
    SessionId: |name| name.as_str(), |value| value.as_str().map(Self::new);
    ModelId: |name| name.as_str(), |value| value.as_str().map(Self::new);
    PlanName: |name| name.as_str(), |value| value.as_str().map(Self::new);
    InviteId: |id| id.as_str(), |value| value.as_str().map(Self::new);
    UpstreamName: |name| name.as_str(), |value| value.as_str().map(Self::new);
    NodeName: |name| name.as_str(), |value| value.as_str().map(Self::new);
    Arc<str>: |text| &**text, |value| value.as_str().map(Self::from);
    String: |text| text.as_str(), |value| value.into_string();
    Vec<u8>: |bytes| &bytes[..], |value| value.as_bytes().map(Self::from);
    [u8; 16]: |bytes| &bytes[..], |value| value.as_array();
    [u8; 32]: |bytes| &bytes[..], |value| value.as_array();
    bool: |is| i64::from(*is), |value| value.as_i64().map(|number| number != 0);
    i64: |number| *number, |value| value.as_i64();
    u16: |number| i64::from(*number), |value| narrowed(&value, "u16");
    u32: |number| i64::from(*number), |value| narrowed(&value, "u32");
    NonZeroU32: |number| i64::from(number.get()), |value| {
        let number = u32::decode(value)?;
        Self::new(number).ok_or_else(|| invalid_value(&number, "NonZeroU32"))
    };
    Nanos: |amount| amount.0, |value| value.as_i64().map(Self);
    Count: |count| saturated(count.0), |value| narrowed(&value, "count").map(Self);
    Tokens: |tokens| saturated(tokens.0), |value| Count::decode(value).map(|n| Self(n.0));
    AuditAction: |action| action.as_str(), |value| value.as_str().map(Self::from_name);
    CallAddress: |address| address.to_string(), |value| {
        let text = value.as_str()?;
        text.parse().map_err(|_| invalid_value(&text, "address"))
    };
    At: |at| at.0.as_microsecond(), |value| {
        let micros = value.as_i64()?;
        Timestamp::from_microsecond(micros).map(Self).map_err(|_| invalid_value(&micros, "time"))
    };
    Micros: |duration| i64::try_from(duration.0.as_micros()).unwrap_or(i64::MAX), |value| {
        Count::decode(value).map(|micros| Self(Duration::from_micros(micros.0)))
    };
}

impl Encode for str {
    fn encode(&self) -> Value<'_> {
        Value::from(self)
    }
}

impl Encode for [u8] {
    fn encode(&self) -> Value<'_> {
        Value::from(self)
    }
}

impl Encode for Value<'_> {
    fn encode(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Int(number) => Value::Int(*number),
            Self::Text(text) => Value::from(&**text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self) -> Value<'_> {
        T::encode(self)
    }
}

impl<T: Encode + ?Sized> Encode for Box<T> {
    fn encode(&self) -> Value<'_> {
        T::encode(self)
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, T::encode)
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        if value == Value::Null { Ok(None) } else { T::decode(value).map(Some) }
    }
}

impl Encode for List {
    fn encode(&self) -> Value<'_> {
        Value::Text(serde_json::Value::from(&*self.0).to_string().into())
    }
}

impl Decode for List {
    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let text = value.as_str()?;
        serde_json::from_str(text).map(Self).map_err(|_| invalid_value(&text, "list"))
    }
}

// === impl Value ===

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl Value<'_> {
    pub(crate) fn as_i64(&self) -> Result<i64, DecodeError> {
        if let Self::Int(number) = self { Ok(*number) } else { Err(DecodeError::Type) }
    }

    pub(crate) fn as_str(&self) -> Result<&str, DecodeError> {
        if let Self::Text(text) = self { Ok(text) } else { Err(DecodeError::Type) }
    }

    fn as_bytes(&self) -> Result<&[u8], DecodeError> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(DecodeError::Type) }
    }

    fn as_array<const N: usize>(&self) -> Result<[u8; N], DecodeError> {
        self.as_bytes()?.try_into().map_err(|_| DecodeError::Type)
    }

    fn into_string(self) -> Result<String, DecodeError> {
        if let Self::Text(text) = self { Ok(text.into_owned()) } else { Err(DecodeError::Type) }
    }
}

// === impl List ===

impl List {
    /// Copies `items`.
    pub(crate) fn of<'a>(items: impl IntoIterator<Item = &'a str>) -> Self {
        Self(items.into_iter().map(str::to_owned).collect())
    }

    /// Converts each item into a model id.
    pub(crate) fn into_models(self) -> Vec<ModelId> {
        self.0.into_iter().map(ModelId::new).collect()
    }

    /// Decodes each item.
    pub(crate) fn into_decoded<T: Decode>(self) -> Result<Vec<T>, DecodeError> {
        self.0.iter().map(|word| T::decode(Value::from(word.as_str()))).collect()
    }
}

fn narrowed<T: TryFrom<i64>>(value: &Value<'_>, wanted: &'static str) -> Result<T, DecodeError> {
    let number = value.as_i64()?;
    T::try_from(number).map_err(|_| invalid_value(&number, wanted))
}

fn saturated(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns the error for an invalid value.
pub(crate) fn invalid_value(found: &impl ToString, wanted: &'static str) -> DecodeError {
    DecodeError::Invalid(found.to_string(), wanted)
}

#[cfg(test)]
mod tests {
    use domain::account::Role;

    use super::*;

    #[test]
    fn large_counts_saturate() {
        assert_eq!(Tokens::decode(Tokens(u64::MAX).encode()).unwrap(), Tokens(u64::MAX / 2));
    }

    #[test]
    fn errors_name_invalid_values() {
        let error = Role::decode(Value::from("king")).unwrap_err();
        assert_eq!(error.to_string(), "`king` is not a Role");
        assert_eq!(Role::decode(Value::Int(7)), Err(DecodeError::Type));
        for value in [Value::Int(-1), Value::Bytes(b""), Value::from("x"), Value::Null] {
            assert!(Count::decode(value.clone()).is_err());
            assert!(AccountId::decode(value).is_err());
        }
    }
}
