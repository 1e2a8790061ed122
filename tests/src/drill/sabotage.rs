//! The negative control: books that were tampered with must not pass.
//!
//! Each act leaves balances the sums of their entries, so that only who knows what really happened can
//! see it.

use std::fmt;
use std::path::Path;

use super::reconcile::{self, Books, Evidence};
use super::rig::{operator, serve};
use crate::{Session, process};

/// A way to spoil the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// None: the copy is as good as what was copied.
    Nothing,
    /// A record is gone.
    DropRecord,
    /// A record is there a second time, paid for and under another id.
    DoubleRecord,
    /// A request was served for free.
    DropCharge,
    /// A request is paid for twice.
    DoubleCharge,
    /// A record has a token more than was used.
    AddToken,
}

impl Sabotage {
    /// Every way.
    pub const ALL: [Self; 6] = [
        Self::Nothing,
        Self::DropRecord,
        Self::DoubleRecord,
        Self::DropCharge,
        Self::DoubleCharge,
        Self::AddToken,
    ];

    /// Whether as many differences were found as should be: some, but none in an untouched copy.
    pub fn is_seen_in(self, differences: usize) -> bool {
        (self == Self::Nothing) == (differences == 0)
    }

    /// What is done, after `victim` names one request that was answered.
    fn sql(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::DropRecord => "DELETE FROM requests WHERE id IN (SELECT id FROM victim);",
            Self::DoubleRecord => {
                "CREATE TEMP TABLE double AS SELECT * FROM requests WHERE id IN (SELECT id FROM victim);
                UPDATE double SET seq = (SELECT max(seq) + 1 FROM requests), id = randomblob(16);
                INSERT INTO requests SELECT * FROM double;
                INSERT INTO request_runs SELECT account, seq, seq FROM double;
                INSERT INTO ledger_entries SELECT (SELECT max(seq) + 1 FROM ledger_entries),
                    account, -cost, 3, id, NULL, started_at FROM double;
                INSERT INTO entry_runs SELECT account, seq, seq FROM ledger_entries ORDER BY seq DESC LIMIT 1;
                UPDATE balances SET amount = amount - (SELECT cost FROM double)
                    WHERE account IN (SELECT account FROM victim);"
            }
            Self::DropCharge => {
                "DELETE FROM ledger_entries WHERE request IN (SELECT id FROM victim);
                UPDATE balances SET amount = amount + (SELECT cost FROM victim)
                    WHERE account IN (SELECT account FROM victim);"
            }
            Self::DoubleCharge => {
                "INSERT INTO ledger_entries SELECT (SELECT max(seq) + 1 FROM ledger_entries),
                    account, -cost, 3, id, NULL, started_at FROM victim;
                INSERT INTO entry_runs SELECT account, seq, seq FROM ledger_entries ORDER BY seq DESC LIMIT 1;
                UPDATE balances SET amount = amount - (SELECT cost FROM victim)
                    WHERE account IN (SELECT account FROM victim);"
            }
            Self::AddToken => {
                "UPDATE requests SET output = output + 1 WHERE id IN (SELECT id FROM victim);"
            }
        }
    }
}

impl fmt::Display for Sabotage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::DropRecord => "a record that is gone",
            Self::DoubleRecord => "a record that is there twice",
            Self::DropCharge => "a charge that is gone",
            Self::DoubleCharge => "a charge that is there twice",
            Self::AddToken => "a token too many",
        })
    }
}

/// Spoils a copy of the books in `data`, which a gateway left, and returns what the reconciliation
/// finds in the copy.
///
/// # Panics
/// There is nothing to spoil.
pub(super) async fn spoil(
    data: &Path,
    sabotage: Sabotage,
    account: &str,
    evidence: &Evidence,
) -> Vec<String> {
    let copy = tempfile::tempdir().unwrap();
    for file in ["tollgate.db", "seal.key", "operator.token"] {
        std::fs::copy(data.join(file), copy.path().join(file)).unwrap();
    }
    let database = rusqlite::Connection::open(copy.path().join("tollgate.db")).unwrap();
    let victim = "CREATE TEMP TABLE victim AS SELECT id, account, cost, started_at FROM requests
        WHERE status = 1 AND cost > 0 AND account = (SELECT id FROM accounts WHERE name = ?) LIMIT 1";
    database.execute(victim, [account]).unwrap();
    database.execute_batch(sabotage.sql()).unwrap();
    drop(database);

    let gateway = serve(process::command("gateway"), copy.path()).await;
    let member = Session::sign_in(&gateway.admin, account).await;
    let books = Books::read(&member, &operator(&gateway, copy.path()).await).await;
    gateway.stop().await;
    // what the gateway finds itself is not what is tried here
    let books = Books { proof: Vec::new(), ..books };
    reconcile::reconcile(evidence, &books).differences
}
