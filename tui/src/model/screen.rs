//! The screens of the dashboard.

/// A screen. Its state, its actions and its view are in files of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screen {
    /// Sign-in and registration.
    SignIn,
    /// Balance, limits and recent traffic of the account.
    Overview,
    /// The account's API keys.
    Keys,
    /// The model catalogue.
    Models,
    /// Usage totals and the request log.
    Usage,
    /// Live traffic of the whole gateway.
    Live,
    /// All accounts.
    Accounts,
    /// The upstream chat servers.
    Upstreams,
    /// All plans.
    Plans,
    /// The audit log.
    Audit,
    /// The gateways that share the database.
    Nodes,
    /// The changes of balances. It has no tab.
    Ledger,
    /// The invites to register. It has no tab.
    Invites,
    /// The people of an account. It has no tab.
    People,
    /// The sessions of the account. It has no tab.
    Sessions,
    /// The diagnosis, the verification of the ledger, the backup. It has no tab.
    Operations,
    /// The requests in flight. It has no tab.
    InFlight,
}

impl Screen {
    /// The screens with a tab, in order. The number of a tab is the last digit of its one-based index.
    pub const TABS: [Self; 10] = [
        Self::Overview,
        Self::Keys,
        Self::Models,
        Self::Usage,
        Self::Live,
        Self::Accounts,
        Self::Upstreams,
        Self::Plans,
        Self::Audit,
        Self::Nodes,
    ];

    /// The screens without a tab.
    pub const OTHERS: [Self; 6] = [
        Self::Ledger,
        Self::Invites,
        Self::People,
        Self::Sessions,
        Self::InFlight,
        Self::Operations,
    ];

    /// Returns the name shown on the tab and in the palette.
    pub fn name(self) -> &'static str {
        match self {
            Self::SignIn => "sign in",
            Self::Overview => "overview",
            Self::Keys => "keys",
            Self::Models => "models",
            Self::Usage => "usage",
            Self::Live => "live",
            Self::Accounts => "accounts",
            Self::Upstreams => "upstreams",
            Self::Plans => "plans",
            Self::Audit => "audit",
            Self::Nodes => "nodes",
            Self::Ledger => "ledger",
            Self::Invites => "invites",
            Self::People => "people",
            Self::Sessions => "sessions",
            Self::InFlight => "in-flight",
            Self::Operations => "operations",
        }
    }

    /// Returns the screens that a signed-in account can open.
    pub fn openable() -> impl Iterator<Item = Self> {
        Self::TABS.into_iter().chain(Self::OTHERS)
    }

    /// Returns the screen with this name, if it can be opened.
    pub fn find(name: &str) -> Option<Self> {
        Self::openable().find(|screen| screen.name() == name)
    }

    /// Returns whether it has a list, which a filter restricts.
    pub fn has_list(self) -> bool {
        !matches!(self, Self::SignIn | Self::Overview | Self::Live | Self::Operations)
    }

    /// Returns whether only operators may open it.
    pub fn is_for_operators(self) -> bool {
        matches!(
            self,
            Self::Live
                | Self::Accounts
                | Self::Upstreams
                | Self::Plans
                | Self::Audit
                | Self::Nodes
                | Self::Invites
                | Self::Operations
        )
    }
}
