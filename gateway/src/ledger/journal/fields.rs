//! Encodes a request record and its parts: fixed widths, big-endian, texts behind their length.
//!
//! Writing cannot fail. Reading never panics, whatever the bytes are.

use std::num::NonZeroU32;
use std::time::Duration;

use bytes::{Buf, BufMut, TryGetError};
use jiff::Timestamp;
use uuid::Uuid;

use super::codes::Code;
use domain::id::{AccountId, KeyId, ModelId, RequestId, UpstreamName};
use domain::idempotency::IdempotencyDigest;
use domain::money::Nanos;
use domain::price::Price;
use domain::record::{RequestRecord, ServedBy};
use domain::usage::{Tokens, Usage};

/// The most bytes of the notes of one record. Longer notes are cut, so that no entry exceeds
/// [`MAX_PAYLOAD_BYTES`](super::frame::MAX_PAYLOAD_BYTES): the other fields have at most five texts of 64 KiB
/// and a few hundred bytes.
const MAX_NOTES_BYTES: usize = 512 * 1024;
/// The size of the length before each text, in bytes.
const LENGTH_BYTES: usize = 2;

/// Why bytes are not an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("truncated entry")]
    Short,
    #[error("unknown code `{0}`")]
    Unknown(u8),
    #[error("invalid UTF-8")]
    Text,
    #[error("timestamp out of range")]
    Time,
    #[error("trailing bytes")]
    Long,
}

type Decoded<T> = Result<T, DecodeError>;

impl From<TryGetError> for DecodeError {
    fn from(_: TryGetError) -> Self {
        Self::Short
    }
}

/// Appends a record.
pub(super) fn put_record(record: &RequestRecord, out: &mut Vec<u8>) {
    // Fields are named one by one, so that a new field fails the build here.
    let RequestRecord {
        id,
        account,
        key,
        endpoint,
        model,
        deployment,
        stream,
        status,
        http_status,
        error_code,
        usage,
        basis,
        cost,
        overrun,
        price_version,
        started_at,
        duration,
        ttft,
        notes,
        // Both are written before the record, if they are set.
        idempotency: _,
        count: _,
        // It is not recorded.
        trace: _,
    } = record;
    out.put_slice(id.0.as_bytes());
    out.put_slice(account.0.as_bytes());
    put_text(key.as_str(), out);
    out.put_u8(endpoint.code());
    put_option(model.as_ref(), out, |model, out| put_text(model.as_str(), out));
    put_option(deployment.as_ref(), out, |served, out| {
        put_text(served.upstream.as_str(), out);
        put_text(&served.upstream_model, out);
    });
    out.put_u8(u8::from(*stream));
    out.put_u8(status.code());
    put_option(http_status.as_ref(), out, |&status, out| out.put_u16(status));
    put_option(error_code.as_ref(), out, |code, out| put_text(code, out));
    put_option(usage.as_ref(), out, put_usage);
    out.put_u8(basis.code());
    put_option(cost.as_ref(), out, |cost, out| out.put_i64(cost.0));
    out.put_i64(overrun.0);
    put_option(price_version.as_ref(), out, |&version, out| out.put_u32(version));
    out.put_i128(started_at.as_nanosecond());
    put_span(*duration, out);
    put_option(ttft.as_ref(), out, |&ttft, out| put_span(ttft, out));
    put_notes(notes, out);
}

/// Decodes a record from the front of `from`.
pub(super) fn take_record(from: &mut &[u8]) -> Decoded<RequestRecord> {
    Ok(RequestRecord {
        id: RequestId(take_uuid(from)?),
        account: AccountId(take_uuid(from)?),
        key: KeyId::new(take_text(from)?),
        endpoint: take_code(from)?,
        model: take_option(from, |from| take_text(from).map(ModelId::new))?,
        deployment: take_option(from, |from| {
            let upstream = UpstreamName::new(take_text(from)?);
            Ok(ServedBy { upstream, upstream_model: take_text(from)?.into() })
        })?,
        stream: take_flag(from)?,
        status: take_code(from)?,
        http_status: take_option(from, |from| Ok(from.try_get_u16()?))?,
        error_code: take_option(from, |from| take_text(from).map(str::to_owned))?,
        usage: take_option(from, take_usage)?,
        basis: take_code(from)?,
        cost: take_option(from, |from| Ok(Nanos(from.try_get_i64()?)))?,
        overrun: Nanos(from.try_get_i64()?),
        price_version: take_option(from, |from| Ok(from.try_get_u32()?))?,
        started_at: Timestamp::from_nanosecond(from.try_get_i128()?)
            .map_err(|_| DecodeError::Time)?,
        duration: take_span(from)?,
        ttft: take_option(from, take_span)?,
        notes: {
            let count = from.try_get_u16()?;
            (0..count).map(|_| take_text(from).map(str::to_owned)).collect::<Decoded<_>>()?
        },
        idempotency: None,
        count: NonZeroU32::MIN,
        trace: None,
    })
}

/// Decodes an idempotency digest from the front of `from`.
pub(super) fn take_digest(from: &mut &[u8]) -> Decoded<IdempotencyDigest> {
    let (digest, rest) = from.split_first_chunk().ok_or(DecodeError::Short)?;
    *from = rest;
    Ok(IdempotencyDigest(*digest))
}

/// Decodes a number of requests from the front of `from`.
pub(super) fn take_count(from: &mut &[u8]) -> Decoded<NonZeroU32> {
    NonZeroU32::new(from.try_get_u32()?).ok_or(DecodeError::Unknown(0))
}

/// Appends a price.
pub(super) fn put_price(price: &Price, out: &mut Vec<u8>) {
    let Price { input, cached, output, version } = price;
    for amount in [input, cached, output] {
        out.put_i64(amount.0);
    }
    out.put_u32(*version);
}

/// Decodes a price from the front of `from`.
pub(super) fn take_price(from: &mut &[u8]) -> Decoded<Price> {
    Ok(Price {
        input: Nanos(from.try_get_i64()?),
        cached: Nanos(from.try_get_i64()?),
        output: Nanos(from.try_get_i64()?),
        version: from.try_get_u32()?,
    })
}

fn put_usage(usage: &Usage, out: &mut Vec<u8>) {
    let Usage { input, cached, output, reasoning } = usage;
    out.put_u64(input.0);
    put_option(cached.as_ref(), out, |tokens, out| out.put_u64(tokens.0));
    out.put_u64(output.0);
    put_option(reasoning.as_ref(), out, |tokens, out| out.put_u64(tokens.0));
}

fn take_usage(from: &mut &[u8]) -> Decoded<Usage> {
    let tokens = |from: &mut &[u8]| Ok(Tokens(from.try_get_u64()?));
    Ok(Usage {
        input: tokens(from)?,
        cached: take_option(from, tokens)?,
        output: tokens(from)?,
        reasoning: take_option(from, tokens)?,
    })
}

/// Appends the notes, up to [`MAX_NOTES_BYTES`].
fn put_notes(notes: &[String], out: &mut Vec<u8>) {
    let count_at = out.len();
    out.put_u16(0);
    let end = out.len() + MAX_NOTES_BYTES;
    let mut count = 0_u16;
    for note in notes.iter().take(usize::from(u16::MAX)) {
        let Some(room) = end.checked_sub(out.len() + LENGTH_BYTES) else { break };
        put_text(&note[..note.floor_char_boundary(room)], out);
        count += 1;
    }
    out[count_at..][..LENGTH_BYTES].copy_from_slice(&count.to_be_bytes());
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    // No text of a record is that long; a longer one is cut at a character boundary.
    let text = &text[..text.floor_char_boundary(usize::from(u16::MAX))];
    out.put_u16(u16::try_from(text.len()).unwrap_or(u16::MAX));
    out.put_slice(text.as_bytes());
}

fn take_text<'a>(from: &mut &'a [u8]) -> Decoded<&'a str> {
    let length = usize::from(from.try_get_u16()?);
    let (text, rest) = from.split_at_checked(length).ok_or(DecodeError::Short)?;
    *from = rest;
    std::str::from_utf8(text).map_err(|_| DecodeError::Text)
}

fn put_span(span: Duration, out: &mut Vec<u8>) {
    out.put_u64(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
}

fn take_span(from: &mut &[u8]) -> Decoded<Duration> {
    Ok(Duration::from_nanos(from.try_get_u64()?))
}

fn put_option<T>(value: Option<&T>, out: &mut Vec<u8>, put: impl FnOnce(&T, &mut Vec<u8>)) {
    out.put_u8(u8::from(value.is_some()));
    if let Some(value) = value {
        put(value, out);
    }
}

fn take_option<'a, T>(
    from: &mut &'a [u8],
    take: impl FnOnce(&mut &'a [u8]) -> Decoded<T>,
) -> Decoded<Option<T>> {
    take_flag(from)?.then(|| take(from)).transpose()
}

fn take_flag(from: &mut &[u8]) -> Decoded<bool> {
    match from.try_get_u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(DecodeError::Unknown(other)),
    }
}

fn take_code<T: Code>(from: &mut &[u8]) -> Decoded<T> {
    let code = from.try_get_u8()?;
    T::find(code).ok_or(DecodeError::Unknown(code))
}

fn take_uuid(from: &mut &[u8]) -> Decoded<Uuid> {
    Ok(Uuid::from_u128(from.try_get_u128()?))
}
