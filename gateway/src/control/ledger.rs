//! The ledger, read and proven.

use std::collections::HashMap;
use std::time::Duration;

use super::accounts::Page;
use super::usage::parse_cursor;
use super::{Caller, Control, ControlError};
use domain::id::AccountId;
use domain::ledger::{Entry, HOUSE, HOUSE_NAME};
use domain::money::Nanos;
use domain::proof::{Difference, Proof};
use store::Cursor;

/// How often a balance that differs is looked at again: what a request has just spent is in memory at
/// once and in the store with the next batch.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// Balances that are looked at again; more cannot be told from a busy gateway.
const MAX_EXAMINED: usize = 1_000;

/// An entry with its place and the name of its account.
#[derive(Clone, Debug)]
pub struct EntryView {
    /// Its place in the ledger.
    pub cursor: Cursor,
    /// The entry.
    pub entry: Entry,
    /// The name of its account.
    pub account: String,
}

/// What a verification found.
#[derive(Clone, Debug)]
pub struct LedgerVerification {
    /// What was recomputed.
    pub proof: Proof,
    /// How many balances kept changing, so that memory and store could not be compared.
    pub under_way: u64,
    /// The differences, each with the name of the account that it is about.
    pub differences: Vec<(Difference, Option<String>)>,
}

/// A balance in memory that is not what the store comes to.
struct Suspect {
    account: AccountId,
    /// The stored balance, with what waits to be written.
    stored: Nanos,
    memory: Nanos,
    /// Whether either has changed since it was first looked at.
    moves: bool,
}

impl Control {
    /// Lists ledger entries, newest first, at most `size` from where `token` says: of the account with
    /// this name or id, or of all that the caller may see.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the account is not the caller's to see,
    /// [`ControlError::Invalid`] if the token is not one of ours.
    pub async fn list_entries(
        &self,
        caller: &Caller,
        account: Option<&str>,
        size: usize,
        token: &str,
    ) -> Result<Page<EntryView>, ControlError> {
        let account = match account {
            Some(HOUSE_NAME) if caller.is_operator() => Some(HOUSE),
            Some(text) => Some(self.visible_account(caller, text)?.id),
            None if caller.is_operator() => None,
            None => Some(caller.account.id),
        };
        let before = match token {
            "" => None,
            token => Some(parse_cursor("page_token", token)?),
        };
        if before.is_none() {
            self.ledger.flushed().await;
        }
        let mut rows = self.store.entries_before(account, before, size + 1).await?;
        let more = rows.len() > size;
        rows.truncate(size);
        let next = rows.last().filter(|_| more).map(|(cursor, _)| cursor.0.to_string());
        let view = |(cursor, entry): (Cursor, Entry)| {
            let account = self.account_name(entry.account);
            EntryView { cursor, entry, account }
        };
        Ok(Page { items: rows.into_iter().map(view).collect(), next })
    }

    /// Recomputes the ledger, and compares the balances in memory with the stored ones.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members; the store's.
    pub async fn verify_ledger(&self, caller: &Caller) -> Result<LedgerVerification, ControlError> {
        caller.require_operator("verify the ledger")?;
        self.ledger.flushed().await;
        let mut proof = self.store.prove().await?;
        let under_way = self.compare_memory(&mut proof).await?;
        let named = |difference: &Difference| {
            let account = difference.account().map(|account| self.account_name(account));
            (difference.clone(), account)
        };
        let differences: Vec<_> = proof.differences.iter().map(named).collect();
        if !proof.holds() {
            let first = differences.first().map(|(difference, _)| difference.to_string());
            tracing::error!(differences = proof.found, first, "the ledger does not add up");
        }
        Ok(LedgerVerification { proof, under_way, differences })
    }

    /// Notes the balances in memory that differ, and go on to differ, from what the stored ones come to with
    /// the records that wait to be written. Returns how many kept changing.
    async fn compare_memory(&self, proof: &mut Proof) -> Result<u64, ControlError> {
        let stored: HashMap<_, _> = proof.balances.iter().copied().collect();
        let waiting = self.ledger.waiting_entries();
        let with_waiting = |waiting: &HashMap<_, Nanos>, account, stored: Nanos| {
            stored + waiting.get(&account).copied().unwrap_or_default()
        };
        let compared = self.directory.accounts().into_iter().map(|account| {
            let stored = stored.get(&account.id).copied().unwrap_or_default();
            Suspect {
                account: account.id,
                stored: with_waiting(&waiting, account.id, stored),
                memory: self.ledger.balance(account.id),
                moves: false,
            }
        });
        let mut suspects: Vec<_> = compared.filter(|it| it.stored != it.memory).collect();
        let beyond = suspects.len().saturating_sub(MAX_EXAMINED) as u64;
        suspects.truncate(MAX_EXAMINED);
        for _ in 0..LOOKS {
            if suspects.is_empty() {
                break;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
            let mut differing = Vec::new();
            for suspect in suspects {
                let stored = self.store.balance(suspect.account).await?;
                let waiting = self.ledger.waiting_entries();
                let stored = with_waiting(&waiting, suspect.account, stored);
                let memory = self.ledger.balance(suspect.account);
                if stored != memory {
                    let moves =
                        suspect.moves || (stored, memory) != (suspect.stored, suspect.memory);
                    differing.push(Suspect { stored, memory, moves, ..suspect });
                }
            }
            suspects = differing;
        }
        let mut under_way = beyond;
        for Suspect { account, stored, memory, moves } in suspects {
            if moves {
                under_way += 1;
            } else {
                proof.note(Difference::Memory { account, stored, memory });
            }
        }
        Ok(under_way)
    }
}
