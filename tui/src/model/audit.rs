//! The audit log: who changed what.

use jiff::Timestamp;

use super::fetched::ListEntry;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its place in the log.
    pub id: String,
    /// When it was made.
    pub at: Option<Timestamp>,
    /// Who made it; `None` if the gateway did so itself.
    pub actor: Option<String>,
    /// What was done: `key.create`.
    pub action: String,
    /// To what.
    pub object: String,
    /// Whom it concerns, if a single account.
    pub account: Option<String>,
    /// What else there is to say of it.
    pub details: String,
}

impl ListEntry for AuditEntry {
    fn id(&self) -> &str {
        &self.id
    }

    fn texts(&self) -> Vec<&str> {
        vec![
            self.actor.as_deref().unwrap_or_default(),
            &self.action,
            &self.object,
            self.account.as_deref().unwrap_or_default(),
            &self.details,
        ]
    }
}
