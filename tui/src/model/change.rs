//! What the user can change at the gateway, and what comes of it.

use secrecy::SecretString;

use std::fmt;

use super::catalogue::CatalogueModel;
use super::plans::{Limits, Plan};
use super::upstreams::Profile;

/// A change that the gateway is asked for.
#[derive(Debug)]
pub enum Change {
    /// Creates a key.
    CreateKey {
        /// What to call it.
        label: String,
        /// Its own limits.
        limits: Limits,
        /// The most that it may spend in all, in US dollars.
        spend_cap_usd: Option<String>,
        /// The models that it may use; empty means all.
        models: Vec<String>,
        /// After how many days it ends by itself, if ever.
        days: Option<u32>,
    },
    /// Replaces a key.
    RotateKey {
        /// Its public id.
        id: String,
        /// How long it goes on working.
        overlap_seconds: u64,
    },
    /// Revokes a key.
    RevokeKey {
        /// Its public id.
        id: String,
        /// What it is called.
        label: String,
    },
    /// Adds to a balance.
    Credit {
        /// The account's name.
        account: String,
        /// How much, in US dollars; negative takes away.
        amount_usd: String,
        /// Why.
        reason: String,
    },
    /// Takes an account out of service.
    Suspend {
        /// The account's name.
        account: String,
        /// Why.
        reason: String,
    },
    /// Brings it back.
    Resume {
        /// The account's name.
        account: String,
    },
    /// Puts an account on another plan.
    SetPlan {
        /// The account's name.
        account: String,
        /// The plan's name.
        plan: String,
    },
    /// Creates a plan or replaces it.
    PutPlan(Plan),
    /// Puts a model into the catalogue.
    AddModel(Box<CatalogueModel>),
    /// Changes a model of the catalogue.
    UpdateModel {
        /// As it was when the user began.
        before: Box<CatalogueModel>,
        /// As it shall be.
        after: Box<CatalogueModel>,
    },
    /// Takes a model out of the catalogue.
    RemoveModel {
        /// Its id.
        id: String,
    },
    /// Adds an upstream.
    AddUpstream(UpstreamDraft),
    /// Changes an upstream.
    UpdateUpstream(UpstreamDraft),
    /// Removes an upstream.
    RemoveUpstream {
        /// Its name.
        name: String,
    },
    /// Gives the account that is signed in another password.
    ChangePassword {
        /// The one that holds now.
        old: SecretString,
        /// The one that shall hold.
        new: SecretString,
    },
}

/// An upstream as it shall be.
#[derive(Debug)]
pub struct UpstreamDraft {
    /// The name.
    pub name: String,
    /// The base URL.
    pub url: String,
    /// The dialect.
    pub profile: Profile,
    /// Where the credential comes from; `None` leaves it as it is.
    pub credential: Option<CredentialDraft>,
}

/// Where a credential shall come from.
#[derive(Debug)]
pub enum CredentialDraft {
    /// A variable of the gateway.
    Variable(String),
    /// A file on the gateway's host.
    File(String),
    /// Here it is.
    Secret(SecretString),
}

/// What came of a change.
#[derive(Debug)]
pub struct ChangeOutcome {
    /// A line that says so.
    pub notice: String,
    /// The key that was made, if one was.
    pub key: Option<CreatedKey>,
}

/// A key that was just made.
pub struct CreatedKey {
    /// What it is called.
    pub label: String,
    /// Its text, which the gateway gives this once.
    pub secret: SecretString,
}

impl fmt::Debug for CreatedKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CreatedKey").field("label", &self.label).finish_non_exhaustive()
    }
}
