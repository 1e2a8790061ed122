//! Verification of what each key has used against the sums by day.

use std::collections::HashMap;

use rusqlite::{Connection, Row};

use super::codec::ReadColumn;
use crate::StoreError;
use crate::codec::Count;
use crate::summary::{DAY, day_of};
use domain::id::KeyId;
use domain::money::Nanos;
use domain::month::month_start;
use domain::verification::{Difference, VerificationReport};

/// What keys have used, as stored and as added up.
#[derive(Default)]
pub(super) struct KeyUseCheck(HashMap<KeyId, Stored>);

struct Stored {
    /// The first day of the month of the tokens.
    month: i64,
    tokens: u64,
    spent: Nanos,
    /// The newest day with requests.
    last_day: Option<i64>,
    summed_tokens: u64,
    summed_cost: Nanos,
}

impl KeyUseCheck {
    /// Reads what is stored.
    pub(super) fn read(tx: &Connection) -> Result<Self, StoreError> {
        let mut select = tx.prepare("SELECT id, used_month, used_tokens, spent FROM keys")?;
        let stored = select.query_map([], |row| {
            let stored = Stored {
                month: row.column(1)?,
                tokens: row.column::<Count>(2)?.0,
                spent: row.column(3)?,
                last_day: None,
                summed_tokens: 0,
                summed_cost: Nanos::ZERO,
            };
            Ok((row.column(0)?, stored))
        });
        Ok(Self(stored?.collect::<Result<_, _>>()?))
    }

    /// Adds a row of sums by day, whose columns are those of a fingerprint.
    pub(super) fn add_day(&mut self, row: &Row<'_>) -> Result<(), StoreError> {
        let Some(sum) = self.0.get_mut(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?)
        else {
            return Ok(());
        };
        let day = row.column::<i64>(1)?;
        sum.last_day = sum.last_day.max(Some(day));
        sum.summed_cost = sum.summed_cost.saturating_add(row.column(10)?);
        if day >= sum.month {
            let (input, output) = (row.column::<Count>(6)?.0, row.column::<Count>(8)?.0);
            let tokens = input.saturating_add(output);
            sum.summed_tokens = sum.summed_tokens.saturating_add(tokens);
        }
        Ok(())
    }

    /// Reports the keys with differences.
    pub(super) fn finish(self, report: &mut VerificationReport) {
        for (key, sum) in self.0 {
            // A stored sum saturates at the largest number of SQLite.
            let tokens = sum.summed_tokens.min(i64::MAX.unsigned_abs());
            if (sum.month, sum.tokens, sum.spent) != (sum.last_month(), tokens, sum.summed_cost) {
                report.add(Difference::KeyUse { key });
            }
        }
    }
}

impl Stored {
    /// Returns the first day of the month with the newest requests; zero without requests.
    fn last_month(&self) -> i64 {
        let start = |day: i64| jiff::Timestamp::from_microsecond(day.saturating_mul(DAY)).ok();
        self.last_day.and_then(start).map_or(0, |start| day_of(month_start(start)))
    }
}
