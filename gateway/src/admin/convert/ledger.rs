//! Converts ledger entries and the result of a ledger verification to messages.

use proto::v1;

use super::time;
use crate::control::ledger::{EntryView, LedgerVerification};
use domain::ledger::EntryKind;
use domain::verification::Difference;

pub(in super::super) fn entry(view: EntryView) -> v1::LedgerEntry {
    let EntryView { cursor, entry, account } = view;
    let (kind, request_id, note) = match entry.kind {
        EntryKind::Trial => (v1::EntryKind::Trial, None, None),
        EntryKind::Credit(note) => (v1::EntryKind::Credit, None, Some(note)),
        EntryKind::Charge(request) => (v1::EntryKind::Charge, Some(request.to_string()), None),
        EntryKind::Correction(note) => (v1::EntryKind::Correction, None, Some(note)),
        EntryKind::Overrun(request) => (v1::EntryKind::Overrun, Some(request.to_string()), None),
    };
    v1::LedgerEntry {
        number: cursor.0.unsigned_abs(),
        account,
        kind: kind.into(),
        amount_usd: entry.amount.to_string(),
        request_id,
        note,
        created_at: Some(time(entry.at)),
    }
}

pub(in super::super) fn verdict(verdict: LedgerVerification) -> v1::VerifyLedgerResponse {
    let LedgerVerification { proof, under_way, differences } = verdict;
    v1::VerifyLedgerResponse {
        ok: proof.is_consistent(),
        balances: proof.balances.len() as u64,
        entries: proof.entries,
        charges: proof.charges,
        requests: proof.requests,
        sums: proof.sums,
        under_way,
        differences_found: proof.found,
        differences: differences.into_iter().map(difference).collect(),
    }
}

fn difference((difference, account): (Difference, Option<String>)) -> v1::LedgerDifference {
    let kind = match &difference {
        Difference::Balance { .. } => v1::DifferenceKind::Balance,
        Difference::Memory { .. } => v1::DifferenceKind::Memory,
        Difference::Amount { .. } | Difference::Payer { .. } => v1::DifferenceKind::Charge,
        Difference::Twice { .. } => v1::DifferenceKind::Twice,
        Difference::Uncharged { .. } => v1::DifferenceKind::Uncharged,
        Difference::Unrecorded { .. } => v1::DifferenceKind::Unrecorded,
        Difference::Sums { .. } | Difference::KeySums { .. } | Difference::KeyUse { .. } => {
            v1::DifferenceKind::Sums
        }
        Difference::Time { .. } => v1::DifferenceKind::Time,
        Difference::Unlisted { .. } => v1::DifferenceKind::Unlisted,
    };
    v1::LedgerDifference {
        kind: kind.into(),
        account,
        request_id: difference.request().map(|request| request.to_string()),
        text: difference.to_string(),
    }
}
