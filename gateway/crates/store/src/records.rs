//! Reads request records, ledger entries, audit entries and responses from rows, whatever the
//! backend. Columns are read by their numbers, in the order of the lists here.

use std::num::NonZeroU32;

use crate::Cursor;
use crate::codec::{At, List, Micros};
use crate::codes::EntryCode;
use crate::objects::ReadRow;
use domain::audit::AuditEntry;
use domain::id::RequestId;
use domain::idempotency::IdempotencyDigest;
use domain::ledger::{Entry, EntryKind};
use domain::money::Nanos;
use domain::record::{RequestRecord, ServedBy};
use domain::response::StoredResponse;
use domain::usage::Usage;

/// The columns of a request record.
pub(crate) const REQUEST: &str = "seq, id, account, key, started_at, duration, ttft, endpoint, \
    stream, status, http_status, basis, input, cached, output, reasoning, cost, price_version, \
    model, upstream, upstream_model, error_code, notes, overrun, idempotency, count";

/// The columns of a ledger entry.
pub(crate) const ENTRY: &str = "seq, account, amount, kind, request, note, at";

/// The columns of an audit entry.
pub(crate) const AUDIT: &str = "seq, at, actor, action, object, account, details, address";

/// The columns of a response.
pub(crate) const RESPONSE: &str = "id, account, previous, created_at, input, object";

/// Reads the columns [`REQUEST`].
pub(crate) fn request<R: ReadRow>(row: &R) -> Result<(Cursor, RequestRecord), R::Error> {
    let usage = match row.at(12)? {
        None => None,
        Some(input) => {
            Some(Usage { input, cached: row.at(13)?, output: row.at(14)?, reasoning: row.at(15)? })
        }
    };
    let deployment = match row.at(19)? {
        None => None,
        Some(upstream) => Some(ServedBy { upstream, upstream_model: row.at(20)? }),
    };
    let record = RequestRecord {
        id: row.at(1)?,
        account: row.at(2)?,
        key: row.at(3)?,
        started_at: row.at::<At>(4)?.0,
        duration: row.at::<Micros>(5)?.0,
        ttft: row.at::<Option<Micros>>(6)?.map(|micros| micros.0),
        endpoint: row.at(7)?,
        stream: row.at(8)?,
        status: row.at(9)?,
        http_status: row.at(10)?,
        basis: row.at(11)?,
        usage,
        cost: row.at(16)?,
        overrun: row.at::<Option<Nanos>>(23)?.unwrap_or_default(),
        price_version: row.at(17)?,
        model: row.at(18)?,
        deployment,
        error_code: row.at(21)?,
        notes: row.at::<Option<List>>(22)?.map_or_else(Vec::new, |notes| notes.0),
        idempotency: row.at::<Option<_>>(24)?.map(IdempotencyDigest),
        count: row.at::<Option<NonZeroU32>>(25)?.unwrap_or(NonZeroU32::MIN),
        trace: None,
    };
    Ok((Cursor(row.at(0)?), record))
}

/// Reads the columns [`ENTRY`].
pub(crate) fn entry<R: ReadRow>(row: &R) -> Result<(Cursor, Entry), R::Error> {
    let note = || Ok::<_, R::Error>(row.at::<Option<String>>(5)?.unwrap_or_default());
    let kind = match row.at(3)? {
        EntryCode::Trial => EntryKind::Trial,
        EntryCode::Credit => EntryKind::Credit(note()?),
        EntryCode::Charge => EntryKind::Charge(row.at(4)?),
        EntryCode::Correction => EntryKind::Correction(note()?),
        EntryCode::Overrun => EntryKind::Overrun(row.at(4)?),
    };
    let entry = Entry { account: row.at(1)?, amount: row.at(2)?, kind, at: row.at::<At>(6)?.0 };
    Ok((Cursor(row.at(0)?), entry))
}

/// Returns the columns `kind`, `request` and `note` of a ledger entry.
pub(crate) fn entry_columns(kind: &EntryKind) -> (EntryCode, Option<RequestId>, Option<&str>) {
    match kind {
        EntryKind::Trial => (EntryCode::Trial, None, None),
        EntryKind::Credit(note) => (EntryCode::Credit, None, Some(note)),
        EntryKind::Charge(request) => (EntryCode::Charge, Some(*request), None),
        EntryKind::Correction(note) => (EntryCode::Correction, None, Some(note)),
        EntryKind::Overrun(request) => (EntryCode::Overrun, Some(*request), None),
    }
}

/// Reads the columns [`AUDIT`].
pub(crate) fn audit<R: ReadRow>(row: &R) -> Result<(Cursor, AuditEntry), R::Error> {
    let entry = AuditEntry {
        at: row.at::<At>(1)?.0,
        actor: row.at(2)?,
        action: row.at(3)?,
        object: row.at(4)?,
        account: row.at(5)?,
        details: row.at(6)?,
        address: row.at(7)?,
        call: None,
    };
    Ok((Cursor(row.at(0)?), entry))
}

/// Reads the columns [`RESPONSE`], without the ids of the items.
pub(crate) fn response<R: ReadRow>(row: &R) -> Result<StoredResponse, R::Error> {
    Ok(StoredResponse {
        id: row.at(0)?,
        account: row.at(1)?,
        previous: row.at(2)?,
        created_at: row.at::<At>(3)?.0,
        input: row.at(4)?,
        object: row.at(5)?,
        items: Vec::new(),
    })
}
