//! Parsers for the values of terms. Error messages name the allowed values.

use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::endpoint::Endpoint;
use crate::money::Nanos;
use crate::record::RequestStatus;
use crate::usage::Tokens;

/// Units of time in milliseconds. `ms` comes before `s`, which is a suffix of it.
const UNITS: [(&str, f64); 5] =
    [("ms", 1.0), ("s", 1e3), ("m", 60e3), ("h", 3_600e3), ("d", 86_400e3)];

pub(super) fn status(text: &str) -> Result<RequestStatus, String> {
    let found = RequestStatus::ALL.into_iter().find(|status| status.as_str() == text);
    found.ok_or_else(|| {
        format!("`{text}` is no status; {}", choice(RequestStatus::ALL.map(RequestStatus::as_str)))
    })
}

pub(super) fn endpoint(text: &str) -> Result<Endpoint, String> {
    let found = Endpoint::ALL.into_iter().find(|endpoint| endpoint.as_str() == text);
    found.ok_or_else(|| {
        format!("`{text}` is no endpoint; {}", choice(Endpoint::ALL.map(Endpoint::as_str)))
    })
}

pub(super) fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("`{text}` is neither `yes` nor `no`")),
    }
}

pub(super) fn amount(text: &str) -> Result<Nanos, String> {
    text.parse().map_err(|error| format!("`{text}` is {error}"))
}

pub(super) fn tokens(text: &str) -> Result<Tokens, String> {
    let number = text.parse().ok().map(Tokens);
    number.ok_or_else(|| format!("`{text}` is not a number of tokens, such as `4000`"))
}

/// Parses a duration with a unit.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    let read = || {
        let (unit, milliseconds) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
        let number = text.strip_suffix(unit)?;
        // Excludes exponents, signs, `inf` and `nan`, which `f64` would accept.
        let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let number: f64 = number.parse().ok().filter(|_| plain)?;
        Duration::try_from_secs_f64(number * milliseconds / 1e3).ok()
    };
    read().ok_or_else(|| {
        format!("`{text}` is not a length of time, such as `250ms`, `1.5s`, `15m`, `24h` or `7d`")
    })
}

/// Parses a time: a duration before `now`, an RFC 3339 timestamp, or a day.
pub(super) fn time(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let ago = || {
        let span = SignedDuration::try_from(span(text).ok()?).ok()?;
        // Out of range means the beginning of time.
        Some(now.checked_sub(span).unwrap_or(Timestamp::MIN))
    };
    ago().or_else(|| text.parse().ok()).or_else(|| midnight(text)).ok_or_else(|| {
        format!(
            "`{text}` is not a time: write how long ago, such as `15m`, `24h` or `7d`, a day such as \
             `2026-11-20` (from midnight UTC), or a time such as `2026-11-20T10:00:00Z`"
        )
    })
}

/// Returns midnight UTC of a day such as `2026-11-20`.
fn midnight(day: &str) -> Option<Timestamp> {
    // `Date` also parses a date with a time but no zone, whose time would be ignored.
    let day: Date = day.parse().ok().filter(|_| day.len() == "2026-11-20".len())?;
    Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

fn choice<const N: usize>(words: [&str; N]) -> String {
    format!("it is one of `{}`", words.join("`, `"))
}
