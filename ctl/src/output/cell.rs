//! How a field of a record reads in a table's cell and in CSV.

use jiff::Timestamp;
use proto::text::visible;
use serde_json::{Map, Value};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Hue, Record, unprintable};
use crate::error::Failure;

/// How a time is shown: to the second, in UTC.
pub(crate) const TIME: &str = "%Y-%m-%d %H:%M:%SZ";
/// The same without the year and the zone.
const SHORT_TIME: &str = "%m-%d %H:%M:%S";

/// The fields of a record by name; a name that it does not have is `null`.
pub(super) fn fields<R: Record>(record: &R) -> Result<Map<String, Value>, Failure> {
    let mut fields = match serde_json::to_value(record).map_err(|error| unprintable(&error))? {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    debug_assert_eq!(fields.len(), R::FIELDS.len(), "`FIELDS` and the record differ");
    for name in R::FIELDS {
        fields.entry(*name).or_insert(Value::Null);
    }
    Ok(fields)
}

/// The field that a column shows, in whatever length.
fn field(name: &str) -> &str {
    name.strip_prefix("short_").unwrap_or(name)
}

/// The value of a field; a column that is no field, but text alone, has none.
pub(super) fn value<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a Value {
    fields.get(field(name)).unwrap_or(&Value::Null)
}

/// `input_tokens` → `INPUT`, `created_at` → `CREATED`, `cost_usd` → `COST USD`.
pub(super) fn heading(name: &str) -> String {
    let name = field(name);
    let unit = ["_tokens", "_window", "_at"].iter().find_map(|unit| name.strip_suffix(unit));
    unit.unwrap_or(name).replace('_', " ").to_uppercase()
}

/// Whether a field stands to the right: amounts, counts and times in milliseconds, the unknown too.
pub(super) fn is_number(name: &str) -> bool {
    ["_usd", "_tokens", "_ms", "_window", "_version"].iter().any(|it| name.ends_with(it))
        || ["rpm", "tpm", "concurrency"].contains(&name)
        || ["requests", "errors", "failures", "in_flight", "http_status", "count"].contains(&name)
}

/// Whether the beginning of a field says something without its end: neither of a number nor of a time.
pub(super) fn is_text(name: &str) -> bool {
    !is_number(name) && !name.ends_with("_at")
}

/// What a status word means.
pub(super) fn hue(value: &Value) -> Option<Hue> {
    match value.as_str()? {
        "completed" | "active" | "closed" | "ok" => Some(Hue::Good),
        "rejected" | "incomplete" | "cancelled" | "half_open" | "warning" => Some(Hue::Doubtful),
        "failed" | "interrupted" | "suspended" | "open" | "problem" => Some(Hue::Bad),
        _ => None,
    }
}

/// A field as a table shows it: unknown is `-`, times to the second, no control characters.
pub(super) fn shown<R: Record>(record: &R, fields: &Map<String, Value>, name: &str) -> String {
    let text = match (record.text(name), value(fields, name)) {
        (Some(text), _) => text,
        (None, Value::Number(number)) if number.is_f64() => {
            format!("{:.1}", number.as_f64().unwrap_or_default())
        }
        (None, Value::String(text)) if name.ends_with("_at") => {
            moment(text, if name == field(name) { TIME } else { SHORT_TIME })
        }
        (None, value) => plain(value, ", "),
    };
    if text.is_empty() {
        return "-".to_owned();
    }
    // A record may carry what a stranger sent (a model's name); it must not drive the terminal, nor look
    // like another's.
    visible(&text)
}

/// A time of RFC 3339 in the given form; what is none, as it is.
pub(crate) fn moment(text: &str, form: &str) -> String {
    let time = text.parse::<Timestamp>();
    time.map_or_else(|_| text.to_owned(), |time| time.strftime(form).to_string())
}

/// Cuts a text that is longer than `most` columns, and shows that it did.
pub(crate) fn cut(text: &str, most: usize, unicode: bool) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let mut columns = 0;
    let kept = text.chars().take_while(|c| {
        columns += c.width().unwrap_or_default();
        columns < most
    });
    kept.chain([if unicode { '…' } else { '~' }]).collect()
}

/// A value as text; the items of a list with `separator` between.
pub(super) fn plain(value: &Value, separator: &str) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            items.iter().map(|item| plain(item, separator)).collect::<Vec<_>>().join(separator)
        }
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// What a spreadsheet takes for the beginning of a formula, also as it is written at full width.
const FORMULA_STARTS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// A field as a spreadsheet may open it: a text is never a formula, and has no hidden characters.
pub(super) fn csv_text<R: Record>(record: &R, fields: &Map<String, Value>, name: &str) -> String {
    let value = value(fields, name);
    let text = record.text(name).unwrap_or_else(|| plain(value, ";"));
    let text = visible(&text.replace(['\n', '\r', '\t'], " "));
    let is_amount =
        is_number(name) && text.bytes().all(|b| b == b'-' || b == b'.' || b.is_ascii_digit());
    if value.is_number() || is_amount { text } else { without_formulas(text) }
}

/// Puts a quote before what a spreadsheet takes for a formula: at the beginning of the text, and behind each
/// `;`, which separates cells where the comma is the decimal sign.
fn without_formulas(text: String) -> String {
    let mut parts = text.split(';');
    if !parts.any(|part| part.starts_with(FORMULA_STARTS)) {
        return text;
    }
    let quoted = |part: &str| {
        let quote = if part.starts_with(FORMULA_STARTS) { "'" } else { "" };
        format!("{quote}{part}")
    };
    text.split(';').map(quoted).collect::<Vec<_>>().join(";")
}
