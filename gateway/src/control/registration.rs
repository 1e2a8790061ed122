//! Registration of accounts: admission by mode, name checks, rate limit and trial credit.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};

use super::access::Permission;
use super::accounts::AccountView;
use super::error::printable;
use super::passwords::Requester;
use super::{Caller, Control, ControlError, Registration, token};
use domain::ValidationError;
use domain::account::{Account, AccountStatus, DELETED_PREFIX, Invite, Role};
use domain::account_name::AccountName;
use domain::audit::{AuditAction, AuditEntry};
use domain::id::{AccountId, PlanName};
use domain::ledger::{Entry, EntryKind};
use domain::money::Nanos;
use domain::plan::DEFAULT_PLAN;
use domain::source::{CallAddress, Source};
use store::StoreError;

/// A new account.
#[derive(Clone, Debug)]
pub struct Registered {
    /// The account.
    pub account: AccountView,
    /// The trial credit that it received.
    pub trial_credit: Nanos,
    /// Whether the plan's trial credit was withheld because the daily maximum was reached.
    pub withheld: bool,
}

impl Control {
    /// Creates an account with role `member`, and the plan and credit of the invite if it has them, else
    /// the default plan. Grants the plan's trial credit
    /// unless that would exceed the daily maximum. `address` is the client address; registrations
    /// by operators are not rate-limited by it.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] or [`ControlError::Invalid`] if the registration mode does not
    /// admit `caller` or the name is invalid, [`ControlError::Exists`] if the name is taken or
    /// confusable with another one, [`ControlError::Limited`] after too many registrations from
    /// `address`.
    pub async fn register(
        self: &Arc<Self>,
        caller: Option<&Caller>,
        address: Option<IpAddr>,
        name: &str,
        password: SecretString,
        invite_code: &SecretString,
    ) -> Result<Registered, ControlError> {
        let invite = self.admission(caller, invite_code)?;
        // Before parsing: existing names may be reserved, or older than the rules of `AccountName`.
        if self.directory.find_id_named(name).is_some() {
            return Err(taken(name));
        }
        let name = AccountName::parse(name)?;
        Account::check_password(password.expose_secret())?;
        // Saves the cost of the hash; checked again below, where changes are serialized.
        self.refuse_taken(&name, None)?;
        let operator = caller.filter(|caller| caller.may(Permission::AddAccounts));
        if let Some(address) = address.filter(|_| operator.is_none()) {
            self.registration_limiter.admit(address, self.clock.now())?;
        }
        let requester = Requester { source: Source::of(address), is_trusted: operator.is_some() };
        let hash = self.passwords.hash(requester, password).await?;

        self.write(operator, move |control| async move {
            control.refuse_taken(&name, None)?;
            let now = control.clock.now();
            let invite = match invite {
                Some(digest) => Some(control.find_redeemable(digest).await?),
                None => None,
            };
            let invited = invite.as_ref().and_then(|invite| invite.plan.clone());
            let account = Account {
                id: AccountId(control.entropy.uuid(now)),
                name: name.into_string(),
                role: Role::Member,
                status: AccountStatus::Active,
                plan: invited.unwrap_or_else(|| PlanName::new(DEFAULT_PLAN)),
                created_at: now,
            };
            let promised = control.plan_of(&account)?.trial_credit;
            let given = control.store.trial_given(now).await?;
            let fits = given.saturating_add(promised) <= *control.trial_daily.load_full();
            let credit = if fits { promised } else { Nanos::ZERO };
            let credits = first_credits(account.id, credit, invite.as_ref(), now);
            let balance = credits.iter().fold(Nanos::ZERO, |sum, entry| sum + entry.amount);
            let details = format!("plan `{}`, trial credit {credit} dollars", account.plan);
            let audit = control.audit_entry(
                AuditAction::AccountRegister,
                &account.name,
                Some(account.id),
                details,
            );
            let audit = AuditEntry { address: Some(CallAddress::of(address)), ..audit };
            let digest = invite.map(|invite| invite.digest);
            let added = control.store.add_account(&account, &hash, &credits, digest, &audit).await;
            added.map_err(|error| match error {
                StoreError::Conflict(_) => taken(&account.name),
                StoreError::NotFound => refused(),
                error => error.into(),
            })?;
            control.ledger.add_account(account.id, balance);
            let account = control.view(control.directory.put_account(account)).await?;
            Ok(Registered { account, trial_credit: credit, withheld: credit != promised })
        })
        .await
    }

    /// Checks `caller` against the registration mode. Returns the digest of the invite to redeem,
    /// if any.
    fn admission(
        &self,
        caller: Option<&Caller>,
        code: &SecretString,
    ) -> Result<Option<[u8; 32]>, ControlError> {
        let by_operator = caller.is_some_and(|caller| caller.may(Permission::AddAccounts));
        let given = (!code.expose_secret().is_empty()).then(|| token::digest(code));
        match *self.registration.load_full() {
            Registration::Invite if given.is_none() && !by_operator => Err(ValidationError::new(
                "invite_code",
                "registration needs an invite code; ask the operator of this gateway for one",
            )
            .into()),
            // A code is used, too, where it is not needed: it can have a plan and a credit.
            Registration::Open | Registration::Invite => Ok(given),
            Registration::Closed if by_operator => Ok(given),
            Registration::Closed => Err(ControlError::Forbidden(
                "registration is closed; ask the operator of this gateway for an account".into(),
            )),
        }
    }

    /// Returns the invite with this digest. It is as good as the account that made it, which must still be permitted to add
    /// accounts.
    async fn find_redeemable(&self, digest: [u8; 32]) -> Result<Invite, ControlError> {
        let invite = self.store.find_invite(digest).await?.ok_or_else(refused)?;
        let maker = invite.created_by.and_then(|maker| self.directory.find_account(maker));
        let may_invite = |maker: &Account| {
            maker.status == AccountStatus::Active && Permission::AddAccounts.is_held_by(maker)
        };
        if maker.is_some_and(|maker| !may_invite(&maker)) {
            return Err(refused());
        }
        Ok(invite)
    }

    /// Refuses the name of an account or a person other than `except`, a name that looks like one, and those of
    /// deleted accounts.
    pub(super) fn refuse_taken(
        &self,
        name: &AccountName,
        except: Option<AccountId>,
    ) -> Result<(), ControlError> {
        let found = self.directory.find_id_named(name.as_str());
        let is_reserved = name.as_str().to_lowercase().starts_with(DELETED_PREFIX);
        if is_reserved || found.is_some_and(|found| Some(found) != except) {
            return Err(taken(name.as_str()));
        }
        // Where a name or an id is expected, it would stand for another account.
        if uuid::Uuid::try_parse(name.as_str()).is_ok() {
            return Err(ControlError::Exists(format!(
                "the name `{name}` has the form of an account's id; choose another"
            )));
        }
        if self.directory.has_name_like(name, except) {
            return Err(ControlError::Exists(format!(
                "the name `{name}` looks like that of another account; choose another"
            )));
        }
        Ok(())
    }
}

/// Returns the first credits of an account: the trial credit, if it is not zero, and that of the invite.
fn first_credits(
    account: AccountId,
    trial: Nanos,
    invite: Option<&Invite>,
    at: Timestamp,
) -> Vec<Entry> {
    let credit = |amount, kind| Entry { account, amount, kind, at };
    let trial = (trial != Nanos::ZERO).then(|| credit(trial, EntryKind::Trial));
    let of_invite = invite.and_then(|invite| {
        let kind = EntryKind::Credit(format!("invite {}", invite.id));
        Some(credit(invite.credit?, kind))
    });
    trial.into_iter().chain(of_invite).collect()
}

fn refused() -> ControlError {
    ControlError::Forbidden(
        "this invite code is unknown, used or expired; ask for a new one".into(),
    )
}

pub(super) fn taken(name: &str) -> ControlError {
    let name = printable(name);
    ControlError::Exists(format!("the name `{name}` is taken; choose another, or sign in"))
}
