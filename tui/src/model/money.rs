//! Arithmetic on amounts, for estimates only. Displayed amounts keep the server's text.

use super::catalogue::Price;
use super::record::Tokens;

/// Parses an exact decimal with at most nine fractional digits into billionths. Returns `None` for
/// any other notation.
pub fn parse_nanos(amount: &str) -> Option<i128> {
    let (sign, digits) = match amount.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, amount),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if fraction.len() > 9 || whole.is_empty() {
        return None;
    }
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let whole: i128 = whole.parse().ok()?;
    let fraction: i128 = format!("{fraction:0<9}").parse().ok()?;
    whole.checked_mul(1_000_000_000)?.checked_add(fraction)?.checked_mul(sign)
}

/// Returns the approximate number of tokens that `balance` buys at `price` per million. Returns
/// `None` if the price is zero or an amount cannot be parsed.
pub fn tokens_for(balance: &str, price: &str) -> Option<u64> {
    let (balance, price) = (parse_nanos(balance)?, parse_nanos(price)?);
    if price <= 0 {
        return None;
    }
    u64::try_from(balance.max(0).checked_mul(1_000_000)? / price).ok()
}

/// Returns the cost of tokens at a price in billionths of a US dollar, for an estimate. Without a price
/// of cached input, that of input applies. Returns `None` if a count or a price is unknown.
pub fn cost_at(tokens: &Tokens, price: &Price) -> Option<u64> {
    let nanos = |price: &Option<String>| match price {
        None => Some(0),
        Some(price) => parse_nanos(price),
    };
    let (input, cached) = (i128::from(tokens.input?), i128::from(tokens.cached.unwrap_or(0)));
    let output = i128::from(tokens.output?);
    let input_price = nanos(&price.input_usd)?;
    let cached_price = price.cached_usd.as_ref().map_or(Some(input_price), |it| parse_nanos(it))?;
    let parts = [
        (input.saturating_sub(cached).checked_mul(input_price)?),
        cached.checked_mul(cached_price)?,
        output.checked_mul(nanos(&price.output_usd)?)?,
    ];
    let sum = parts.into_iter().try_fold(0_i128, i128::checked_add)?;
    u64::try_from(sum / 1_000_000).ok()
}

/// Formats billionths of a US dollar in at most eight columns: `$1,234`, `$12.34`, `$0.00123`.
pub fn short_dollars(nanos: u64) -> String {
    let (whole, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let digits = format!("{fraction:09}");
    match whole {
        0 if nanos == 0 => "$0".to_owned(),
        0 => {
            let zeros = digits.bytes().take_while(|digit| *digit == b'0').count();
            let kept = digits.get(..(zeros + 3).min(9)).unwrap_or_default();
            format!("$0.{}", kept.trim_end_matches('0'))
        }
        1..1_000 => format!("${whole}.{}", &digits[..2]),
        1_000..1_000_000 => format!("${},{:03}", whole / 1_000, whole % 1_000),
        _ => format!("${}M", whole / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_plain_decimals_only() {
        for (text, value) in [
            ("0", Some(0)),
            ("1.5", Some(1_500_000_000)),
            ("-0.000000001", Some(-1)),
            ("4.998213500", Some(4_998_213_500)),
            ("1.0000000001", None),
            ("", None),
            (".5", None),
            ("1e9", None),
            ("+1", None),
            ("1.-5", None),
            ("999999999999999999999999999999999999999999", None),
        ] {
            assert_eq!(parse_nanos(text), value, "{text}");
        }
    }

    #[test]
    fn tokens_for_divides_the_balance_by_the_price() {
        assert_eq!(tokens_for("5", "0.40"), Some(12_500_000));
        assert_eq!(tokens_for("-1", "0.40"), Some(0));
        assert_eq!(tokens_for("5", "0"), None, "what is free has no bound");
    }

    #[test]
    fn short_dollars_keep_three_digits() {
        for (nanos, text) in [
            (0, "$0"),
            (1, "$0.000000001"),
            (1_234_567, "$0.00123"),
            (500_000_000, "$0.5"),
            (12_345_000_000, "$12.34"),
            (1_234_500_000_000, "$1,234"),
            (u64::MAX, "$18446M"),
        ] {
            assert_eq!(short_dollars(nanos), text);
        }
    }

    #[test]
    fn cached_input_costs_its_own_price_or_that_of_input() {
        let tokens = Tokens {
            input: Some(3_000_000),
            cached: Some(1_000_000),
            output: Some(1_000_000),
            reasoning: None,
        };
        let price = |input: &str, cached: Option<&str>, output: Option<&str>| Price {
            input_usd: Some(input.to_owned()),
            cached_usd: cached.map(str::to_owned),
            output_usd: output.map(str::to_owned),
            version: 1,
        };
        let dollars = |price: Price| cost_at(&tokens, &price).map(|it| it / 1_000_000_000);
        assert_eq!(dollars(price("1", Some("0"), Some("4"))), Some(6));
        assert_eq!(dollars(price("1", None, None)), Some(3));
        assert_eq!(dollars(price("much", None, None)), None);
        assert_eq!(cost_at(&Tokens::default(), &price("1", None, None)), None);
    }
}
