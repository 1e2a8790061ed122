//! The way by which the user came to the open screen: from a row to what belongs to it, and back.

use super::screen::Screen;

/// A step from a row to a screen that shows only what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The screen with the row.
    pub from: Screen,
    /// The name of the row.
    pub name: String,
    /// The opened screen.
    pub to: Screen,
    /// The filter of the opened screen.
    pub filter: String,
    /// The filter that the opened screen had before, which comes back with the way back.
    pub filter_before: String,
    /// The account whose ledger or audit entries or people are shown; `None` for all entries, and for
    /// the people of the signed-in account.
    pub subject: Option<String>,
}

/// What belongs to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Related {
    /// The requests of an account, a key or a model.
    Requests,
    /// The request that a ledger entry charges.
    Charged,
    /// The requests that failed at an upstream.
    Failures,
    /// The requests of the last hour with an error.
    Errors,
    /// The keys of an account.
    Keys,
    /// The accounts on a plan.
    Accounts,
    /// The ledger entries of an account.
    Ledger,
    /// The audit entries of an account.
    Audit,
    /// The people of an account.
    People,
}

impl Related {
    /// Returns what belongs to a row of `screen`, or to a screen without rows, the most useful
    /// first.
    pub fn of(screen: Screen) -> &'static [Self] {
        match screen {
            Screen::Accounts => {
                &[Self::Requests, Self::Keys, Self::Ledger, Self::Audit, Self::People]
            }
            Screen::Keys | Screen::Models => &[Self::Requests],
            Screen::Upstreams => &[Self::Failures],
            Screen::Plans => &[Self::Accounts],
            Screen::Ledger => &[Self::Charged],
            Screen::Overview | Screen::Live => &[Self::Errors],
            Screen::SignIn
            | Screen::Usage
            | Screen::Audit
            | Screen::Invites
            | Screen::People
            | Screen::Sessions
            | Screen::InFlight
            | Screen::Operations
            | Screen::Nodes => &[],
        }
    }

    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests and usage",
            Self::Charged => "charged request",
            Self::Failures => "failed requests",
            Self::Errors => "errors of the last hour",
            Self::Keys => "keys",
            Self::Accounts => "accounts",
            Self::Ledger => "ledger",
            Self::Audit => "audit log",
            Self::People => "people",
        }
    }

    /// Returns the screen that shows it.
    pub fn screen(self) -> Screen {
        match self {
            Self::Requests | Self::Charged | Self::Failures | Self::Errors => Screen::Usage,
            Self::Keys => Screen::Keys,
            Self::Accounts => Screen::Accounts,
            Self::Ledger => Screen::Ledger,
            Self::Audit => Screen::Audit,
            Self::People => Screen::People,
        }
    }
}
