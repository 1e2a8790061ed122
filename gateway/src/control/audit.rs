//! The audit log, as those may read it whom it concerns.

use jiff::Timestamp;

use super::accounts::Page;
use super::usage::parse_cursor;
use super::{Caller, Control, ControlError};
use domain::audit::AuditEntry;
use domain::id::AccountId;
use store::{AuditFilter, Cursor};

/// Which entries a caller asks for; every field narrows the choice.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// What this account (name or id) did, or what concerns it.
    pub account: Option<String>,
    /// Made at or after this time.
    pub since: Option<Timestamp>,
    /// Made before this time.
    pub until: Option<Timestamp>,
}

/// An entry with the names behind its ids.
#[derive(Clone, Debug)]
pub struct AuditView {
    /// Its place in the log.
    pub cursor: Cursor,
    /// The entry.
    pub entry: AuditEntry,
    /// The name of who made the change; empty if the gateway did.
    pub actor: String,
    /// The name of the account that it concerns; empty if none.
    pub account: String,
}

impl Control {
    /// Lists entries, newest first, at most `size` after the one that `token` names. Members see
    /// what concerns their own account.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] for an account that does not exist or is not the caller's to see,
    /// [`ControlError::Invalid`] for a token that no answer gave.
    pub async fn list_audit(
        &self,
        caller: &Caller,
        choice: AuditQuery,
        size: usize,
        token: &str,
    ) -> Result<Page<AuditView>, ControlError> {
        let account = match choice.account.as_deref() {
            Some(text) => Some(self.visible_account(caller, text)?.id),
            None => (!caller.is_operator()).then_some(caller.account.id),
        };
        let filter = AuditFilter { account, since: choice.since, until: choice.until };
        let before = match token {
            "" => None,
            token => Some(parse_cursor("page_token", token)?),
        };
        let mut rows = self.store.audit_before(&filter, before, size + 1).await?;
        let more = rows.len() > size;
        rows.truncate(size);
        let next = rows.last().filter(|_| more).map(|(cursor, _)| cursor.0.to_string());
        Ok(Page { items: rows.into_iter().map(|row| self.audit_view(row)).collect(), next })
    }

    fn audit_view(&self, (cursor, entry): (Cursor, AuditEntry)) -> AuditView {
        let name = |id: Option<AccountId>| id.map(|id| self.account_name(id)).unwrap_or_default();
        AuditView { cursor, actor: name(entry.actor), account: name(entry.account), entry }
    }
}
