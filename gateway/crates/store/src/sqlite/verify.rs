//! Verification of the ledger: recomputes balances, charges and sums in one read transaction.
//!
//! Each table is read once, in its own order. Sums are compared by their fingerprints.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use rusqlite::{Connection, Row, Transaction};

use super::cancel::CancelHandle;
use super::codec::ReadColumn;
use super::commit;
use super::fingerprint::{Scope, bytes, fingerprint};
use super::key_use_check::KeyUseCheck;
use super::saturated_sums::SaturatedSums;
use super::spans::{self, RowRange, SpanIndex};
use crate::StoreError;
use crate::codes::EntryCode;
use crate::summary::{DAY, HOUR};
use domain::id::{AccountId, RequestId};
use domain::ledger::HOUSE;
use domain::money::Nanos;
use domain::verification::{Difference, VerificationReport};

/// The requests that have a ledger entry, by log position.
struct BookedRequests {
    /// With a charge.
    charged: Positions,
    /// With an overrun.
    overrun: Positions,
}

/// A bitmap of log positions.
struct Positions {
    first: i64,
    bits: Vec<u64>,
}

/// Checks that rows, visited in order, are in the spans of their accounts.
struct SpanCheck<'a> {
    spans: &'a SpanIndex,
    /// The span of the previous row.
    span: Option<(AccountId, RowRange)>,
}

/// The differences between sums and their parts. All are zero at the end if the ledger is
/// consistent.
#[derive(Default)]
struct SumDifferences {
    /// By hour: the fingerprint of its sums minus those of its records.
    hours: BTreeMap<i64, u64>,
    /// By day: the fingerprint of its keys' sums minus those of its hours.
    days: BTreeMap<i64, u64>,
    /// The sums that fingerprints cannot verify.
    saturated: SaturatedSums,
}

/// Verifies the ledger.
pub(super) fn verify(
    source: &mut Connection,
    cancel: &CancelHandle,
) -> Result<VerificationReport, StoreError> {
    let tx = source.transaction()?;
    let mut report = VerificationReport::default();
    let mut booked =
        BookedRequests { charged: Positions::over(&tx)?, overrun: Positions::over(&tx)? };
    let without_record = check_entries(&tx, cancel, &mut booked, &mut report)?;
    let mut sums =
        SumDifferences { saturated: SaturatedSums::find(&tx)?, ..SumDifferences::default() };
    check_requests(&tx, cancel, &booked, &mut sums, &mut report)?;
    let mut key_use = KeyUseCheck::read(&tx)?;
    add_sums(&tx, cancel, &mut sums, &mut key_use, &mut report)?;
    let deleted = subtract_deleted(&tx, cancel, &mut sums)?;
    for hour in differing(&sums.hours, sums.saturated.wrong_hours(), HOUR) {
        report.add(Difference::Sums { hour });
    }
    for day in differing(&sums.days, sums.saturated.wrong_days(), DAY) {
        report.add(Difference::KeySums { day });
    }
    key_use.finish(&mut report);
    check_charges_without_record(&without_record, &deleted, &mut report);
    Ok(report)
}

/// Adds up each account's entries and finds the record of each charge and overrun. Returns each
/// account's charges for requests without a record.
fn check_entries(
    tx: &Transaction<'_>,
    cancel: &CancelHandle,
    booked: &mut BookedRequests,
    report: &mut VerificationReport,
) -> Result<HashMap<AccountId, i128>, StoreError> {
    let mut balances = HashMap::<AccountId, Nanos>::new();
    let mut without_record = HashMap::<AccountId, i128>::new();
    let sql = "SELECT e.account, e.amount, e.kind, e.request, r.seq, r.account, r.cost, e.seq, \
        ifnull(r.overrun, 0) FROM ledger_entries e LEFT JOIN requests r ON r.id = e.request ORDER BY e.seq";
    let mut span_check = SpanCheck { spans: &spans::ENTRY_SPANS, span: None };
    let mut select = tx.prepare(sql)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        cancel.check()?;
        report.entries += 1;
        let (account, amount): (AccountId, Nanos) = (row.column(0)?, row.column(1)?);
        if !span_check.holds(tx, account, row.column(7)?)? {
            report.add(Difference::Unlisted { account });
        }
        let balance = balances.entry(account).or_default();
        *balance = balance.saturating_add(amount);
        let code = row.column::<EntryCode>(2)?;
        if code == EntryCode::Charge {
            report.charges += 1;
        } else if code != EntryCode::Overrun {
            continue;
        }
        let request: RequestId = row.column(3)?;
        let Some(seq) = row.column::<Option<i64>>(4)? else {
            // The costs of deleted records are known, their overruns are not.
            if code == EntryCode::Charge {
                *without_record.entry(account).or_default() -= i128::from(amount.0);
            }
            continue;
        };
        let (payer, cost, positions): (_, Option<Nanos>, _) = match code {
            EntryCode::Charge => (row.column(5)?, row.column(6)?, &mut booked.charged),
            _ => (HOUSE, row.column(8)?, &mut booked.overrun),
        };
        if payer != account {
            report.add(Difference::Payer { request, account });
        }
        if cost != Some(-amount) {
            report.add(Difference::Amount { request, cost, charged: -amount });
        }
        if positions.mark(seq) {
            report.add(Difference::Twice { request });
        }
    }
    drop(rows);
    report.balances = commit::balances(tx)?;
    for (account, stored) in report.balances.clone() {
        let entries = balances.remove(&account).unwrap_or_default();
        if entries != stored {
            report.add(Difference::Balance { account, stored, entries });
        }
    }
    for (account, entries) in balances {
        report.add(Difference::Balance { account, stored: Nanos::ZERO, entries });
    }
    Ok(without_record)
}

/// Checks that the cost and the overrun of each request were booked, and that it is found by its
/// time and account.
fn check_requests(
    tx: &Transaction<'_>,
    cancel: &CancelHandle,
    booked: &BookedRequests,
    sums: &mut SumDifferences,
    report: &mut VerificationReport,
) -> Result<(), StoreError> {
    let mut hours = HashMap::new();
    let mut select = tx.prepare("SELECT hour, first, last FROM request_hours")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        hours.insert(row.column::<i64>(0)?, (row.column::<i64>(1)?, row.column::<i64>(2)?));
    }
    let mut span_check = SpanCheck { spans: &spans::REQUEST_SPANS, span: None };
    let sql = "SELECT account, started_at, key, ifnull(model, 0), status, ifnull(count, 1), ifnull(input, 0), \
        ifnull(cached, 0), ifnull(output, 0), ifnull(reasoning, 0), ifnull(cost, 0), seq, id, \
        ifnull(overrun, 0) FROM requests ORDER BY seq";
    let mut select = tx.prepare(sql)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        cancel.check()?;
        report.requests += 1;
        let hour = row.column::<i64>(1)?.div_euclid(HOUR);
        let (cost, seq) = (row.column::<Nanos>(10)?, row.column::<i64>(11)?);
        for (cost, booked) in [(cost, &booked.charged), (row.column(13)?, &booked.overrun)] {
            if cost != Nanos::ZERO && !booked.has(seq) {
                report.add(Difference::Uncharged { request: row.column(12)?, cost });
            }
        }
        if !hours.get(&hour).is_some_and(|(first, last)| (first..=last).contains(&&seq)) {
            report.add(Difference::Time { request: row.column(12)? });
        }
        let account = row.column(0)?;
        if !span_check.holds(tx, account, seq)? {
            report.add(Difference::Unlisted { account });
        }
        // A record counts in its key's sums and in the sums over all accounts.
        let SumDifferences { hours, saturated, .. } = &mut *sums;
        let rest = hours.entry(hour).or_default();
        for of in [Scope::Key, Scope::AllAccounts] {
            let fingerprint = fingerprint(row, of, |group, column, number| {
                saturated.add_to_hour((hour, group, column), number)
            });
            *rest = rest.wrapping_sub(fingerprint?);
        }
    }
    Ok(())
}

fn add_sums(
    tx: &Transaction<'_>,
    cancel: &CancelHandle,
    sums: &mut SumDifferences,
    key_use: &mut KeyUseCheck,
    report: &mut VerificationReport,
) -> Result<(), StoreError> {
    let mut select = tx.prepare("SELECT * FROM request_sums")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        cancel.check()?;
        report.sums += 1;
        let hour = row.column::<i64>(1)?;
        let SumDifferences { hours, days, saturated } = &mut *sums;
        let of_hour = fingerprint(row, Scope::Key, |group, column, _| {
            saturated.has_hour((hour, group, column))
        });
        let rest = hours.entry(hour).or_default();
        *rest = rest.wrapping_add(of_hour?);
        if !is_over_all_accounts(row)? {
            let day = hour.div_euclid(24);
            let part_of_day = fingerprint(row, Scope::Key, |group, column, number| {
                saturated.add_to_day((day, group, column), number)
            });
            let rest = days.entry(day).or_default();
            *rest = rest.wrapping_sub(part_of_day?);
        }
    }
    drop(rows);
    let days = "SELECT account, day, key, model, status, requests, input, cached, output, reasoning, cost \
        FROM key_days";
    let mut select = tx.prepare(days)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        cancel.check()?;
        report.sums += 1;
        key_use.add_day(row)?;
        let day = row.column(1)?;
        let SumDifferences { days, saturated, .. } = &mut *sums;
        let of_day = fingerprint(row, Scope::Key, |group, column, _| {
            saturated.has_day((day, group, column))
        });
        let rest = days.entry(day).or_default();
        *rest = rest.wrapping_add(of_day?);
    }
    Ok(())
}

/// Subtracts the sums of deleted records. Returns the cost of the deleted records of each account.
fn subtract_deleted(
    tx: &Transaction<'_>,
    cancel: &CancelHandle,
    sums: &mut SumDifferences,
) -> Result<HashMap<AccountId, i128>, StoreError> {
    let mut deleted = HashMap::<AccountId, i128>::new();
    let mut select = tx.prepare("SELECT * FROM forgotten_sums")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        cancel.check()?;
        let hour = row.column(1)?;
        let SumDifferences { hours, saturated, .. } = &mut *sums;
        let fingerprint = fingerprint(row, Scope::Key, |group, column, number| {
            saturated.add_to_hour((hour, group, column), number)
        });
        let rest = hours.entry(hour).or_default();
        *rest = rest.wrapping_sub(fingerprint?);
        if !is_over_all_accounts(row)? {
            *deleted.entry(row.column(0)?).or_default() += i128::from(row.column::<Nanos>(10)?.0);
        }
    }
    Ok(deleted)
}

fn check_charges_without_record(
    without_record: &HashMap<AccountId, i128>,
    deleted: &HashMap<AccountId, i128>,
    report: &mut VerificationReport,
) {
    let mut accounts: Vec<_> = without_record.keys().chain(deleted.keys()).copied().collect();
    accounts.sort_unstable();
    accounts.dedup();
    for account in accounts {
        let of = |sums: &HashMap<AccountId, i128>| sums.get(&account).copied().unwrap_or_default();
        if of(without_record) != of(deleted) {
            let (charged, deleted) = (clamped(of(without_record)), clamped(of(deleted)));
            report.add(Difference::Unrecorded { account, charged, removed: deleted });
        }
    }
}

/// Returns the start times of periods whose sums differ, and of those in `wrong`; `unit` is their
/// length.
fn differing(
    rests: &BTreeMap<i64, u64>,
    wrong: impl Iterator<Item = i64>,
    unit: i64,
) -> impl Iterator<Item = Timestamp> {
    let numbers = rests.iter().filter(|(_, rest)| **rest != 0).map(|(number, _)| *number);
    let numbers: BTreeSet<_> = numbers.chain(wrong).collect();
    numbers.into_iter().map(move |number| {
        Timestamp::from_microsecond(number.saturating_mul(unit)).unwrap_or_default()
    })
}

/// Returns whether a row is a sum over all accounts, whose account column is empty.
fn is_over_all_accounts(row: &Row<'_>) -> Result<bool, StoreError> {
    Ok(bytes(row, 0)?.is_empty())
}

fn clamped(sum: i128) -> Nanos {
    let end = if sum < 0 { i64::MIN } else { i64::MAX };
    Nanos(i64::try_from(sum).unwrap_or(end))
}

// === impl SpanCheck ===

impl SpanCheck<'_> {
    fn holds(
        &mut self,
        tx: &Transaction<'_>,
        account: AccountId,
        seq: i64,
    ) -> Result<bool, StoreError> {
        let is_the_same = |(owner, (first, last)): &(AccountId, RowRange)| {
            *owner == account && (*first..=*last).contains(&seq)
        };
        if !self.span.as_ref().is_some_and(is_the_same) {
            self.span = self.spans.find(tx, account, seq)?.map(|ends| (account, ends));
        }
        Ok(self.span.is_some())
    }
}

// === impl Positions ===

impl Positions {
    fn over(tx: &Transaction<'_>) -> Result<Self, StoreError> {
        let ends = "SELECT coalesce((SELECT min(seq) FROM requests), 1), \
            coalesce((SELECT max(seq) FROM requests), 0)";
        let (first, last): (i64, i64) =
            tx.query_row(ends, [], |row| Ok((row.column(0)?, row.column(1)?)))?;
        let words = usize::try_from((last - first) / 64 + 1).unwrap_or_default();
        Ok(Self { first, bits: vec![0; words] })
    }

    /// Marks a position and returns whether it was marked before.
    fn mark(&mut self, seq: i64) -> bool {
        let (word, bit) = self.bit_position(seq);
        let Some(bits) = self.bits.get_mut(word) else { return false };
        let before = *bits & bit != 0;
        *bits |= bit;
        before
    }

    fn has(&self, seq: i64) -> bool {
        let (word, bit) = self.bit_position(seq);
        self.bits.get(word).is_some_and(|bits| bits & bit != 0)
    }

    fn bit_position(&self, seq: i64) -> (usize, u64) {
        let bit_position = seq - self.first;
        (usize::try_from(bit_position / 64).unwrap_or(usize::MAX), 1 << (bit_position % 64))
    }
}
