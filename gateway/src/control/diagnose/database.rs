//! The database and the ledger in it.

use std::sync::Arc;

use super::Finding;
use crate::control::{Caller, Control};
use domain::proof::Difference;
use store::StoreError;

const MAKE_ROOM: &str = "make room on the disk of the data directory, or mend it; what waits is in the journal, \
    and is written then";
/// Differences of the ledger that are named one by one.
const MAX_NAMED: usize = 5;

pub(super) async fn integrity(control: Arc<Control>) -> Vec<Finding> {
    let restore =
        "stop the gateway, keep a copy of the data directory, and restore the last backup";
    let damage = match control.store.examine(control.clock.now()).await {
        Ok(damage) => damage,
        Err(StoreError::Disk { fault, .. }) => {
            let held_up = control.ledger.records_held_up();
            let text = format!("it cannot be written: {fault}; {held_up} request records wait");
            return vec![Finding::problem(text, MAKE_ROOM)];
        }
        Err(error) => return vec![unanswered(&error)],
    };
    if damage.is_empty() {
        return vec![Finding::ok("it is whole and can be written")];
    }
    let found = |text| Finding::problem(format!("it is damaged: {text}"), restore);
    damage.into_iter().map(found).collect()
}

pub(super) async fn ledger(control: Arc<Control>, caller: Caller) -> Vec<Finding> {
    let verdict = match control.verify_ledger(&caller).await {
        Ok(verdict) => verdict,
        Err(error) => return vec![unanswered(&error)],
    };
    let held_up = control.ledger.records_held_up();
    if verdict.proof.holds() && held_up == 0 {
        return vec![Finding::ok("balances, entries, charges and sums agree")];
    }
    if verdict.proof.holds() {
        let text = format!(
            "what is stored adds up, and balances count the {held_up} request records that wait to be written"
        );
        return vec![Finding::warning(text, HELD_UP)];
    }
    let named = verdict.differences.iter().take(MAX_NAMED);
    named
        .map(|(difference, _)| Finding::problem(difference.to_string(), remedy(difference)))
        .collect()
}

/// What to do about records that wait.
const HELD_UP: &str = "let the database be written again: see the findings on its disk, and the gateway's \
    log; the records are in the journal, and are written then";

fn remedy(difference: &Difference) -> &'static str {
    match difference {
        // the stored entries are what counts, so nothing must be corrected in them
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
        | Difference::Time { .. }
        | Difference::Unlisted { .. } => {
            "see all of it with `ctl ledger verify`, and correct balances with `ctl account credit`"
        }
    }
}

fn unanswered(error: &dyn std::error::Error) -> Finding {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    let remedy = "see the gateway's log, and whether its disk is full or read-only";
    Finding::problem(format!("it did not answer: {error}{cause}"), remedy)
}
