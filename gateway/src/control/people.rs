//! The people of an account: invitation, roles and removal.
//!
//! The owner of an account, its admins and operators manage its people. Only accounts with role `member` have
//! people, so that none acts with a role of the gateway. A removed person loses its sessions at once; its keys stay.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;

use super::access::{Permission, is_ended};
use super::change::{ChangeContext, ReplayExt};
use super::registration::taken;
use super::{Caller, Control, ControlError, passwords, token};
use domain::account::{Account, PasswordReset, Role};
use domain::account_name::AccountName;
use domain::audit::AuditAction;
use domain::id::AccountId;
use domain::person::{Person, PersonRole};
use store::StoreError;

/// The number of people that an account can have.
const MAX_PEOPLE: usize = 100;
/// The number of people that an account can have had, which bounds the rows that remain of removed ones.
const MAX_PEOPLE_EVER: usize = 1_000;
/// The lifetime of the code with which an invited person sets the first password.
const CODE_LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);

/// A person with the name of its account.
#[derive(Clone, Debug)]
pub struct PersonView {
    /// The person.
    pub person: Arc<Person>,
    /// The name of the account.
    pub account: String,
}

/// A new person.
#[derive(Debug)]
pub struct NewPerson {
    /// The person.
    pub person: PersonView,
    /// The code that sets the first password. Only its digest is stored, so it cannot be shown again.
    pub code: SecretString,
    /// When the code expires.
    pub expires_at: Timestamp,
}

impl Control {
    /// Adds a person to `account`; empty for the caller's account.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] unless the caller may manage the people of the account,
    /// [`ControlError::NotFound`] if the caller may not see it, [`ControlError::Invalid`] or
    /// [`ControlError::Exists`] for a name that no new account could have, [`ControlError::InUse`] if the account
    /// is closed, has another role than member, or has too many people.
    pub async fn add_person(
        self: &Arc<Self>,
        caller: &Caller,
        account: &str,
        name: &str,
        role: PersonRole,
    ) -> Result<NewPerson, ControlError> {
        let account = self.account_with_people(caller, account)?;
        require_management(caller, &account)?;
        let id = account.id;
        let name = AccountName::parse(name)?;
        let code = token::make(token::PASSWORD_RESET, &*self.entropy);
        let (by, digest) = (caller.clone(), token::digest(&code));
        let added = self.write(Some(caller), move |control| async move {
            let account = control.current_account(id)?;
            require_management(&by, &account)?;
            refuse_people(&account)?;
            control.refuse_taken(&name, None)?;
            control.check_number(&account).await?;
            let now = control.clock.now();
            let person = Person {
                id: AccountId(control.entropy.uuid(now)),
                account: id,
                name: name.into_string(),
                role,
                is_removed: false,
                created_at: now,
            };
            let expires_at = now.saturating_add(CODE_LIFETIME).unwrap_or(Timestamp::MAX);
            let code = PasswordReset {
                digest,
                account: person.id,
                created_by: by.id(),
                created_at: now,
                expires_at,
            };
            let details = format!("role `{}`, code until {expires_at}", role.as_str());
            let audit =
                control.audit_entry(AuditAction::PersonAdd, &person.name, Some(id), details);
            let hash = passwords::UNUSABLE_HASH;
            let added = control.store.add_person(&person, hash, &code, &audit).await;
            added.map_err(|error| match error {
                StoreError::Conflict(_) => taken(&person.name),
                error => error.into(),
            })?;
            Ok((control.person_view(control.directory.put_person(person)), expires_at))
        });
        let (person, expires_at) = added.await.or_replay(|done| {
            Err(ControlError::Exists(format!(
                "an earlier call with this idempotency key returned the code of `{0}`; `ctl account \
                 reset-password {0}` makes another one",
                done.object
            )))
        })?;
        Ok(NewPerson { person, code, expires_at })
    }

    /// Returns the people of `account`, removed ones included; empty for the caller's account.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the caller may not see the account.
    pub async fn list_people(
        &self,
        caller: &Caller,
        account: &str,
    ) -> Result<Vec<PersonView>, ControlError> {
        let account = self.account_with_people(caller, account)?;
        let people = self.store.people(account.id).await?.into_iter();
        let view = |person| PersonView { person: Arc::new(person), account: account.name.clone() };
        Ok(people.map(view).collect())
    }

    /// Gives a person another role, from its next call on. Idempotent.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the caller may not see the person or it was removed,
    /// [`ControlError::Forbidden`] unless the caller may manage the people of its account.
    pub async fn set_person_role(
        self: &Arc<Self>,
        caller: &Caller,
        person: &str,
        role: PersonRole,
    ) -> Result<PersonView, ControlError> {
        let id = self.visible_person(caller, person)?.id;
        let by = caller.clone();
        let changed = self.write(Some(caller), move |control| async move {
            let person = control.managed_person(&by, id)?;
            if person.role == role {
                return Ok(control.person_view(person));
            }
            let details = format!("from `{}` to `{}`", person.role.as_str(), role.as_str());
            let changed = Person { role, ..Person::clone(&person) };
            let action = AuditAction::PersonUpdate;
            let audit = control.audit_entry(action, &person.name, Some(person.account), details);
            control.store.set_person_role(&changed, &audit).await?;
            Ok(control.person_view(control.directory.put_person(changed)))
        });
        changed.await.or_replay(|_| Ok(self.person_view(self.visible_person(caller, person)?)))
    }

    /// Removes a person: its sessions end, and its name is free. Its keys stay.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the caller may not see the person or it was removed before,
    /// [`ControlError::Forbidden`] unless the caller may manage the people of its account.
    pub async fn remove_person(
        self: &Arc<Self>,
        caller: &Caller,
        person: &str,
    ) -> Result<(), ControlError> {
        if self.find_completed_call(caller).await?.is_some() {
            return Ok(());
        }
        let id = self.visible_person(caller, person)?.id;
        let by = caller.clone();
        let removed = self.write(Some(caller), move |control| async move {
            let person = control.managed_person(&by, id)?;
            let action = AuditAction::PersonRemove;
            let audit = control.audit_entry(action, &person.name, Some(person.account), "");
            control.store.remove_person(id, passwords::UNUSABLE_HASH, &audit).await?;
            control.directory.put_person(Person { is_removed: true, ..Person::clone(&person) });
            Ok(())
        });
        removed.await.or_replay(|_| Ok(()))
    }

    /// Finds a person that was not removed by its id or name, if `caller` may see its account.
    pub(super) fn visible_person(
        &self,
        caller: &Caller,
        text: &str,
    ) -> Result<Arc<Person>, ControlError> {
        let found = self.find_visible_person(caller, text).filter(|person| !person.is_removed);
        found.ok_or_else(|| {
            let text = super::error::printable(text);
            ControlError::NotFound(format!(
                "person `{text}` does not exist; `ctl account people list` shows the people of an account"
            ))
        })
    }

    /// Finds a person by its id or name, if `caller` may see its account; a removed one by its id, because its name is
    /// free.
    pub(super) fn find_visible_person(&self, caller: &Caller, text: &str) -> Option<Arc<Person>> {
        let id = text.parse().ok().map(AccountId);
        let by_id = id.and_then(|id| self.directory.find_person(id));
        let by_name = || self.find_identity_named(text).and_then(|found| found.person);
        by_id.or_else(by_name).filter(|person| caller.can_see(person.account))
    }

    fn account_with_people(
        &self,
        caller: &Caller,
        account: &str,
    ) -> Result<Arc<Account>, ControlError> {
        if account.is_empty() {
            Ok(caller.account.clone())
        } else {
            self.visible_account(caller, account)
        }
    }

    fn person_view(&self, person: Arc<Person>) -> PersonView {
        PersonView { account: self.name_of(person.account), person }
    }
}

impl ChangeContext {
    /// Returns a person that was not removed, if `caller` may manage it.
    fn managed_person(&self, caller: &Caller, id: AccountId) -> Result<Arc<Person>, ControlError> {
        let person = self.visible_person(caller, &id.to_string())?;
        require_management(caller, &*self.current_account(person.account)?)?;
        Ok(person)
    }

    /// Refuses another person in an account that has too many.
    async fn check_number(&self, account: &Account) -> Result<(), ControlError> {
        let people = self.store.people(account.id).await?;
        let present = people.iter().filter(|person| !person.is_removed).count();
        if present >= MAX_PEOPLE {
            return Err(ControlError::InUse(format!(
                "the account has {present} people, and can have {MAX_PEOPLE}; first remove one (`ctl account \
                 people remove NAME`)"
            )));
        }
        if people.len() >= MAX_PEOPLE_EVER {
            return Err(ControlError::InUse(format!(
                "the account has had {MAX_PEOPLE_EVER} people and can have no more; register another account"
            )));
        }
        Ok(())
    }

    /// Refuses to give a role of the gateway to an account with people, who would act with it.
    pub(super) async fn refuse_role_with_people(
        &self,
        account: &Account,
        role: Role,
    ) -> Result<(), ControlError> {
        let people = self.store.people(account.id).await?;
        if role == Role::Member || people.iter().all(|person| person.is_removed) {
            return Ok(());
        }
        Err(ControlError::InUse(format!(
            "the account `{}` has people, and only accounts with role `member` may have some; remove them \
             (`ctl account people list --account {0}`), or give the role to an account of one person",
            account.name
        )))
    }

    /// Updates the people of a deleted account in memory.
    pub(super) async fn forget_people(&self, account: AccountId) -> Result<(), ControlError> {
        for person in self.store.people(account).await? {
            self.directory.put_person(person);
        }
        Ok(())
    }
}

/// Refuses callers that may not manage the people of `account`.
pub(super) fn require_management(caller: &Caller, account: &Account) -> Result<(), ControlError> {
    if account.id != caller.account.id {
        return caller.require_on(account, Permission::ManagePeople);
    }
    caller.require_admin("manage its people")
}

fn refuse_people(account: &Account) -> Result<(), ControlError> {
    let name = &account.name;
    if is_ended(account) {
        return Err(ControlError::InUse(format!("the account `{name}` is closed")));
    }
    if account.role != Role::Member {
        return Err(ControlError::InUse(format!(
            "the account `{name}` has the role `{}`, and only accounts with role `member` may have people; \
             register an account for each person instead",
            account.role.as_str()
        )));
    }
    Ok(())
}
