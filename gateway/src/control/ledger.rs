//! Queries and verification of the ledger.

use std::collections::HashMap;
use std::time::Duration;

use super::access::Permission;
use super::accounts::Page;
use super::usage::parse_cursor;
use super::{Caller, Control, ControlError};
use domain::id::AccountId;
use domain::ledger::{Entry, HOUSE, HOUSE_NAME};
use domain::money::Nanos;
use domain::verification::{Difference, VerificationReport};
use store::Cursor;

/// How often a balance that differs is compared again. A charge is in memory at once, but in the
/// store only with the next batch.
const MAX_COMPARISONS: u32 = 20;
const COMPARISON_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum number of differing balances that are compared again. A busy gateway can have more
/// of them without an error.
const MAX_MISMATCHES: usize = 1_000;

/// An entry with its position and the name of its account.
#[derive(Clone, Debug)]
pub struct EntryView {
    /// Its position in the ledger.
    pub cursor: Cursor,
    /// The entry.
    pub entry: Entry,
    /// The name of its account.
    pub account: String,
}

/// The result of a ledger verification.
#[derive(Clone, Debug)]
pub struct LedgerVerification {
    /// The recomputed balances and sums.
    pub proof: VerificationReport,
    /// The number of balances that kept changing, so that memory and store could not be compared.
    pub under_way: u64,
    /// The differences, each with the name of the affected account, if there is one.
    pub differences: Vec<(Difference, Option<String>)>,
}

/// A balance in memory that differs from the stored one.
struct BalanceMismatch {
    account: AccountId,
    /// The stored balance plus the entries that wait to be written.
    stored: Nanos,
    memory: Nanos,
    /// Whether either value has changed since the first comparison.
    is_changing: bool,
}

impl Control {
    /// Lists at most `size` ledger entries, newest first, starting after the page token `token`.
    /// `account` is a name or id; `None` means all accounts for operators and the own account for
    /// members.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the caller may not see the account,
    /// [`ControlError::Invalid`] if the token is malformed.
    pub async fn list_entries(
        &self,
        caller: &Caller,
        account: Option<&str>,
        size: usize,
        token: &str,
    ) -> Result<Page<EntryView>, ControlError> {
        let account = match account {
            Some(HOUSE_NAME) if caller.sees_all() => Some(HOUSE),
            Some(text) => Some(self.visible_account(caller, text)?.id),
            None if caller.sees_all() => None,
            None => Some(caller.account.id),
        };
        let before = match token {
            "" => None,
            token => Some(parse_cursor("page_token", token)?),
        };
        if before.is_none() {
            self.ledger.wait_until_stored().await;
        }
        let mut rows = self.store.entries_before(account, before, size + 1).await?;
        let more = rows.len() > size;
        rows.truncate(size);
        let next = rows.last().filter(|_| more).map(|(cursor, _)| cursor.0.to_string());
        let view = |(cursor, entry): (Cursor, Entry)| {
            let account = self.name_of(entry.account);
            EntryView { cursor, entry, account }
        };
        Ok(Page { items: rows.into_iter().map(view).collect(), next })
    }

    /// Recomputes the ledger and compares the balances in memory with the stored ones.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::Store`] if the store fails.
    pub async fn verify_ledger(&self, caller: &Caller) -> Result<LedgerVerification, ControlError> {
        caller.require(Permission::ReadAll)?;
        self.ledger.wait_until_stored().await;
        let mut proof = self.store.verify_ledger().await?;
        // The part of a shared balance that is in memory says nothing about the whole.
        let under_way =
            if self.allocations.is_none() { self.compare_memory(&mut proof).await? } else { 0 };
        let named = |difference: &Difference| {
            let account = difference.account().map(|account| self.name_of(account));
            (difference.clone(), account)
        };
        let differences: Vec<_> = proof.differences.iter().map(named).collect();
        if !proof.is_consistent() {
            let first = differences.first().map(|(difference, _)| difference.to_string());
            tracing::error!(
                event = "ledger_mismatch",
                differences = proof.found,
                first,
                "the ledger does not add up"
            );
        }
        Ok(LedgerVerification { proof, under_way, differences })
    }

    /// Adds to `proof` the balances in memory that permanently differ from the stored balance plus
    /// the entries that wait to be written. Returns the number of balances that kept changing.
    async fn compare_memory(&self, proof: &mut VerificationReport) -> Result<u64, ControlError> {
        let stored: HashMap<_, _> = proof.balances.iter().copied().collect();
        let waiting = self.ledger.waiting_entries();
        let with_waiting = |waiting: &HashMap<_, Nanos>, account, stored: Nanos| {
            stored + waiting.get(&account).copied().unwrap_or_default()
        };
        let compared = self.directory.accounts().into_iter().map(|account| {
            let stored = stored.get(&account.id).copied().unwrap_or_default();
            BalanceMismatch {
                account: account.id,
                stored: with_waiting(&waiting, account.id, stored),
                memory: self.ledger.balance(account.id),
                is_changing: false,
            }
        });
        let mut mismatches: Vec<_> = compared.filter(|it| it.stored != it.memory).collect();
        let unchecked = mismatches.len().saturating_sub(MAX_MISMATCHES) as u64;
        mismatches.truncate(MAX_MISMATCHES);
        for _ in 0..MAX_COMPARISONS {
            if mismatches.is_empty() {
                break;
            }
            tokio::time::sleep(COMPARISON_INTERVAL).await;
            let mut differing = Vec::new();
            for mismatch in mismatches {
                let stored = self.store.balance(mismatch.account).await?;
                let waiting = self.ledger.waiting_entries();
                let stored = with_waiting(&waiting, mismatch.account, stored);
                let memory = self.ledger.balance(mismatch.account);
                if stored != memory {
                    let is_changing = mismatch.is_changing
                        || (stored, memory) != (mismatch.stored, mismatch.memory);
                    differing.push(BalanceMismatch { stored, memory, is_changing, ..mismatch });
                }
            }
            mismatches = differing;
        }
        let mut under_way = unchecked;
        for BalanceMismatch { account, stored, memory, is_changing } in mismatches {
            if is_changing {
                under_way += 1;
            } else {
                proof.add(Difference::Memory { account, stored, memory });
            }
        }
        Ok(under_way)
    }
}
