//! Formats fields of records for table cells and CSV.

use jiff::Timestamp;
use proto::text::visible;
use serde_json::{Map, Value};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Record, Style, serialization_failure};
use crate::error::Failure;
use crate::spreadsheet;

/// The format of times, to the second, in UTC.
pub(crate) const TIME_FORMAT: &str = "%Y-%m-%d %H:%M:%SZ";
/// [`TIME_FORMAT`] without year and zone, for narrow terminals.
const SHORT_TIME_FORMAT: &str = "%m-%d %H:%M:%S";

/// Returns the fields of a record by name; every name in [`Record::FIELDS`] is present.
pub(super) fn fields<R: Record>(record: &R) -> Result<Map<String, Value>, Failure> {
    let value = serde_json::to_value(record).map_err(|error| serialization_failure(&error))?;
    let mut fields = match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    debug_assert_eq!(fields.len(), R::FIELDS.len(), "`FIELDS` and the record differ");
    for name in R::FIELDS {
        fields.entry(*name).or_insert(Value::Null);
    }
    Ok(fields)
}

/// Returns the field of a column, which may be a shortened one.
fn field(name: &str) -> &str {
    name.strip_prefix("short_").unwrap_or(name)
}

/// Returns the value of a column's field; `null` for a column that is not a field.
pub(super) fn value<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a Value {
    fields.get(field(name)).unwrap_or(&Value::Null)
}

/// Returns the heading of a column: `input_tokens` → `INPUT`, `created_at` → `CREATED`, `cost_usd`
/// → `COST USD`.
pub(super) fn heading(name: &str) -> String {
    let name = field(name);
    let unit = ["_tokens", "_window", "_at"].iter().find_map(|unit| name.strip_suffix(unit));
    unit.unwrap_or(name).replace('_', " ").to_uppercase()
}

/// Returns whether a column is right-aligned: amounts, counts and durations, also where they are
/// unknown.
pub(super) fn is_number(name: &str) -> bool {
    ["_usd", "_tokens", "_ms", "_percent", "_window", "_version"]
        .iter()
        .any(|it| name.ends_with(it))
        || ["rpm", "tpm", "concurrency"].contains(&name)
        || ["requests", "errors", "failures", "in_flight", "http_status", "count"].contains(&name)
}

/// Returns whether a column may be truncated: not numbers and times, which would be misread.
pub(super) fn is_truncatable(name: &str) -> bool {
    !is_number(name) && !name.ends_with("_at")
}

/// Returns the style of a status value; `None` for other values.
pub(super) fn status_style(value: &Value) -> Option<Style> {
    match value.as_str()? {
        "completed" | "active" | "closed" | "ok" => Some(Style::Success),
        "rejected" | "incomplete" | "cancelled" | "half_open" | "warning" => Some(Style::Warning),
        "failed" | "interrupted" | "suspended" | "open" | "problem" => Some(Style::Error),
        _ => None,
    }
}

/// Formats a field for a table: `-` if unknown, times to the second, invisible characters replaced.
pub(super) fn table_text<R: Record>(record: &R, fields: &Map<String, Value>, name: &str) -> String {
    let text = match (record.text(name), value(fields, name)) {
        (Some(text), _) => text,
        (None, Value::Number(number)) if number.is_f64() => {
            format!("{:.1}", number.as_f64().unwrap_or_default())
        }
        (None, Value::String(text)) if name.ends_with("_at") => {
            format_time(text, if name == field(name) { TIME_FORMAT } else { SHORT_TIME_FORMAT })
        }
        (None, value) => value_text(value, ", "),
    };
    if text.is_empty() {
        return "-".to_owned();
    }
    // A record may contain client input, such as a model's name: it must not control the terminal
    // or imitate another value.
    visible(&text)
}

/// Formats an RFC 3339 time with a `strftime` format; returns any other text unchanged.
pub(crate) fn format_time(text: &str, format: &str) -> String {
    let time = text.parse::<Timestamp>();
    time.map_or_else(|_| text.to_owned(), |time| time.strftime(format).to_string())
}

/// Truncates a text to `max_width` columns, including an ellipsis.
pub(crate) fn truncate(text: &str, max_width: usize, unicode: bool) -> String {
    if text.width() <= max_width {
        return text.to_owned();
    }
    let mut columns = 0;
    let kept = text.chars().take_while(|c| {
        columns += c.width().unwrap_or_default();
        columns < max_width
    });
    kept.chain([if unicode { '…' } else { '~' }]).collect()
}

/// Converts a JSON value to text, joining the items of a list with `separator`.
pub(super) fn value_text(value: &Value, separator: &str) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            items.iter().map(|item| value_text(item, separator)).collect::<Vec<_>>().join(separator)
        }
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// Formats a field for CSV. Only amounts may begin with the sign of a formula.
pub(super) fn csv_text<R: Record>(record: &R, fields: &Map<String, Value>, name: &str) -> String {
    let value = value(fields, name);
    let text = record.text(name).unwrap_or_else(|| value_text(value, ";"));
    let is_amount = is_number(name) && spreadsheet::is_amount(&text);
    if value.is_number() || is_amount { text } else { spreadsheet::cell(&text) }
}
