//! The database and the ledger in it.

use std::sync::Arc;

use super::Finding;
use crate::control::{Caller, Control};

/// Differences of the ledger that are named one by one.
const MOST_NAMED: usize = 5;

pub(super) async fn integrity(control: Arc<Control>) -> Vec<Finding> {
    let restore =
        "stop the gateway, keep a copy of the data directory, and restore the last backup";
    let damage = match control.store.examine(control.clock.now()).await {
        Ok(damage) => damage,
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
    if verdict.proof.holds() {
        return vec![Finding::ok("balances, entries, charges and sums agree")];
    }
    let remedy =
        "see all of it with `ctl ledger verify`, and correct balances with `ctl account credit`";
    let named = verdict.differences.iter().take(MOST_NAMED);
    named.map(|(difference, _)| Finding::problem(difference.to_string(), remedy)).collect()
}

fn unanswered(error: &dyn std::error::Error) -> Finding {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    let remedy = "see the gateway's log, and whether its disk is full or read-only";
    Finding::problem(format!("it did not answer: {error}{cause}"), remedy)
}
