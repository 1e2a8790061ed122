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
use domain::id::{AccountId, KeyId};
use domain::key::Key;
use domain::money::Nanos;
use domain::record::RequestRecord;

/// The balances that a replaced process keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetainedFunds {
    /// The parts of the balances of accounts.
    pub accounts: Vec<(AccountId, Nanos)>,
    /// The parts of spending caps, by [`Key::origin`].
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
        self.balances.reduce_for_hand_over()
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

    /// Charges and queues a record of another process. `key` is the key of the request, unless it no longer exists. The
    /// record is not safe before the store has it ([`find_unwritten`](Self::find_unwritten)).
    pub fn adopt(&self, mut record: RequestRecord, key: Option<&Key>, reserved: &mut Reservation) {
        if let Some(cost) = record.cost.filter(|&cost| cost > Nanos::ZERO) {
            let origin = key.map_or(&record.key, |key| &key.origin);
            let (of_key, is_capped) =
                (self.balances.of_origin(origin), key.is_some_and(|key| key.spend_cap.is_some()));
            let allowed = match reserved.caps.get_mut(origin) {
                Some(reserved) => reserved.pay(cost).charged,
                None if is_capped => of_key.pay(cost).charged,
                None => cost,
            };
            let Payment { charged, .. } = match reserved.accounts.get_mut(&record.account) {
                Some(reserved) => reserved.pay(allowed),
                None => self.balances.of_account(record.account).pay(allowed),
            };
            if is_capped || reserved.caps.contains_key(origin) {
                // What the account could not pay does not count as spent by the key.
                of_key.change(allowed + -charged);
            } else {
                of_key.record_payment(charged);
            }
            record.cost = Some(charged);
            record.overrun = record.overrun + cost + -charged;
        }
        let position = self.journal.close(&record);
        self.recorder.send(Box::new(record), position);
    }
}
