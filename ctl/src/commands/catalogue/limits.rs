//! Limits in a catalogue file.
//!
//! A limit that the contract gains is a line of [`limits!`]; what a file may say, how it is compared and
//! what is sent follow from that.

use proto::v1;
use serde::{Deserialize, Serialize};

macro_rules! limits {
    ($($(#[doc = $about:literal])+ $name:ident: $kind:ty,)+) => {
        /// Limits of a plan or a model; an absent one is none.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct Limits {
            $($(#[doc = $about])+ $name: Option<$kind>,)+
        }

        impl Limits {
            /// Returns them without those that stand for none: zeros.
            pub(super) fn settled(&self) -> Self {
                let nothing = Self { $($name: Some(<$kind>::default()),)+ };
                Self { $($name: self.$name.filter(|_| self.$name != nothing.$name),)+ }
            }

            /// Returns what changes `before` into these: a zero for each that is gone.
            pub(super) fn since(&self, before: &Self) -> v1::Limits {
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
    /// Requests at the same time.
    concurrency: u64,
    /// Tokens per calendar month, in UTC.
    monthly_tokens: u64,
    /// Whether what exceeds them is served, and noted on the record.
    observe: bool,
}

#[cfg(test)]
mod tests {
    use super::Limits;

    #[test]
    fn what_is_gone_is_sent_as_zero_and_what_stays_is_not_sent() {
        let before = Limits { rpm: Some(60), tpm: Some(9), ..Limits::default() };
        let after = Limits { tpm: Some(9), concurrency: Some(2), ..Limits::default() };
        let sent = after.since(&before);
        assert_eq!((sent.rpm, sent.tpm, sent.concurrency), (Some(0), None, Some(2)));
        assert_eq!(Limits { rpm: Some(0), ..after.clone() }.settled(), after);
    }
}
