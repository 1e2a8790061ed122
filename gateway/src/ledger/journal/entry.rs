//! Journal entries: open requests, and the records of closed ones.

use std::num::NonZeroU32;
use std::time::Duration;

use bytes::{Buf, BufMut};
use jiff::Timestamp;

use super::fields::{
    DecodeError, put_price, put_record, take_count, take_digest, take_price, take_record,
};
use domain::price::Price;
use domain::record::{RequestRecord, RequestStatus};
use domain::usage::{Usage, UsageBasis};

const OPEN: u8 = 1;
const CLOSED: u8 = 2;
/// A flag of the entry kind: the request's idempotency digest follows.
const KEYED: u8 = 0x10;
/// A flag of the entry kind: the number of requests that the record stands for follows, because it is more
/// than one.
const COUNTED: u8 = 0x20;

/// A request in progress, with everything necessary to record and charge it if it is never closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournaledRequest {
    /// The record so far. Its status is the one it gets if the process crashes.
    pub record: RequestRecord,
    /// The price that it is charged at.
    pub price: Price,
    /// The length of the text that was sent upstream, in bytes.
    pub input_bytes: u64,
    /// The length of the text received so far, in bytes.
    pub output_bytes: u64,
}

/// A journal entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JournalEntry {
    /// An open request; replaces earlier entries of the same request.
    Open(Box<JournaledRequest>),
    Closed(Box<RequestRecord>),
}

impl JournaledRequest {
    /// Returns the record of a request that was open when the process died at `died_at`: charged by
    /// [`Usage::bounded`] for what was sent and received.
    pub(super) fn into_record(self, died_at: Option<Timestamp>) -> RequestRecord {
        let Self { mut record, price, input_bytes, output_bytes } = self;
        let usage = Usage::bounded(input_bytes, output_bytes);
        record.usage = Some(usage);
        record.basis = UsageBasis::Bounded;
        record.cost = Some(price.cost(&usage));
        if let (RequestStatus::Interrupted, Some(died_at)) = (record.status, died_at) {
            let lasted = died_at.duration_since(record.started_at);
            record.duration = Duration::try_from(lasted).unwrap_or_default();
        }
        record
    }
}

/// Appends the entry of an open request.
pub(super) fn put_open(open: &JournaledRequest, out: &mut Vec<u8>) {
    let JournaledRequest { record, price, input_bytes, output_bytes } = open;
    put_kind(OPEN, record, out);
    put_record(record, out);
    put_price(price, out);
    out.put_u64(*input_bytes);
    out.put_u64(*output_bytes);
}

/// Appends the entry of a closed request.
pub(super) fn put_closed(record: &RequestRecord, out: &mut Vec<u8>) {
    put_kind(CLOSED, record, out);
    put_record(record, out);
}

/// Appends the kind of the entry. Few records have an idempotency key or stand for more than one request, so
/// these fields are optional.
fn put_kind(kind: u8, record: &RequestRecord, out: &mut Vec<u8>) {
    let keyed = if record.idempotency.is_some() { KEYED } else { 0 };
    let counted = if record.count > NonZeroU32::MIN { COUNTED } else { 0 };
    out.put_u8(kind | keyed | counted);
    if let Some(digest) = &record.idempotency {
        out.put_slice(&digest.0);
    }
    if counted != 0 {
        out.put_u32(record.count.get());
    }
}

/// Reads an entry, which must be all of `from`.
pub(super) fn read(mut from: &[u8]) -> Result<JournalEntry, DecodeError> {
    let from = &mut from;
    let kind = from.try_get_u8()?;
    let idempotency = (kind & KEYED != 0).then(|| take_digest(from)).transpose()?;
    let count = (kind & COUNTED != 0).then(|| take_count(from)).transpose()?;
    let count = count.unwrap_or(NonZeroU32::MIN);
    let mut entry = match kind & !(KEYED | COUNTED) {
        OPEN => JournalEntry::Open(Box::new(JournaledRequest {
            record: take_record(from)?,
            price: take_price(from)?,
            input_bytes: from.try_get_u64()?,
            output_bytes: from.try_get_u64()?,
        })),
        CLOSED => JournalEntry::Closed(Box::new(take_record(from)?)),
        _ => return Err(DecodeError::Unknown(kind)),
    };
    let record = match &mut entry {
        JournalEntry::Open(open) => &mut open.record,
        JournalEntry::Closed(record) => record,
    };
    (record.idempotency, record.count) = (idempotency, count);
    if from.is_empty() { Ok(entry) } else { Err(DecodeError::Long) }
}
