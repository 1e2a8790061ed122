//! The negative control: the reconciliation must reject data that was tampered with.
//!
//! Each kind of tampering leaves every balance equal to the sum of its entries, so that only a
//! comparison with the facts can detect it.

use std::fmt;
use std::path::Path;

use super::reconcile::{self, Evidence, LedgerSnapshot};
use super::rig::{operator, serve};
use crate::{Session, process};

/// A way to tamper with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tampering {
    /// None: the copy is unchanged.
    Nothing,
    /// A record is deleted.
    DropRecord,
    /// A record is duplicated under another id, with a charge.
    DoubleRecord,
    /// A charge is deleted.
    DropCharge,
    /// A request is charged twice.
    DoubleCharge,
    /// A record has one token more than was used.
    AddToken,
}

impl Tampering {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Nothing,
        Self::DropRecord,
        Self::DoubleRecord,
        Self::DropCharge,
        Self::DoubleCharge,
        Self::AddToken,
    ];

    /// Returns whether the number of differences is right: zero for an unchanged copy, otherwise at
    /// least one.
    pub fn is_seen_in(self, differences: usize) -> bool {
        (self == Self::Nothing) == (differences == 0)
    }

    /// Returns the SQL, after `victim` contains the id of one answered request.
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

impl fmt::Display for Tampering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::DropRecord => "a deleted record",
            Self::DoubleRecord => "a duplicated record",
            Self::DropCharge => "a deleted charge",
            Self::DoubleCharge => "a duplicated charge",
            Self::AddToken => "an additional token",
        })
    }
}

/// Tampers with a copy of the data in `data`, which a stopped gateway left, and returns the
/// differences that the reconciliation finds in the copy.
///
/// # Panics
/// If there is no data to tamper with.
pub(super) async fn tamper_with_copy(
    data: &Path,
    tampering: Tampering,
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
    database.execute_batch(tampering.sql()).unwrap();
    drop(database);

    let gateway = serve(process::command("gateway"), copy.path()).await;
    let member = Session::sign_in(&gateway.admin, account).await;
    let books = LedgerSnapshot::read(&member, &operator(&gateway, copy.path()).await).await;
    gateway.stop().await;
    // the gateway's own verification is not what is tested here
    let books = LedgerSnapshot { proof: Vec::new(), ..books };
    reconcile::reconcile(evidence, &books).differences
}
