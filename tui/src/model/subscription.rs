//! What the open screen needs to know: the connection fetches that and nothing else.

use super::usage::Range;
use super::{Model, Screen};

/// Something that is fetched or followed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The account that is signed in.
    Account,
    /// The limits that hold for it, with their use.
    Limits,
    /// The sums of a range.
    Usage,
    /// Its keys.
    Keys,
    /// The catalogue.
    Models,
    /// All accounts.
    Accounts,
    /// All upstreams.
    Upstreams,
    /// How they do.
    Health,
    /// All plans, or the account's own.
    Plans,
    /// The audit log.
    Audit,
    /// The traffic of the last hour, as a stream.
    Traffic,
    /// The request log, as a stream.
    Log,
}

/// Whose traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficScope {
    /// That of the account that is signed in.
    Account,
    /// That of the whole gateway.
    Gateway,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// What is fetched now and then.
    pub topics: &'static [Topic],
    /// Over which time sums are wanted.
    pub range: Range,
    /// Whose traffic is followed, if anybody's.
    pub traffic: Option<TrafficScope>,
    /// The conditions on requests in the log, as the user typed them.
    pub filter: String,
}

/// Returns what the open screen needs.
pub fn subscription(model: &Model) -> Subscription {
    use Topic::{Account, Accounts, Audit, Health, Keys, Limits, Models, Plans, Upstreams, Usage};
    let topics: &[Topic] = match model.screen {
        Screen::SignIn => &[],
        // keys for their names, which their limits do not tell
        Screen::Overview => &[Account, Limits, Keys, Models, Usage, Plans],
        Screen::Keys => &[Account, Keys],
        // how models do is known by their upstreams, which are for operators to see
        Screen::Models if model.is_operator() => &[Account, Models, Upstreams, Health],
        Screen::Models => &[Account, Models],
        Screen::Usage => &[Account, Usage],
        Screen::Live => &[Account],
        Screen::Accounts => &[Account, Accounts],
        Screen::Upstreams => &[Account, Upstreams, Health],
        Screen::Plans => &[Account, Plans],
        Screen::Audit => &[Account, Audit],
    };
    let follows = matches!(model.screen, Screen::Overview | Screen::Usage | Screen::Live);
    let scope = if model.is_operator() { TrafficScope::Gateway } else { TrafficScope::Account };
    let known = model.data.account.value.is_some();
    let usage = &model.data.usage;
    // the overview shows a month and every request, whatever is chosen on the usage screen
    let (range, filter) = match model.screen {
        Screen::Overview => (Range::Month, String::new()),
        _ => (usage.range, usage.filter.clone()),
    };
    Subscription { topics, range, traffic: (follows && known).then_some(scope), filter }
}

// === impl Interest ===

impl Default for Subscription {
    fn default() -> Self {
        Self { topics: &[], range: Range::Month, traffic: None, filter: String::new() }
    }
}
