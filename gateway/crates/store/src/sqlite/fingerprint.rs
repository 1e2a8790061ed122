//! Additive fingerprints of rows with sums.
//!
//! A row consists of an account, an hour or day, a key, a model, a status and six numbers. Account,
//! key, model and status are its group. Its fingerprint is the weighted sum of its numbers times a
//! hash of its group, modulo 2⁶⁴. The rows of an hour or a day and the parts that they sum therefore
//! have the same total of fingerprints, which is compared without all groups in memory. Different
//! rows have the same total with negligible probability.

use std::hash::{DefaultHasher, Hash, Hasher};

use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::codec::ReadColumn;
use crate::StoreError;

/// The number columns: requests, four token counts, cost.
pub(super) const NUMBERS: std::ops::Range<usize> = 5..11;

/// Odd constants without a pattern, one per number column.
const WEIGHTS: [u64; 6] = [
    0x9e37_79b9_7f4a_7c15,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
    0xd6e8_feb8_6659_fd93,
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
];

/// The group that a fingerprint distinguishes besides the status.
#[derive(Clone, Copy)]
pub(super) enum Scope {
    /// Account, key and model.
    Key,
    /// The model only.
    AllAccounts,
}

/// Returns the numbers of a row times a hash of its group, except those for which `is_left_out`
/// returns true.
pub(super) fn fingerprint(
    row: &Row<'_>,
    of: Scope,
    mut is_left_out: impl FnMut(u64, usize, i64) -> bool,
) -> Result<u64, StoreError> {
    let group = group(row, of)?;
    let mut sum = 0_u64;
    for (column, weight) in NUMBERS.zip(WEIGHTS) {
        let number = number(row, column)?;
        if !is_left_out(group, column, number) {
            sum = sum.wrapping_add(number.cast_unsigned().wrapping_mul(weight));
        }
    }
    Ok(group.wrapping_mul(sum))
}

/// Returns a number of a row.
pub(super) fn number(row: &Row<'_>, column: usize) -> Result<i64, StoreError> {
    Ok(row.column(column)?)
}

/// Returns the hash of a row's group.
pub(super) fn group(row: &Row<'_>, of: Scope) -> Result<u64, StoreError> {
    let mut hasher = DefaultHasher::new();
    if let Scope::AllAccounts = of {
        (&[0_u8; 0][..], &[0_u8; 0][..]).hash(&mut hasher);
    } else {
        bytes(row, 0)?.hash(&mut hasher);
        bytes(row, 2)?.hash(&mut hasher);
    }
    match row.get_ref(3)? {
        ValueRef::Text(model) => (true, model).hash(&mut hasher),
        _ => false.hash(&mut hasher),
    }
    row.column::<i64>(4)?.hash(&mut hasher);
    // The hash is odd, hence invertible: no number vanishes in the product.
    Ok(hasher.finish() | 1)
}

/// Returns the bytes of a text or blob.
pub(super) fn bytes<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a [u8], StoreError> {
    let value = row.get_ref(column)?;
    Ok(value.as_bytes().map_err(rusqlite::Error::from)?)
}
