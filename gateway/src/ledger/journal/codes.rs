//! The bytes that encode enums in a journal. Invariant: a code never changes its meaning.

use domain::endpoint::Endpoint;
use domain::record::RequestStatus;
use domain::usage::UsageBasis;

/// An enum that a journal encodes as one byte.
pub(super) trait Code: Copy + 'static {
    /// All values.
    #[cfg(test)]
    const ALL: &'static [Self];

    /// Returns the byte of a value.
    fn code(self) -> u8;
    /// Returns the value of a byte; `None` if this version does not know it.
    fn find(code: u8) -> Option<Self>;
}

macro_rules! codes {
    ($type:ident { $($variant:ident = $code:literal),+ $(,)? }) => {
        impl Code for $type {
            #[cfg(test)]
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn code(self) -> u8 {
                match self {
                    $(Self::$variant => $code),+
                }
            }

            fn find(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

codes!(Endpoint {
    ChatCompletions = 1,
    Models = 2,
    Model = 3,
    Other = 4,
    Responses = 5,
    Response = 6,
});
codes!(UsageBasis { Upstream = 1, Counted = 2, Bounded = 3, None = 4 });
codes!(RequestStatus {
    Completed = 1,
    Incomplete = 2,
    Failed = 3,
    Cancelled = 4,
    Interrupted = 5,
    Rejected = 6,
});

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Code + PartialEq + std::fmt::Debug>(expected: usize) {
        assert_eq!(T::ALL.len(), expected);
        assert!(T::ALL.iter().all(|&value| T::find(value.code()) == Some(value)));
        assert_eq!(T::find(0), None);
        assert_eq!(T::find(200), None);
    }

    #[test]
    fn every_code_reads_back_as_its_value() {
        check::<Endpoint>(6);
        check::<UsageBasis>(4);
        check::<RequestStatus>(6);
    }
}
