//! The messages that change the model: user input and gateway responses.

use jiff::Timestamp;
use secrecy::SecretString;

use crate::model::accounts::Account;
use crate::model::audit::AuditEntry;
use crate::model::catalogue::CatalogueModel;
use crate::model::change::ChangeOutcome;
use crate::model::fetched::FetchState;
use crate::model::in_flight::InFlight;
use crate::model::invites::Invite;
use crate::model::keys::Key;
use crate::model::ledger::LedgerEntry;
use crate::model::nodes::Node;
use crate::model::operations::OperationEvent;
use crate::model::people::Person;
use crate::model::plans::Plan;
use crate::model::record::{LogBatch, OlderPage};
use crate::model::route::Route;
use crate::model::sessions::Session;
use crate::model::sign_in::SignInRefusal;
use crate::model::subscription::Topic;
use crate::model::traffic::{ErrorCount, LimitUse, Traffic};
use crate::model::trial::TrialEvent;
use crate::model::upstreams::{Health, Upstream};
use crate::model::usage::{Period, Range, Usage};
use crate::model::{Action, ConnectionState};

/// An event that [`update`](crate::update::update) applies to the model.
#[derive(Debug)]
pub enum Message {
    /// An action triggered by a key, a palette command or the mouse.
    Act(Action),
    /// Pasted text. It may be a password.
    Pasted(SecretString),
    /// The terminal has a new size, as columns and rows.
    Resized(u16, u16),
    /// The current time, sent every few seconds.
    Tick(Timestamp),
    /// A token was found at startup, so no password is needed.
    TokenFound(SecretString),
    /// The sign-in succeeded.
    SignedIn {
        /// The session token.
        token: SecretString,
        /// Whether the session is kept for the next start, or why it could not be.
        kept: Result<bool, String>,
    },
    /// No token was found at startup, so the user has to sign in.
    NoToken,
    /// Whether the gateway was reached before the sign-in: `None`, or why it was not.
    GatewayChecked(Option<String>),
    /// The sign-in or the registration failed.
    SignInFailed(SignInRefusal),
    /// The session ended or the gateway rejected the token; the text says what to do.
    SignedOut(String),
    /// The gateway reported the base URL at which clients reach `/v1`.
    ApiUrlDiscovered(String),
    /// The connection was established or lost.
    ConnectionChanged(ConnectionState),
    /// A fetch or a stream delivered data.
    Loaded(Box<Loaded>),
    /// A fetch or a stream failed.
    NotLoaded(Topic, FetchState),
    /// The request log stream delivered records.
    LogReceived(LogBatch),
    /// A page of requests older than those of the stream arrived.
    OlderReceived(OlderPage),
    /// Something happened to the request with this number that tries a model.
    Trial(u64, TrialEvent),
    /// Something happened in the run with this number of an operation.
    Operation(u64, OperationEvent),
    /// How requests for the model with this id are routed, or why that is not known.
    RouteExplained(String, Result<Route, String>),
    /// The result of a requested [`Change`](crate::model::change::Change); the error text says what
    /// to do.
    Changed(Result<ChangeOutcome, String>),
}

/// Data received from the gateway.
#[derive(Debug)]
pub enum Loaded {
    /// The signed-in account.
    Account(Account),
    /// The limits of an account with their current usage.
    Limits {
        /// The account; `None` for the signed-in one.
        account: Option<String>,
        /// The limits.
        limits: Vec<LimitUse>,
    },
    /// The reason for which an account is suspended, if it is known.
    Suspension {
        /// The account.
        account: String,
        /// The reason.
        reason: Option<String>,
    },
    /// The usage totals of a time range.
    Usage {
        /// The time range.
        range: Range,
        /// The filter expression.
        filter: String,
        /// The totals.
        usage: Usage,
    },
    /// The number of requests of the last 30 days that match a filter.
    Matching {
        /// The filter expression.
        filter: String,
        /// The number.
        requests: u64,
    },
    /// The usage of the last hour by minute.
    Minutes(Vec<Period>),
    /// The usage totals of the period before a time range.
    UsageBefore {
        /// The time range.
        range: Range,
        /// The filter expression.
        filter: String,
        /// The totals.
        usage: Usage,
    },
    /// The errors of the last hour.
    Errors(Vec<ErrorCount>),
    /// The account's keys.
    Keys(Vec<Key>),
    /// The models in the catalogue.
    Models(Vec<CatalogueModel>),
    /// All accounts.
    Accounts(Vec<Account>),
    /// All upstreams.
    Upstreams(Vec<Upstream>),
    /// The health of all upstreams.
    Health(Vec<Health>),
    /// All plans for operators, else the account's own plan.
    Plans(Vec<Plan>),
    /// The newest entries of the audit log.
    Audit {
        /// The account that they are about; `None` for all.
        subject: Option<String>,
        /// The entries.
        entries: Vec<AuditEntry>,
        /// Whether there are more.
        has_more: bool,
    },
    /// The newest entries of the ledger.
    Ledger {
        /// The account that they are about; `None` for all.
        subject: Option<String>,
        /// The entries.
        entries: Vec<LedgerEntry>,
        /// Whether there are more.
        has_more: bool,
    },
    /// The gateways of the database.
    Nodes(Vec<Node>),
    /// The invites to register.
    Invites(Vec<Invite>),
    /// The people of an account.
    People {
        /// The account; `None` for the signed-in one.
        subject: Option<String>,
        /// The people.
        people: Vec<Person>,
    },
    /// The sessions of the account.
    Sessions(Vec<Session>),
    /// The requests in flight, the oldest first.
    InFlight {
        /// The requests.
        requests: Vec<InFlight>,
        /// Whether there are more.
        has_more: bool,
    },
    /// The traffic of the last hour.
    Traffic(Traffic),
}

// === impl Loaded ===

impl Loaded {
    /// Returns the topic of the data.
    pub fn topic(&self) -> Topic {
        match self {
            Self::Account(_) => Topic::Account,
            Self::Limits { .. } => Topic::Limits,
            Self::Suspension { .. } => Topic::Suspension,
            Self::Usage { .. } => Topic::Usage,
            Self::Matching { .. } => Topic::Matching,
            Self::Minutes(_) => Topic::Minutes,
            Self::UsageBefore { .. } => Topic::UsageBefore,
            Self::Errors(_) => Topic::Errors,
            Self::Keys(_) => Topic::Keys,
            Self::Models(_) => Topic::Models,
            Self::Accounts(_) => Topic::Accounts,
            Self::Upstreams(_) => Topic::Upstreams,
            Self::Health(_) => Topic::Health,
            Self::Plans(_) => Topic::Plans,
            Self::Audit { .. } => Topic::Audit,
            Self::Ledger { .. } => Topic::Ledger,
            Self::Nodes(_) => Topic::Nodes,
            Self::Invites(_) => Topic::Invites,
            Self::People { .. } => Topic::People,
            Self::Sessions(_) => Topic::Sessions,
            Self::InFlight { .. } => Topic::InFlight,
            Self::Traffic(_) => Topic::Traffic,
        }
    }
}
