//! Entries of the audit log: changes with their actor and time, and sign-ins and failed sign-ins.

use jiff::Timestamp;

use super::id::AccountId;
use super::idempotency::AdminCall;
use super::source::CallAddress;

/// One change. Entries are append-only and contain no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// The time of the change.
    pub at: Timestamp,
    /// The account or the person that made the change; `None` for the gateway itself.
    pub actor: Option<AccountId>,
    /// The address that the change was requested from; `None` for the gateway itself, for entries
    /// about calls from several addresses, and for entries of earlier versions.
    pub address: Option<CallAddress>,
    /// The action.
    pub action: AuditAction,
    /// The changed object: a key's id, the name of an account, a plan, an
    /// upstream or a node, a model's id.
    pub object: String,
    /// The account that the change concerns, if any.
    pub account: Option<AccountId>,
    /// Further details, such as the changed fields.
    pub details: String,
    /// The admin call that caused the change, if it had an idempotency key. Stored with the entry
    /// for a day; not returned when the log is read.
    pub call: Option<AdminCall>,
}

macro_rules! actions {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)+) => {
        /// An audited action, named by a noun and a verb.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum AuditAction {
            $($(#[$doc])* $variant,)+
            /// One that this version does not know: a gateway of a later version on the same database has written it.
            Unknown(Box<str>),
        }

        impl AuditAction {
            /// Every action that this version knows.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name in the log.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Unknown(name) => name,
                }
            }

            /// Returns the action with this name in the log.
            pub fn from_name(name: &str) -> Self {
                match name {
                    $($text => Self::$variant,)+
                    _ => Self::Unknown(name.into()),
                }
            }
        }
    };
}

actions! {
    /// An account was registered.
    AccountRegister = "account.register",
    /// An account was credited or debited by an operator.
    AccountCredit = "account.credit",
    /// An invite code was created.
    AccountInvite = "account.invite",
    /// An unused invite was revoked.
    AccountUninvite = "account.uninvite",
    /// An account was suspended.
    AccountSuspend = "account.suspend",
    /// An account was renamed.
    AccountRename = "account.rename",
    /// An account was closed.
    AccountClose = "account.close",
    /// An account was deleted.
    AccountDelete = "account.delete",
    /// A suspended or closed account was resumed.
    AccountResume = "account.resume",
    /// An account was moved to another plan.
    AccountPlan = "account.plan",
    /// An account was given another role.
    AccountGrant = "account.grant",
    /// A code for a new password was created.
    AccountResetPassword = "account.reset_password",
    /// A person was added to an account.
    PersonAdd = "person.add",
    /// A person was given another role in its account.
    PersonUpdate = "person.update",
    /// A person was removed from its account.
    PersonRemove = "person.remove",
    /// A password was changed.
    AccountPassword = "account.password",
    /// The operator token was replaced.
    OperatorTokenRotate = "operator_token.rotate",
    /// The operator token was disabled.
    OperatorTokenDisable = "operator_token.disable",
    /// The operator token was enabled.
    OperatorTokenEnable = "operator_token.enable",
    /// A sign-in succeeded.
    SessionCreate = "session.create",
    /// Sign-ins to an account failed.
    SessionRefuse = "session.refuse",
    /// Admin tokens were refused because they are unknown or expired.
    TokenRefuse = "token.refuse",
    /// A session was ended by another session of the account.
    SessionRevoke = "session.revoke",
    /// All sessions of an account but the current one were ended.
    SessionRevokeOthers = "session.revoke_others",
    /// A key was created.
    KeyCreate = "key.create",
    /// The settings of a key were changed.
    KeyUpdate = "key.update",
    /// A key was replaced by a new one.
    KeyRotate = "key.rotate",
    /// The requests of a key are captured for a while.
    KeyCapture = "key.capture",
    /// The captured messages of a request were read.
    RequestWire = "request.wire",
    /// The stored responses of an account were exported by somebody else.
    ResponsesExport = "responses.export",
    /// A key was revoked.
    KeyRevoke = "key.revoke",
    /// A request was cancelled.
    RequestCancel = "request.cancel",
    /// A plan was created or replaced.
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
    /// What kept requests away from an upstream was ended.
    UpstreamReset = "upstream.reset",
    /// The settings, the certificate and the credentials were read again.
    GatewayReload = "gateway.reload",
    /// A copy of the database for a backup was requested. It contains everything. Written before the copy is made, which may
    /// fail; the copy contains the entry.
    DatabaseBackup = "database.backup",
    /// The key of stored secrets was replaced.
    SealRotate = "seal.rotate",
    /// Whether a node drains was changed.
    NodeDrain = "node.drain",
    /// A node was removed.
    NodeRemove = "node.remove",
}
