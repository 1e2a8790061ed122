//! Authenticates the API key of the `Authorization` header.
//!
//! This takes one digest and lookups in memory (key, account, plan), never the database. An unknown key ends
//! with the first of them.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;

use super::AppState;
use domain::account::{Account, AccountStatus};
use domain::key::{self, Key, KeyDigest};
use domain::plan::Plan;
use domain::refusal::{KeyFault, Refusal};

/// An existing key with its account and plan.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The key.
    pub key: Arc<Key>,
    /// The owner of the key.
    pub account: Arc<Account>,
    /// The plan of the account.
    pub plan: Arc<Plan>,
}

/// Finds the principal of a request by its headers. A known key that must not be used is a principal as well:
/// [`Principal::check`] refuses it later, when its request can be recorded.
///
/// # Errors
/// [`Refusal::InvalidApiKey`].
pub fn authenticate(app: &AppState, headers: &HeaderMap) -> Result<Principal, Refusal> {
    let text = bearer(headers).ok_or(Refusal::InvalidApiKey(KeyFault::Missing))?;
    let found = app.directory.find_key(&KeyDigest::of(text));
    let Some(key) = found else {
        let fault = if key::is_key_text(text) { KeyFault::Unknown } else { KeyFault::Malformed };
        return Err(Refusal::InvalidApiKey(fault));
    };
    let unknown = || Refusal::InvalidApiKey(KeyFault::Unknown);
    let account = app.directory.find_account(key.account).ok_or_else(unknown)?;
    let plan = app.directory.catalogue().plans.get(&account.plan).cloned().ok_or_else(unknown)?;
    Ok(Principal { key, account, plan })
}

impl Principal {
    /// Refuses keys that are revoked or expired at `now`, and keys of a suspended account.
    ///
    /// # Errors
    /// [`Refusal::InvalidApiKey`] or [`Refusal::AccountSuspended`].
    pub fn check(&self, now: Timestamp) -> Result<(), Refusal> {
        if !self.key.is_usable(now) {
            let revoked = self.key.revoked_at.is_some();
            let fault = if revoked { KeyFault::Revoked } else { KeyFault::Expired };
            return Err(Refusal::InvalidApiKey(fault));
        }
        match self.account.status {
            AccountStatus::Active => Ok(()),
            AccountStatus::Suspended => Err(Refusal::AccountSuspended),
            // Its keys are revoked.
            AccountStatus::Closed | AccountStatus::Deleted => {
                Err(Refusal::InvalidApiKey(KeyFault::Revoked))
            }
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| token.trim())
}
