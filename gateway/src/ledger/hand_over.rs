//! Balances while a process that was replaced finishes its requests.
//!
//! The process that is replaced keeps what its requests hold and, of each balance that one of them holds something of,
//! half of the rest, so that long answers can grow. The process that replaces it reserves these amounts, and charges the
//! records that the other one leaves to them. Invariant: both together spend no more than there is.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::Ledger;
use super::balance::{Payment, ReservedMoney};
use super::journal::JournalWriteError;
use domain::id::{AccountId, KeyId};
use domain::money::Nanos;
use domain::record::RequestRecord;

/// The balances that a replaced process keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetainedFunds {
    /// The parts of the balances of accounts.
    pub accounts: Vec<(AccountId, Nanos)>,
    /// The parts of spending caps, by [`Key::origin`](domain::key::Key::origin).
    pub caps: Vec<(KeyId, Nanos)>,
}

/// What another process may spend. Dropping it releases what is left.
#[derive(Debug, Default)]
pub struct Reservation {
    accounts: HashMap<AccountId, ReservedMoney>,
    caps: HashMap<KeyId, ReservedMoney>,
}

impl Ledger {
    /// Leaves to requests in progress what they may still spend, and refuses others from now on. Another process may
    /// spend the rest of each balance.
    pub fn hand_over(&self) -> RetainedFunds {
        self.is_handed_over.store(true, Ordering::SeqCst);
        self.balances.retain_held()
    }

    /// Returns whether another process keeps the balances now.
    pub fn is_handed_over(&self) -> bool {
        self.is_handed_over.load(Ordering::SeqCst)
    }

    /// Returns the path of the journal.
    pub fn journal_path(&self) -> PathBuf {
        self.journal.path()
    }

    /// Moves the journal to `path`, as [`Journal::move_to`](super::journal::Journal::move_to) does.
    ///
    /// # Errors
    /// It cannot be moved.
    pub fn move_journal(&self, path: &Path) -> io::Result<()> {
        self.journal.move_to(path)
    }

    /// Reserves what another process retains.
    pub fn reserve(&self, retained: &RetainedFunds) -> Reservation {
        let RetainedFunds { accounts, caps } = retained;
        let of_account = |(id, amount): &(AccountId, Nanos)| {
            (*id, self.balances.of_account(*id).reserve(*amount))
        };
        let of_origin = |(origin, amount): &(KeyId, Nanos)| {
            (origin.clone(), self.balances.of_origin(origin).reserve(*amount))
        };
        Reservation {
            accounts: accounts.iter().map(of_account).collect(),
            caps: caps.iter().map(of_origin).collect(),
        }
    }

    /// Charges and queues the records of another process, and waits until the journal of this one has them. Each comes
    /// with the [origin](domain::key::Key::origin) of its key.
    ///
    /// # Errors
    /// The journal cannot be written; the records are kept and written later.
    pub fn adopt(
        &self,
        records: Vec<(RequestRecord, KeyId)>,
        reserved: &mut Reservation,
    ) -> Result<(), JournalWriteError> {
        for (mut record, origin) in records {
            if let Some(cost) = record.cost.filter(|&cost| cost > Nanos::ZERO) {
                let Payment { charged, overrun } = match reserved.accounts.get_mut(&record.account)
                {
                    Some(reserved) => reserved.pay(cost),
                    None => self.balances.of_account(record.account).pay(cost),
                };
                match reserved.caps.get_mut(&origin) {
                    Some(reserved) => _ = reserved.pay(charged),
                    None => self.balances.of_origin(&origin).count(charged),
                }
                record.cost = Some(charged);
                record.overrun = record.overrun + overrun;
            }
            let position = self.journal.close(&record);
            self.recorder.send(Box::new(record), position);
        }
        self.journal.flush()
    }
}
