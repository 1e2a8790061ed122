//! The data that the open screen needs. The connection fetches these topics and nothing else.

use super::accounts::AccountStatus;
use super::overlay::Overlay;
use super::picker::Known;
use super::usage::Range;
use super::{Model, Screen};

/// A kind of data that the connection keeps up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The signed-in account.
    Account,
    /// The limits of the signed-in account with their current usage.
    Limits,
    /// The usage totals of a time range.
    Usage,
    /// The number of requests of the last 30 days that the filter of the log matches.
    Matching,
    /// The usage of the last hour by minute, from the store.
    Minutes,
    /// The usage totals of the period before the time range.
    UsageBefore,
    /// The errors of the last hour, from the store.
    Errors,
    /// The account's keys.
    Keys,
    /// The model catalogue.
    Models,
    /// All accounts.
    Accounts,
    /// The reason for which an account is suspended.
    Suspension,
    /// All upstreams.
    Upstreams,
    /// The health of all upstreams.
    Health,
    /// All plans for operators, else the account's own plan.
    Plans,
    /// The audit log.
    Audit,
    /// The gateways of the database.
    Nodes,
    /// The ledger.
    Ledger,
    /// The invites to register.
    Invites,
    /// The people of an account.
    People,
    /// The sessions of the account.
    Sessions,
    /// The requests in flight.
    InFlight,
    /// The traffic of the last hour; a stream.
    Traffic,
    /// The request log; a stream.
    Log,
}

/// The accounts whose data is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The signed-in account.
    Account,
    /// The whole gateway.
    Gateway,
}

/// The data to keep up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The topics to poll.
    pub topics: Vec<Topic>,
    /// The time range of the usage totals.
    pub range: Range,
    /// The scope of the traffic stream; `None` closes it.
    pub traffic: Option<Scope>,
    /// The scope of the keys: all of them only where they are listed, because there may be many.
    pub keys: Scope,
    /// The filter expression of the request log and of the totals.
    pub filter: String,
    /// The number of times that the request log started over.
    pub log_run: u64,
    /// The account whose ledger and audit entries and people are fetched; `None` for all entries that may
    /// be seen, and for the people of the signed-in account.
    pub subject: Option<String>,
    /// The account whose limits and suspension are fetched; `None` for the signed-in one.
    pub limits_of: Option<String>,
    /// The number of pages of older requests to fetch after the newest ones.
    pub older_pages: usize,
    /// Whether the usage totals are divided by model and time.
    pub models_by_time: bool,
}

/// Returns the subscription for the open screen.
pub fn subscription(model: &Model) -> Subscription {
    use Topic::{
        Account, Accounts, Audit, Errors, Health, InFlight, Invites, Keys, Ledger, Limits,
        Matching, Minutes, Models, Nodes, People, Plans, Sessions, Upstreams, Usage, UsageBefore,
    };
    let topics: &[Topic] = match model.screen {
        Screen::SignIn => &[],
        // The limits of a key contain its id only; the label comes from `Keys`. There is a tab for
        // nodes if there are any.
        Screen::Overview if model.sees_all() => {
            &[Account, Limits, Keys, Models, Usage, Plans, Nodes, Minutes, Errors]
        }
        Screen::Overview => &[Account, Limits, Keys, Models, Usage, Plans, Minutes, Errors],
        // A new key can be tried with a model.
        Screen::Keys => &[Account, Keys, Models],
        // The health of a model derives from its upstreams, which only operators may see.
        Screen::Models if model.sees_all() => &[Account, Models, Upstreams, Health],
        Screen::Models => &[Account, Models],
        // A filter may name models, keys and accounts.
        Screen::Usage if filters_by_name(model) && model.sees_all() => {
            &[Account, Usage, Matching, UsageBefore, Models, Keys, Accounts]
        }
        Screen::Usage if filters_by_name(model) => {
            &[Account, Usage, Matching, UsageBefore, Models, Keys]
        }
        Screen::Usage => &[Account, Usage, Matching, UsageBefore],
        Screen::Live => &[Account, Minutes, Errors, Upstreams, Health, InFlight],
        Screen::Accounts => &[Account, Accounts],
        // The models that an upstream serves are the way to its requests.
        Screen::Upstreams => &[Account, Upstreams, Health, Models],
        Screen::Plans => &[Account, Plans],
        Screen::Audit => &[Account, Audit],
        Screen::Nodes => &[Account, Nodes],
        Screen::Ledger => &[Account, Ledger],
        Screen::Invites => &[Account, Invites],
        Screen::People => &[Account, People],
        Screen::Sessions => &[Account, Sessions],
        Screen::InFlight => &[Account, InFlight],
        // An operation is started by the user.
        Screen::Operations => &[Account],
    };
    let mut topics = topics.to_vec();
    for topic in offered_topics(model) {
        if !topics.contains(&topic) {
            topics.push(topic);
        }
    }
    let limits_of = account_of_detail(model);
    if limits_of.is_some() {
        topics.push(Limits);
    }
    let selected = model.data.accounts.current().filter(|_| model.screen == Screen::Accounts);
    let is_suspended = selected.is_some_and(|it| it.status == AccountStatus::Suspended);
    if limits_of.is_some() && is_suspended {
        topics.push(Topic::Suspension);
    }
    let follows = matches!(model.screen, Screen::Overview | Screen::Usage | Screen::Live);
    let scope = if model.sees_all() { Scope::Gateway } else { Scope::Account };
    let known = model.data.account.value.is_some();
    let usage = &model.data.usage;
    // The other screens show all requests, and the overview and the live screen 30 days of them.
    let (range, filter) = match model.screen {
        Screen::Usage => (usage.range, usage.expression.clone()),
        _ => (Range::Month, String::new()),
    };
    let traffic = (follows && known).then_some(scope);
    let subject = model.subject().map(str::to_owned);
    let older_pages = model.data.log.older.wanted;
    let keys = match model.screen {
        Screen::Keys | Screen::Usage => scope,
        _ => Scope::Account,
    };
    let log_run = model.log_run;
    let models_by_time =
        matches!(&model.overlay, Some(Overlay::Chart(view)) if view.measure.is_by_model());
    Subscription {
        topics,
        range,
        traffic,
        keys,
        filter,
        log_run,
        subject,
        limits_of,
        older_pages,
        models_by_time,
    }
}

/// Returns the account whose detail, or that of one of its keys, is open.
fn account_of_detail(model: &Model) -> Option<String> {
    let data = &model.data;
    let account = match model.screen {
        _ if !model.is_detail_open => None,
        Screen::Keys => data.keys.current().map(|key| &key.account),
        Screen::Accounts => data.accounts.current().map(|account| &account.name),
        _ => None,
    };
    account.filter(|name| !name.is_empty()).cloned()
}

/// Returns the data that the fields of the open form offer, and that from which the model for the
/// trial of a new key is chosen.
fn offered_topics(model: &Model) -> Vec<Topic> {
    match &model.overlay {
        Some(Overlay::Form(form)) => {
            let known = form.fields.iter().filter_map(|field| field.known);
            known.flat_map(Known::topics).copied().collect()
        }
        Some(Overlay::Secret(_)) if model.screen == Screen::Keys && model.sees_all() => {
            vec![Topic::Upstreams, Topic::Health]
        }
        _ => Vec::new(),
    }
}

/// Returns whether the filter of the request log contains names, or is being typed.
fn filters_by_name(model: &Model) -> bool {
    let filter = &model.data.usage.filter;
    matches!(model.overlay, Some(Overlay::Filter(_)))
        || ["model:", "key:", "account:"].iter().any(|field| filter.contains(field))
}

// === impl Subscription ===

impl Default for Subscription {
    fn default() -> Self {
        Self {
            topics: Vec::new(),
            range: Range::Month,
            traffic: None,
            keys: Scope::Account,
            filter: String::new(),
            log_run: 0,
            subject: None,
            limits_of: None,
            older_pages: 0,
            models_by_time: false,
        }
    }
}
