//! Changes that the user can request from the gateway, and their results.

use secrecy::SecretString;

use std::fmt;

use super::Screen;
use super::accounts::Role;
use super::catalogue::CatalogueModel;
use super::keys::Key;
use super::people::PersonRole;
use super::plans::{Limits, Plan};
use super::upstreams::{Deadlines, Profile};

/// A change to request from the gateway.
#[derive(Debug)]
pub enum Change {
    /// Creates a key.
    CreateKey {
        /// The label.
        label: String,
        /// The limits of the key itself.
        limits: Limits,
        /// The maximum total spending, in US dollars.
        spend_cap_usd: Option<String>,
        /// The allowed models; empty means all.
        models: Vec<String>,
        /// Seconds until the key expires; `None` for never.
        expires_in_seconds: Option<u64>,
    },
    /// Updates a key.
    UpdateKey {
        /// The key when the form was opened.
        before: Box<Key>,
        /// The requested key, apart from its end.
        after: Box<Key>,
        /// Its new end; `None` if that does not change.
        end: Option<KeyEnd>,
    },
    /// Performs several changes, one after another.
    Batch(Vec<Change>),
    /// Replaces a key with a successor.
    RotateKey {
        /// The public id of the replaced key.
        id: String,
        /// How long the replaced key stays valid.
        overlap_seconds: u64,
    },
    /// Revokes a key.
    RevokeKey {
        /// Its public id.
        id: String,
        /// The label, for the notice.
        label: String,
    },
    /// Adds an amount to an account's balance.
    Credit {
        /// The account's name.
        account: String,
        /// The amount in US dollars; negative to deduct.
        amount_usd: String,
        /// The reason, kept with the ledger entry.
        reason: String,
    },
    /// Suspends an account.
    Suspend {
        /// The account's name.
        account: String,
        /// The reason, shown to the account.
        reason: String,
    },
    /// Resumes a suspended account.
    Resume {
        /// The account's name.
        account: String,
    },
    /// Moves an account to another plan.
    SetPlan {
        /// The account's name.
        account: String,
        /// The plan's name.
        plan: String,
    },
    /// Renames an account.
    RenameAccount {
        /// The account's name.
        account: String,
        /// The new name.
        name: String,
    },
    /// Closes an account.
    CloseAccount {
        /// The account's name.
        account: String,
    },
    /// Deletes a closed account.
    DeleteAccount {
        /// The account's name.
        account: String,
    },
    /// Creates a code with which the owner of an account sets a new password.
    ResetPassword {
        /// The account's name.
        account: String,
    },
    /// Adds a person to an account.
    AddPerson {
        /// The account's name; empty for the signed-in one.
        account: String,
        /// The name of the person.
        name: String,
        /// What the person may do.
        role: PersonRole,
    },
    /// Gives a person another role.
    SetPersonRole {
        /// The name of the person.
        name: String,
        /// What the person may do.
        role: PersonRole,
    },
    /// Removes a person from its account.
    RemovePerson {
        /// The name of the person.
        name: String,
    },
    /// Creates an invite.
    CreateInvite {
        /// Seconds until the code expires.
        ttl_seconds: u64,
        /// The plan of the new account; empty for the default plan.
        plan: String,
        /// The credit of the new account in US dollars.
        credit_usd: Option<String>,
    },
    /// Revokes an invite.
    RevokeInvite {
        /// Its id.
        id: String,
    },
    /// Cancels a request in flight.
    CancelRequest {
        /// Its id.
        id: String,
    },
    /// Ends a session.
    RevokeSession {
        /// Its id.
        id: String,
    },
    /// Ends all sessions but the current one.
    RevokeOtherSessions,
    /// Gives an account another role.
    GrantRole {
        /// The account's name.
        account: String,
        /// The role.
        role: Role,
    },
    /// Creates or replaces a plan.
    PutPlan {
        /// The plan.
        plan: Plan,
        /// Whether it was entered as a new one.
        is_new: bool,
    },
    /// Adds a model to the catalogue.
    AddModel(Box<CatalogueModel>),
    /// Updates a model in the catalogue.
    UpdateModel {
        /// The entry when the form was opened.
        before: Box<CatalogueModel>,
        /// The requested entry.
        after: Box<CatalogueModel>,
    },
    /// Removes a model from the catalogue.
    RemoveModel {
        /// The model id.
        id: String,
    },
    /// Adds an upstream.
    AddUpstream(UpstreamDraft),
    /// Updates an upstream.
    UpdateUpstream(UpstreamDraft),
    /// Removes an upstream.
    RemoveUpstream {
        /// The upstream's name.
        name: String,
    },
    /// Ends what keeps requests away from an upstream on this gateway.
    ResetUpstream {
        /// The upstream's name.
        name: String,
    },
    /// Tests whether an upstream can be reached and has its models. Nothing changes.
    TestUpstream {
        /// The upstream's name.
        name: String,
    },
    /// Sets whether a node drains.
    DrainNode {
        /// The node's name.
        name: String,
        /// Whether it drains from now on.
        is_draining: bool,
    },
    /// Removes a node.
    RemoveNode {
        /// The node's name.
        name: String,
        /// Whether its data directory is lost.
        is_lost: bool,
    },
    /// Changes the password of the signed-in account.
    ChangePassword {
        /// The current password.
        old: SecretString,
        /// The new password.
        new: SecretString,
    },
}

/// The requested settings of an upstream.
#[derive(Debug)]
pub struct UpstreamDraft {
    /// The name.
    pub name: String,
    /// The base URL.
    pub url: String,
    /// The profile.
    pub profile: Profile,
    /// The source of the credential; `None` keeps the current one.
    pub credential: Option<CredentialDraft>,
    /// The timeouts to set; `None` keeps the current one, zero sets the default.
    pub deadlines: Deadlines,
}

/// The requested source of a credential.
#[derive(Debug)]
pub enum CredentialDraft {
    /// An environment variable of the gateway.
    Variable(String),
    /// A file on the gateway's host.
    File(String),
    /// The credential itself, to be stored encrypted.
    Secret(SecretString),
}

/// The result of a successful change.
#[derive(Debug, Default)]
pub struct ChangeOutcome {
    /// A one-line description of the change.
    pub notice: String,
    /// The created secret, if any.
    pub secret: Option<IssuedSecret>,
    /// Whether it was a batch, after which no row is marked.
    pub is_batch: bool,
    /// The row that the change added, if any.
    pub added: Option<AddedRow>,
}

/// A row that a change added to a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedRow {
    /// The screen of the list, which may no longer be the open one.
    pub screen: Screen,
    /// The id of the row.
    pub id: String,
}

/// The end of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEnd {
    /// It never ends.
    Never,
    /// It ends in this number of seconds.
    After(u64),
}

/// A secret that the gateway returns only once.
pub struct IssuedSecret {
    /// What it is.
    pub kind: SecretKind,
    /// The key's label or the account's name; empty for an invite.
    pub label: String,
    /// The secret itself.
    pub secret: SecretString,
    /// The models that a key may use; empty means all models of the plan.
    pub models: Vec<String>,
}

/// A kind of secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretKind {
    /// An API key.
    Key,
    /// The code of an invite.
    Invite,
    /// A code for a new password.
    PasswordReset,
    /// The code with which a new person sets its password.
    Person,
}

// === impl SecretKind ===

impl SecretKind {
    /// Returns the name of a secret with this label.
    pub fn name(self, label: &str) -> String {
        match self {
            Self::Key => format!("key `{label}`"),
            Self::Invite => "the invite code".to_owned(),
            Self::Person => format!("the code of `{label}`"),
            Self::PasswordReset => format!("the code for a new password of `{label}`"),
        }
    }
}

impl fmt::Debug for IssuedSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("IssuedSecret")
            .field("kind", &self.kind)
            .field("label", &self.label)
            .finish_non_exhaustive()
    }
}
