//! Who signs in: the owner of an account, or one of its people.

use std::sync::Arc;

use super::Control;
use domain::account::Account;
use domain::id::AccountId;
use domain::ledger::{HOUSE, HOUSE_NAME};
use domain::person::Person;

/// The owner of an account, or one of its people.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The account.
    pub account: Arc<Account>,
    /// The person; `None` for the owner.
    pub person: Option<Arc<Person>>,
}

impl Identity {
    /// Returns the id under which sessions and codes are stored, and which the audit log names.
    pub fn id(&self) -> AccountId {
        self.person.as_ref().map_or(self.account.id, |person| person.id)
    }

    /// Returns the sign-in name.
    pub fn name(&self) -> &str {
        self.person.as_ref().map_or(&self.account.name, |person| &person.name)
    }
}

impl Control {
    /// Finds who signs in with a name. Removed people are not found.
    pub(super) fn find_identity_named(&self, name: &str) -> Option<Identity> {
        self.find_identity(self.directory.find_id_named(name)?)
    }

    /// Finds an account or a person, also a removed one, by its id.
    pub(super) fn find_identity(&self, id: AccountId) -> Option<Identity> {
        if let Some(account) = self.directory.find_account(id) {
            return Some(Identity { account, person: None });
        }
        let person = self.directory.find_person(id)?;
        let account = self.directory.find_account(person.account)?;
        Some(Identity { account, person: Some(person) })
    }

    /// Returns the name of an account or a person; its id if it no longer exists.
    pub(super) fn name_of(&self, id: AccountId) -> String {
        if id == HOUSE {
            return HOUSE_NAME.to_owned();
        }
        self.find_identity(id).map_or_else(|| id.to_string(), |found| found.name().to_owned())
    }
}
