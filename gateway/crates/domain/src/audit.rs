//! The audit log's entries: who changed what, and when; and who signed in, or tried to.

use jiff::Timestamp;

use super::id::AccountId;
use super::idempotency::AdminCall;

/// One change. Entries are only ever added, and never hold a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// When the change was made.
    pub at: Timestamp,
    /// Who made it; `None` if the gateway did so itself.
    pub actor: Option<AccountId>,
    /// What was done.
    pub action: AuditAction,
    /// To what: a key's id, the name of an account, a plan or an upstream, a model's id.
    pub object: String,
    /// The account that it concerns, if it is one.
    pub account: Option<AccountId>,
    /// What else there is to say of it.
    pub details: String,
    /// The call that asked for it, if that may be made again: remembered with the entry for a day, and no
    /// part of what is read of the log.
    pub call: Option<AdminCall>,
}

macro_rules! actions {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)+) => {
        /// What may be done: a noun and a verb.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum AuditAction {
            $($(#[$doc])* $variant,)+
        }

        impl AuditAction {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns what it is called in the log.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}

actions! {
    /// An account was made.
    AccountRegister = "account.register",
    /// An account was given money, or some was taken.
    AccountCredit = "account.credit",
    /// A code for a registration was made.
    AccountInvite = "account.invite",
    /// An account was suspended.
    AccountSuspend = "account.suspend",
    /// An account may be used again.
    AccountResume = "account.resume",
    /// An account was put on another plan.
    AccountPlan = "account.plan",
    /// A password was changed.
    AccountPassword = "account.password",
    /// Somebody signed in.
    SessionCreate = "session.create",
    /// Operator-ins to an account failed.
    SessionRefuse = "session.refuse",
    /// Tokens of the admin plane were refused that are unknown or have ended.
    TokenRefuse = "token.refuse",
    /// A session was ended from another one.
    SessionRevoke = "session.revoke",
    /// All sessions but one were ended.
    SessionRevokeOthers = "session.revoke_others",
    /// A key was made.
    KeyCreate = "key.create",
    /// A key was replaced by a new one.
    KeyRotate = "key.rotate",
    /// A key was revoked.
    KeyRevoke = "key.revoke",
    /// A plan was made or replaced.
    PlanPut = "plan.put",
    /// A model was added.
    ModelAdd = "model.add",
    /// A model was changed.
    ModelUpdate = "model.update",
    /// A model was removed.
    ModelRemove = "model.remove",
    /// An upstream was added.
    UpstreamAdd = "upstream.add",
    /// An upstream was changed.
    UpstreamUpdate = "upstream.update",
    /// An upstream was removed.
    UpstreamRemove = "upstream.remove",
}
