//! Encodes domain values as columns, and decodes them.
//!
//! Every value can be encoded; counts and durations saturate at 2⁶³ − 1. The decoding of a column
//! with an invalid value is an error that names the value.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, Null, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Row, RowIndex};
use uuid::Uuid;

use domain::account::{AccountStatus, Role};
use domain::audit::AuditAction;
use domain::endpoint::Endpoint;
use domain::id::{AccountId, KeyId, ModelId, PlanName, RequestId, SessionId, UpstreamName};
use domain::key::{KeyDigest, Translation};
use domain::model::{Ability, Modality, Routing};
use domain::money::Nanos;
use domain::record::RequestStatus;
use domain::upstream::Profile;
use domain::usage::{Tokens, UsageBasis};

/// A value that can be written to a column.
pub(super) trait ToColumn {
    /// Returns the encoded value.
    fn to_column(&self) -> rusqlite::Result<ToSqlOutput<'_>>;
}

/// A value that can be read from a column.
pub(super) trait FromColumn: Sized {
    /// Decodes a column.
    fn from_column(value: ValueRef<'_>) -> FromSqlResult<Self>;
}

/// Reads columns as domain values.
pub(super) trait ReadColumn {
    /// Reads one column by its number or name.
    fn column<T: FromColumn>(&self, index: impl RowIndex) -> rusqlite::Result<T>;
}

/// A value as a statement parameter.
pub(super) struct Parameter<T>(pub(super) T);

/// Decodes a column with [`FromColumn`] where `rusqlite` expects its own trait.
struct Decode<T>(T);

/// Statement parameters, like [`rusqlite::params`] but for domain values.
macro_rules! parameters {
    ($($value:expr),* $(,)?) => {
        &[$(&$crate::sqlite::codec::Parameter(&$value) as &dyn rusqlite::ToSql),*]
            as &[&dyn rusqlite::ToSql]
    };
}
pub(super) use parameters;

/// A time, in microseconds.
#[derive(Clone, Copy)]
pub(super) struct At(pub(super) Timestamp);

/// A duration, in microseconds.
#[derive(Clone, Copy)]
pub(super) struct Micros(pub(super) Duration);

/// A count, saturated at 2⁶³ − 1.
#[derive(Clone, Copy)]
pub(super) struct Count(pub(super) u64);

/// A list that is only read whole, as a JSON array.
pub(super) struct List(pub(super) Vec<String>);

/// The code of an [`EntryKind`](domain::ledger::EntryKind), whose values are in other columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryCode {
    Trial,
    Credit,
    Charge,
    Correction,
    Overrun,
}

/// An invalid column value.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a {1}")]
struct InvalidValue(String, &'static str);

/// An enum that is encoded as a number in large tables and as a word in tables that people read.
pub(super) trait Code: Copy + 'static {
    /// The encoded type.
    type Repr;
    /// All values.
    #[cfg(test)]
    const ALL: &'static [Self];

    /// Returns the encoded value.
    fn code(self) -> Self::Repr;
}

macro_rules! codes {
    ($type:ident: $repr:ty, $read:ident { $($variant:ident = $code:literal),+ $(,)? }) => {
        impl Code for $type {
            type Repr = $repr;
            #[cfg(test)]
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn code(self) -> $repr {
                match self {
                    $(Self::$variant => $code),+
                }
            }
        }

        impl ToColumn for $type {
            fn to_column(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(ToSqlOutput::from(self.code()))
            }
        }

        impl FromColumn for $type {
            fn from_column(value: ValueRef<'_>) -> FromSqlResult<Self> {
                match value.$read()? {
                    $($code => Ok(Self::$variant),)+
                    other => Err(invalid_value(&other, stringify!($type))),
                }
            }
        }
    };
}

codes!(Role: &'static str, as_str { Member = "member", Operator = "operator" });
codes!(AccountStatus: &'static str, as_str { Active = "active", Suspended = "suspended" });
codes!(Ability: &'static str, as_str {
    Tools = "tools",
    Vision = "vision",
    Reasoning = "reasoning",
    StructuredOutput = "structured_output",
    Verbosity = "verbosity",
});
codes!(Modality: &'static str, as_str {
    Text = "text",
    Image = "image",
    File = "file",
    Audio = "audio",
});
codes!(Routing: &'static str, as_str {
    Weighted = "weighted",
    LeastLoaded = "least_loaded",
    PrefixAffinity = "prefix_affinity",
});
codes!(Profile: &'static str, as_str {
    Generic = "generic",
    OpenAi = "openai",
    Vllm = "vllm",
    LlamaCpp = "llama_cpp",
    Ollama = "ollama",
    SgLang = "sglang",
});
codes!(Translation: &'static str, as_str {
    Lenient = "lenient",
    Strict = "strict",
    OmitHostedTools = "omit_hosted_tools",
});
codes!(Endpoint: i64, as_i64 {
    ChatCompletions = 1,
    Models = 2,
    Model = 3,
    Other = 4,
    Responses = 5,
    Response = 6,
});
codes!(UsageBasis: i64, as_i64 { Upstream = 1, Counted = 2, Bounded = 3, None = 4 });
codes!(RequestStatus: i64, as_i64 {
    Completed = 1,
    Incomplete = 2,
    Failed = 3,
    Cancelled = 4,
    Interrupted = 5,
    Rejected = 6,
});

codes!(EntryCode: i64, as_i64 {
    Trial = 1,
    Credit = 2,
    Charge = 3,
    Correction = 4,
    Overrun = 5,
});

macro_rules! columns {
    ($($type:ty: |$this:ident| $to:expr, |$value:ident| $from:expr;)+) => {$(
        impl ToColumn for $type {
            fn to_column(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                let $this = self;
                Ok(ToSqlOutput::from($to))
            }
        }

        impl FromColumn for $type {
            fn from_column($value: ValueRef<'_>) -> FromSqlResult<Self> {
                $from
            }
        }
    )+};
}

columns! {
    AccountId: |id| &id.0.as_bytes()[..], |value| <[u8; 16]>::column_result(value).map(|id| Self(Uuid::from_bytes(id)));
    RequestId: |id| &id.0.as_bytes()[..], |value| <[u8; 16]>::column_result(value).map(|id| Self(Uuid::from_bytes(id)));
    KeyDigest: |digest| &digest.0[..], |value| <[u8; 32]>::column_result(value).map(Self);
    KeyId: |name| name.as_str(), |value| value.as_str().map(Self::new);
    SessionId: |name| name.as_str(), |value| value.as_str().map(Self::new);
    ModelId: |name| name.as_str(), |value| value.as_str().map(Self::new);
    PlanName: |name| name.as_str(), |value| value.as_str().map(Self::new);
    UpstreamName: |name| name.as_str(), |value| value.as_str().map(Self::new);
    Nanos: |amount| amount.0, |value| value.as_i64().map(Self);
    Count: |count| saturated(count.0), |value| value.as_i64().and_then(|n| {
        u64::try_from(n).map(Self).map_err(|_| invalid_value(&n, "count"))
    });
    Tokens: |tokens| saturated(tokens.0), |value| Count::from_column(value).map(|n| Self(n.0));
    AuditAction: |action| action.as_str(), |value| {
        let text = value.as_str()?;
        let found = Self::ALL.iter().find(|action| action.as_str() == text);
        found.copied().ok_or_else(|| invalid_value(&text, "AuditAction"))
    };
    At: |at| at.0.as_microsecond(), |value| value.as_i64().and_then(|micros| {
        Timestamp::from_microsecond(micros).map(Self).map_err(|_| invalid_value(&micros, "time"))
    });
    Micros: |duration| i64::try_from(duration.0.as_micros()).unwrap_or(i64::MAX), |value| {
        Count::from_column(value).map(|micros| Self(Duration::from_micros(micros.0)))
    };
}

macro_rules! native {
    ($($type:ty),+ $(,)?) => {$(
        impl ToColumn for $type {
            fn to_column(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                self.to_sql()
            }
        }

        impl FromColumn for $type {
            fn from_column(value: ValueRef<'_>) -> FromSqlResult<Self> {
                Self::column_result(value)
            }
        }
    )+};
}

native!(bool, i64, u16, u32, Arc<str>, NonZeroU32, String, Vec<u8>, [u8; 16], [u8; 32]);

impl ToColumn for str {
    fn to_column(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.to_sql()
    }
}

impl ToColumn for [u8] {
    fn to_column(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.to_sql()
    }
}

impl<T: ToColumn + ?Sized> ToColumn for &T {
    fn to_column(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        T::to_column(self)
    }
}

impl<T: ToColumn + ?Sized> ToColumn for Box<T> {
    fn to_column(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        T::to_column(self)
    }
}

impl<T: ToColumn> ToColumn for Option<T> {
    fn to_column(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.as_ref().map_or(Ok(ToSqlOutput::from(Null)), T::to_column)
    }
}

impl<T: FromColumn> FromColumn for Option<T> {
    fn from_column(value: ValueRef<'_>) -> FromSqlResult<Self> {
        if value == ValueRef::Null { Ok(None) } else { T::from_column(value).map(Some) }
    }
}

impl<T: ToColumn> ToSql for Parameter<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_column()
    }
}

impl<T: FromColumn> FromSql for Decode<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        T::from_column(value).map(Self)
    }
}

impl ReadColumn for Row<'_> {
    fn column<T: FromColumn>(&self, index: impl RowIndex) -> rusqlite::Result<T> {
        self.get(index).map(|Decode(value)| value)
    }
}

impl List {
    /// Copies `items`.
    pub(super) fn of<'a>(items: impl IntoIterator<Item = &'a str>) -> Self {
        Self(items.into_iter().map(str::to_owned).collect())
    }

    /// Converts each item into a model id.
    pub(super) fn into_models(self) -> Vec<ModelId> {
        self.0.into_iter().map(ModelId::new).collect()
    }

    /// Converts each item into a modality.
    pub(super) fn into_modalities(self) -> FromSqlResult<Vec<Modality>> {
        self.0.iter().map(|word| Modality::from_column(ValueRef::from(word.as_str()))).collect()
    }

    /// Converts each item into an ability.
    pub(super) fn into_abilities(self) -> FromSqlResult<Vec<Ability>> {
        self.0.iter().map(|word| Ability::from_column(ValueRef::from(word.as_str()))).collect()
    }
}

impl ToColumn for List {
    fn to_column(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        serde_json::to_string(&self.0)
            .map(ToSqlOutput::from)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    }
}

impl FromColumn for List {
    fn from_column(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Self).map_err(FromSqlError::other)
    }
}

fn saturated(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn invalid_value(found: &impl ToString, wanted: &'static str) -> FromSqlError {
    FromSqlError::other(InvalidValue(found.to_string(), wanted))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    fn round_trips<T: ToColumn + FromColumn + PartialEq + std::fmt::Debug>(values: &[T]) {
        let db = Connection::open_in_memory().unwrap();
        for value in values {
            assert_eq!(
                &db.query_row("SELECT ?", parameters![value], |row| row.column::<T>(0)).unwrap(),
                value
            );
        }
    }

    #[test]
    fn codes_round_trip() {
        round_trips(Role::ALL);
        round_trips(AuditAction::ALL);
        round_trips(AccountStatus::ALL);
        round_trips(Ability::ALL);
        round_trips(Modality::ALL);
        round_trips(Routing::ALL);
        round_trips(Profile::ALL);
        round_trips(Endpoint::ALL.as_slice());
        round_trips(UsageBasis::ALL);
        round_trips(RequestStatus::ALL.as_slice());
        round_trips(EntryCode::ALL);
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
    fn large_counts_saturate() {
        let db = Connection::open_in_memory().unwrap();
        let back: Tokens =
            db.query_row("SELECT ?", parameters![Tokens(u64::MAX)], |row| row.column(0)).unwrap();
        assert_eq!(back, Tokens(u64::MAX / 2));
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
