//! Reads the fields of forms: numbers, amounts and durations.

use crate::model::form::Form;
use crate::model::money::parse_nanos;

/// The label of an invalid field, and a text that says what to enter.
pub(super) type FieldError = (&'static str, String);

/// The seconds in a day.
const DAY: u64 = 86_400;
/// The maximum amount that the gateway keeps, in billionths of a US dollar.
const MAX_NANOS: i128 = i64::MAX as i128;

/// Returns the text of a field that must not be empty.
pub(super) fn required(
    form: &Form,
    label: &'static str,
    problem: &str,
) -> Result<String, FieldError> {
    match form.text(label) {
        "" => Err((label, problem.to_owned())),
        text => Ok(text.to_owned()),
    }
}

/// Parses an optional integer. The suffixes `k` and `M` mean thousands and millions.
pub(super) fn number(form: &Form, label: &'static str) -> Result<Option<u64>, FieldError> {
    let digits = form.text(label).replace(['_', ','], "");
    if digits.is_empty() {
        return Ok(None);
    }
    let (digits, unit) = match digits.char_indices().next_back() {
        Some((end, 'k')) => (&digits[..end], 1_000),
        Some((end, 'M')) => (&digits[..end], 1_000_000),
        _ => (digits.as_str(), 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match number {
        Some(number) => Ok(Some(number)),
        None => Err((label, "a whole number, such as 60 or 200k; empty for none".to_owned())),
    }
}

/// Parses an optional duration such as `90m`, `12h`, `30d` or `2w`, in seconds. A number without a
/// unit counts units of `default_unit` seconds.
pub(super) fn duration(
    form: &Form,
    label: &'static str,
    default_unit: u64,
) -> Result<Option<u64>, FieldError> {
    let text = form.text(label);
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let unit = match text[digits.len()..].trim() {
        "" => Some(default_unit),
        "s" => Some(1),
        "m" | "min" => Some(60),
        "h" => Some(3_600),
        "d" => Some(DAY),
        "w" => Some(7 * DAY),
        _ => None,
    };
    let number = digits.trim().parse::<u64>().ok();
    match number.zip(unit).and_then(|(number, unit)| number.checked_mul(unit)) {
        Some(seconds) => Ok(Some(seconds)),
        None => Err((label, "a duration, such as 90m, 12h or 30d".to_owned())),
    }
}

/// Parses an amount in US dollars; keeps the user's digits.
pub(super) fn amount(form: &Form, label: &'static str) -> Result<String, FieldError> {
    let amount = required(form, label, "type an amount in US dollars, such as 5 or 0.25")?;
    let unsigned = amount.strip_prefix('-').unwrap_or(&amount);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let problem = match parse_nanos(&amount) {
        Some(nanos) if nanos.abs() <= MAX_NANOS => return Ok(amount),
        _ if whole.is_empty() || !is_number(whole) || !is_number(fraction) => {
            "an amount in US dollars, such as 5 or 0.25".to_owned()
        }
        _ if fraction.len() > 9 => "at most nine decimal places".to_owned(),
        _ => format!("at most {} dollars", MAX_NANOS / 1_000_000_000),
    };
    Err((label, problem))
}

/// Parses an amount that may be left out.
pub(super) fn optional_amount(
    form: &Form,
    label: &'static str,
) -> Result<Option<String>, FieldError> {
    match form.text(label) {
        "" => Ok(None),
        _ => amount(form, label).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::form::{Field, FormKind};

    fn form(value: &str) -> Form {
        Form::new("", FormKind::CreateKey, vec![Field::text("field", "", value)])
    }

    #[test]
    fn durations_have_units() {
        for (text, seconds) in [
            ("", Ok(None)),
            ("7", Ok(Some(7 * DAY))),
            ("90s", Ok(Some(90))),
            ("90m", Ok(Some(5_400))),
            ("12h", Ok(Some(43_200))),
            ("30d", Ok(Some(30 * DAY))),
            ("30 d", Ok(Some(30 * DAY))),
            ("2w", Ok(Some(14 * DAY))),
            ("d", Err(())),
            ("-1d", Err(())),
            ("1.5d", Err(())),
            ("3 moons", Err(())),
            ("99999999999999999999d", Err(())),
            ("9999999999999999999w", Err(())),
        ] {
            assert_eq!(duration(&form(text), "field", DAY).map_err(|_| ()), seconds, "{text}");
        }
    }

    #[test]
    fn an_amount_is_refused_for_the_reason_that_holds() {
        for (text, problem) in [
            ("9223372036", None),
            ("-0.000000001", None),
            ("9223372037", Some("at most 9223372036 dollars")),
            ("99999999999999999999999999999999999999999999", Some("at most 9223372036 dollars")),
            ("0.0000000001", Some("at most nine decimal places")),
            ("1e9", Some("an amount in US dollars, such as 5 or 0.25")),
            ("$5", Some("an amount in US dollars, such as 5 or 0.25")),
            ("", Some("type an amount in US dollars, such as 5 or 0.25")),
        ] {
            let found = amount(&form(text), "field").err().map(|(_, problem)| problem);
            assert_eq!(found.as_deref(), problem, "{text}");
        }
    }
}
