//! The screens.

/// The screens, by the name of their file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screen {
    /// Asks for name and password.
    SignIn,
    /// The account at a glance.
    Overview,
    /// The account's keys.
    Keys,
    /// The catalogue.
    Models,
    /// What was used, and the request log.
    Usage,
    /// The whole gateway now.
    Live,
    /// All accounts.
    Accounts,
    /// The chat servers behind the gateway.
    Upstreams,
    /// What accounts are entitled to.
    Plans,
    /// Who changed what.
    Audit,
}

impl Screen {
    /// Those that have a tab, in order: the number of a tab is its place here, counted from one.
    pub const TABS: [Self; 9] = [
        Self::Overview,
        Self::Keys,
        Self::Models,
        Self::Usage,
        Self::Live,
        Self::Accounts,
        Self::Upstreams,
        Self::Plans,
        Self::Audit,
    ];

    /// Returns what the tab and the palette call it.
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
        }
    }

    /// Says whether only operators have it.
    pub fn is_for_operators(self) -> bool {
        matches!(self, Self::Live | Self::Accounts | Self::Upstreams | Self::Plans | Self::Audit)
    }
}
