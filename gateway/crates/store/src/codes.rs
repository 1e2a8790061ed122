//! The codes of enums in columns. Stored codes are not changed.

use super::codec::{Decode, DecodeError, Encode, Value, invalid_value};
use domain::account::{AccountStatus, Role};
use domain::alert::AlertKind;
use domain::endpoint::Endpoint;
use domain::key::Translation;
use domain::model::{Ability, Modality, Routing};
use domain::person::PersonRole;
use domain::record::RequestStatus;
use domain::upstream::Profile;
use domain::usage::UsageBasis;

/// The code of an [`EntryKind`](domain::ledger::EntryKind), whose values are in other columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryCode {
    Trial,
    Credit,
    Charge,
    Correction,
    Overrun,
}

/// An enum that is encoded as a number in large tables and as a word in tables that people read.
pub(crate) trait Code: Copy + 'static {
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

        impl Encode for $type {
            fn encode(&self) -> Value<'_> {
                Value::from(self.code())
            }
        }

        impl Decode for $type {
            fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
                match value.$read()? {
                    $($code => Ok(Self::$variant),)+
                    other => Err(invalid_value(&other, stringify!($type))),
                }
            }
        }
    };
}

codes!(Role: &'static str, as_str {
    Member = "member",
    Support = "support",
    Operator = "operator",
    Owner = "owner",
});
codes!(AccountStatus: &'static str, as_str {
    Active = "active",
    Suspended = "suspended",
    Closed = "closed",
    Deleted = "deleted",
});
codes!(PersonRole: &'static str, as_str {
    Member = "member",
    Admin = "admin",
});
codes!(AlertKind: &'static str, as_str {
    BalanceLow = "balance_low",
    SpendCapNear = "spend_cap_near",
    KeyExpiring = "key_expiring",
    UpstreamDown = "upstream_down",
});
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

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trips<T: Encode + Decode + PartialEq + std::fmt::Debug>(values: &[T]) {
        for value in values {
            assert_eq!(&T::decode(value.encode()).unwrap(), value);
        }
    }

    #[test]
    fn codes_round_trip() {
        round_trips(Role::ALL.as_slice());
        round_trips(domain::audit::AuditAction::ALL);
        round_trips(AccountStatus::ALL);
        round_trips(AlertKind::ALL);
        round_trips(Ability::ALL);
        round_trips(Modality::ALL);
        round_trips(Routing::ALL);
        round_trips(Profile::ALL);
        round_trips(Endpoint::ALL.as_slice());
        round_trips(UsageBasis::ALL);
        round_trips(RequestStatus::ALL.as_slice());
        round_trips(EntryCode::ALL);
    }
}
