//! Limits in a catalogue file.
//!
//! Each limit of the admin API is a line of [`limits!`], which generates parsing, comparison and
//! conversion.

use proto::v1;
use serde::{Deserialize, Serialize};

macro_rules! limits {
    ($($(#[doc = $about:literal])+ $name:ident: $kind:ty,)+) => {
        /// The limits of a plan or a model; an absent limit is unlimited.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct Limits {
            $($(#[doc = $about])+ $name: Option<$kind>,)+
        }

        impl Limits {
            /// Returns the limits with zeros, which mean no limit, made absent.
            pub(super) fn normalized(&self) -> Self {
                let zeros = Self { $($name: Some(<$kind>::default()),)+ };
                Self { $($name: self.$name.filter(|_| self.$name != zeros.$name),)+ }
            }

            /// Returns the update from `before` to these limits, with zero for each removed limit.
            pub(super) fn update_from(&self, before: &Self) -> v1::Limits {
                let changed = Self {
                    $(
                        $name: (self.$name != before.$name)
                            .then(|| self.$name.unwrap_or_default()),
                    )+
                };
                changed.into()
            }
        }

        impl From<v1::Limits> for Limits {
            fn from(limits: v1::Limits) -> Self {
                Self { $($name: limits.$name,)+ }
            }
        }

        impl From<Limits> for v1::Limits {
            fn from(limits: Limits) -> Self {
                Self { $($name: limits.$name,)+ }
            }
        }
    };
}

limits! {
    /// Requests per minute.
    rpm: u64,
    /// Tokens (input and output together) per minute.
    tpm: u64,
    /// Concurrent requests.
    concurrency: u64,
    /// Tokens per calendar month, in UTC.
    monthly_tokens: u64,
    /// Whether requests over these limits are served and noted on the record, instead of refused.
    observe: bool,
}

#[cfg(test)]
mod tests {
    use super::Limits;

    #[test]
    fn an_update_sends_removed_limits_as_zero_and_omits_unchanged_ones() {
        let before = Limits { rpm: Some(60), tpm: Some(9), ..Limits::default() };
        let after = Limits { tpm: Some(9), concurrency: Some(2), ..Limits::default() };
        let sent = after.update_from(&before);
        assert_eq!((sent.rpm, sent.tpm, sent.concurrency), (Some(0), None, Some(2)));
        assert_eq!(Limits { rpm: Some(0), ..after.clone() }.normalized(), after);
    }
}
