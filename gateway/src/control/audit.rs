//! Queries of the audit log. Members see only the entries of their own account.

use jiff::Timestamp;

use super::accounts::Page;
use super::usage::parse_cursor;
use super::{Caller, Control, ControlError};
use domain::audit::AuditEntry;
use domain::id::AccountId;
use store::{AuditFilter, Cursor};

/// A query of the audit log. All conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// The account or the person, by name or id, as actor or as subject.
    pub account: Option<String>,
    /// The earliest time, inclusive.
    pub since: Option<Timestamp>,
    /// The latest time, exclusive.
    pub until: Option<Timestamp>,
}

/// An entry with the names of its accounts.
#[derive(Clone, Debug)]
pub struct AuditView {
    /// Its position in the log.
    pub cursor: Cursor,
    /// The entry.
    pub entry: AuditEntry,
    /// The name of the actor; empty if the gateway made the change.
    pub actor: String,
    /// The name of the affected account; empty if none.
    pub account: String,
}

impl Control {
    /// Lists at most `size` entries, newest first, starting after the page token `token`. Members
    /// see the entries of their own account.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] for an account that does not exist or that the caller may not
    /// see, [`ControlError::Invalid`] if the token is malformed.
    pub async fn list_audit(
        &self,
        caller: &Caller,
        query: AuditQuery,
        size: usize,
        token: &str,
    ) -> Result<Page<AuditView>, ControlError> {
        let account = match query.account.as_deref() {
            Some(text) => Some(self.audited_id(caller, text)?),
            None => (!caller.sees_all()).then_some(caller.account.id),
        };
        let filter = AuditFilter { account, since: query.since, until: query.until };
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

    /// Finds a person or an account by id or name; a removed person by its id.
    fn audited_id(&self, caller: &Caller, text: &str) -> Result<AccountId, ControlError> {
        match self.find_visible_person(caller, text) {
            Some(person) => Ok(person.id),
            None => Ok(self.visible_account(caller, text)?.id),
        }
    }

    fn audit_view(&self, (cursor, entry): (Cursor, AuditEntry)) -> AuditView {
        let name = |id: Option<AccountId>| id.map(|id| self.name_of(id)).unwrap_or_default();
        AuditView { cursor, actor: name(entry.actor), account: name(entry.account), entry }
    }
}
