//! Checks of the database and of the ledger.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Finding;
use crate::backups::{BackupStatus, Outcome};
use crate::control::{Caller, Control};
use domain::verification::Difference;
use store::StoreError;

/// The remedy for a database that cannot be written.
const DISK_FAULT_REMEDY: &str = "free space on the disk of the data directory, or repair it; the \
    waiting records are in the journal and are written then";
/// The maximum number of ledger differences with a separate finding.
const MAX_NAMED: usize = 5;

pub(super) async fn integrity(control: Arc<Control>) -> Vec<Finding> {
    let restore =
        "stop the gateway, keep a copy of the data directory, and restore the last backup";
    let damage = match control.store.check_integrity(control.clock.now()).await {
        Ok(damage) => damage,
        Err(StoreError::Disk { fault, .. }) => {
            let blocked = control.ledger.blocked_records();
            let text = format!("it cannot be written: {fault}; {blocked} request records wait");
            return vec![Finding::problem(text, DISK_FAULT_REMEDY)];
        }
        Err(error) => return vec![read_failure(&error)],
    };
    if damage.is_empty() {
        return vec![Finding::ok("it is whole and can be written")];
    }
    let found = |text| Finding::problem(format!("it is damaged: {text}"), restore);
    damage.into_iter().map(found).collect()
}

/// Reports the newest scheduled backup and the last failure.
pub(super) fn backups(status: &BackupStatus, now: Timestamp) -> Finding {
    let Outcome { newest, failure } = status.outcome();
    let newest_text = newest.map_or_else(
        || "there is no backup".to_owned(),
        |time| format!("the newest backup is of {time:.0}"),
    );
    if let Some(failure) = failure {
        let remedy = "make the directory writable and free space on its disk; the next attempt is within ten minutes";
        return Finding::problem(
            format!("the last backup failed: {failure}; {newest_text}"),
            remedy,
        );
    }
    let every = SignedDuration::try_from(status.settings().every).unwrap_or(SignedDuration::MAX);
    let overdue = newest.is_none_or(|newest| now.duration_since(newest) / 2 > every);
    if overdue {
        let remedy = "see the gateway's log; one is made within a minute of the start";
        return Finding::warning(format!("{newest_text}, which is overdue"), remedy);
    }
    Finding::ok(newest_text)
}

pub(super) async fn ledger(control: Arc<Control>, caller: Caller) -> Vec<Finding> {
    let verification = match control.verify_ledger(&caller).await {
        Ok(verification) => verification,
        Err(error) => return vec![read_failure(&error)],
    };
    let blocked = control.ledger.blocked_records();
    if verification.proof.is_consistent() && blocked == 0 {
        return vec![Finding::ok("balances, entries, charges and sums agree")];
    }
    if verification.proof.is_consistent() {
        let text = format!(
            "the stored ledger is consistent; balances include {blocked} request records that wait \
             to be written"
        );
        return vec![Finding::warning(text, HELD_UP_REMEDY)];
    }
    let named = verification.differences.iter().take(MAX_NAMED);
    named
        .map(|(difference, _)| Finding::problem(difference.to_string(), remedy(difference)))
        .collect()
}

/// The remedy for records that wait to be written.
const HELD_UP_REMEDY: &str = "make the database writable again: see the findings about its disk, \
    and the gateway's log; the records are in the journal and are written then";

fn remedy(difference: &Difference) -> &'static str {
    match difference {
        // The stored entries are authoritative, so they need no correction.
        Difference::Memory { .. } => {
            "restart the gateway: balances start from the stored entries; correct nothing"
        }
        Difference::Balance { .. }
        | Difference::Amount { .. }
        | Difference::Payer { .. }
        | Difference::Twice { .. }
        | Difference::Uncharged { .. }
        | Difference::Unrecorded { .. }
        | Difference::Sums { .. }
        | Difference::KeySums { .. }
        | Difference::KeyUse { .. }
        | Difference::Time { .. }
        | Difference::Unlisted { .. } => {
            "see all of it with `ctl ledger verify`, and correct balances with `ctl account credit`"
        }
    }
}

fn read_failure(error: &dyn std::error::Error) -> Finding {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    let remedy = "see the gateway's log, and whether its disk is full or read-only";
    Finding::problem(format!("it cannot be read: {error}{cause}"), remedy)
}
