//! Newtypes for ids and names, so that the compiler rejects a mix-up.
//!
//! Names are `Arc<str>`: a request record holds about six of them, and clones must be cheap.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use uuid::{Uuid, Version};

use super::ValidationError;

macro_rules! uuid_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps `text` without validation. For text that was validated before, such as the
            /// store's.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

uuid_type! {
    /// An account's id, which never changes.
    AccountId
}
uuid_type! {
    /// A request's id (UUIDv7), which clients receive in `x-request-id`.
    RequestId
}
uuid_type! {
    /// The id of a node, which its data directory keeps.
    NodeId
}
name_type! {
    /// A key's public id.
    KeyId
}
name_type! {
    /// The public id of an admin session. Not the session's token.
    SessionId
}
name_type! {
    /// The public id of an invite. Not the invite's code.
    InviteId
}
name_type! {
    /// The id or an alias of a model, as used in requests.
    ModelId
}
name_type! {
    /// A plan's name.
    PlanName
}
name_type! {
    /// An upstream's name.
    UpstreamName
}
name_type! {
    /// A node's name.
    NodeName
}

impl ModelId {
    /// Validates a model id or alias: 1 to 128 characters of `A-Z a-z 0-9 - _ . : / @`.
    ///
    /// # Errors
    /// [`ValidationError`] for `field` if the text has another form.
    pub fn parse(field: &'static str, text: &str) -> Result<Self, ValidationError> {
        check(field, text, 128, |c| c.is_ascii_alphanumeric() || b"-_.:/@".contains(&c))?;
        Ok(Self::new(text))
    }
}

impl PlanName {
    /// Validates a plan's name: 1 to 64 characters of `a-z 0-9 - _ .`.
    ///
    /// # Errors
    /// [`ValidationError`] if the text has another form.
    pub fn parse(text: &str) -> Result<Self, ValidationError> {
        check("plan", text, 64, is_slug)?;
        Ok(Self::new(text))
    }
}

impl UpstreamName {
    /// Validates an upstream's name: 1 to 64 characters of `a-z 0-9 - _ .`.
    ///
    /// # Errors
    /// [`ValidationError`] if the text has another form.
    pub fn parse(text: &str) -> Result<Self, ValidationError> {
        check("upstream", text, 64, is_slug)?;
        Ok(Self::new(text))
    }
}

impl NodeName {
    /// Validates a node's name: 1 to 64 characters of `A-Z a-z 0-9 - _ .`.
    ///
    /// # Errors
    /// [`ValidationError`] if the text has another form.
    pub fn parse(text: &str) -> Result<Self, ValidationError> {
        check("node_name", text, 64, |c| c.is_ascii_alphanumeric() || b"-_.".contains(&c))?;
        Ok(Self::new(text))
    }
}

fn is_slug(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || b"-_.".contains(&c)
}

fn check(
    field: &'static str,
    text: &str,
    max_length: usize,
    allowed: fn(u8) -> bool,
) -> Result<(), ValidationError> {
    if text.is_empty() {
        return Err(ValidationError::new(field, format!("`{field}` must not be empty")));
    }
    if text.len() > max_length {
        let message = format!("`{field}` is longer than {max_length} characters");
        return Err(ValidationError::new(field, message));
    }
    match text.chars().find(|&c| !u8::try_from(c).is_ok_and(allowed)) {
        None => Ok(()),
        Some(c) => Err(ValidationError::new(
            field,
            format!("`{field}` must not contain `{}`", c.escape_default()),
        )),
    }
}

impl RequestId {
    /// Returns the time at which the request arrived, by the clock of the gateway that made the id;
    /// `None` if no gateway made it.
    pub fn arrived_at(self) -> Option<Timestamp> {
        let made =
            self.0.get_timestamp().filter(|_| self.0.get_version() == Some(Version::SortRand))?;
        let (seconds, nanoseconds) = made.to_unix();
        Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanoseconds).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_tells_when_the_request_arrived() {
        let id = |text| RequestId(Uuid::try_parse(text).unwrap());
        // The example of RFC 9562, A.6.
        let at = id("017f22e2-79b0-7cc3-98c4-dc0c0c07398f").arrived_at();
        assert_eq!(at, Some("2022-02-22T19:22:22Z".parse().unwrap()));
        assert_eq!(id("919108f7-52d1-4320-9bac-f847db4148a8").arrived_at(), None);
    }

    #[test]
    fn names_are_validated() {
        assert!(ModelId::parse("id", "meta-llama/Llama-3.1:free@v2").is_ok());
        for bad in ["", "a b", "ü", &"x".repeat(129), "a\n"] {
            assert_eq!(ModelId::parse("id", bad).unwrap_err().field, "id", "{bad:?}");
        }
        assert!(UpstreamName::parse("vllm-1.local").is_ok());
        assert!(UpstreamName::parse("Vllm").is_err());
        assert!(PlanName::parse("free").is_ok());
    }
}
