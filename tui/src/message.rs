//! All that can happen: what the user did and what the gateway said.

use jiff::Timestamp;
use secrecy::SecretString;

use crate::model::accounts::Account;
use crate::model::audit::AuditEntry;
use crate::model::catalogue::CatalogueModel;
use crate::model::change::ChangeOutcome;
use crate::model::fetched::FetchState;
use crate::model::keys::Key;
use crate::model::plans::Plan;
use crate::model::record::LogBatch;
use crate::model::subscription::Topic;
use crate::model::traffic::{LimitUse, Traffic};
use crate::model::upstreams::{Health, Upstream};
use crate::model::usage::{Range, Usage};
use crate::model::{Action, ConnectionState};

/// Something happened.
#[derive(Debug)]
pub enum Message {
    /// The user pressed a key that means something here.
    Act(Action),
    /// The user pasted a text; it may be a password.
    Pasted(SecretString),
    /// The terminal has so many columns and rows.
    Resized(u16, u16),
    /// It is about that time.
    Tick(Timestamp),
    /// A token was found at start: no need to ask for a password.
    TokenFound(SecretString),
    /// The password was right.
    SignedIn(SecretString),
    /// It was not, or nobody could say; the text says what to do.
    SignInFailed(String),
    /// The gateway does not accept the token any more; the text says what to do.
    SignedOut(String),
    /// The gateway says that clients reach `/v1` at this base URL.
    ApiUrlDiscovered(String),
    /// The connection came up or went down.
    ConnectionChanged(ConnectionState),
    /// Something was fetched.
    Loaded(Box<Loaded>),
    /// It could not be.
    NotLoaded(Topic, FetchState),
    /// The request log went on.
    LogReceived(LogBatch),
    /// What the user wanted changed is changed, or is not; that text says what to do.
    Changed(Result<ChangeOutcome, String>),
}

/// What was fetched.
#[derive(Debug)]
pub enum Loaded {
    /// The account that is signed in.
    Account(Account),
    /// The limits that hold for it.
    Limits(Vec<LimitUse>),
    /// The sums of a range.
    Usage(Range, Usage),
    /// Its keys.
    Keys(Vec<Key>),
    /// The catalogue.
    Models(Vec<CatalogueModel>),
    /// All accounts.
    Accounts(Vec<Account>),
    /// All upstreams.
    Upstreams(Vec<Upstream>),
    /// How they do.
    Health(Vec<Health>),
    /// All plans, or the account's own.
    Plans(Vec<Plan>),
    /// The audit log.
    Audit(Vec<AuditEntry>),
    /// The traffic of the last hour.
    Traffic(Traffic),
}
