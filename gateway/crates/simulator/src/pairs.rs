//! The parser of script syntax: `key=value` pairs.
//!
//! A value may be quoted. `"…"` supports the escapes `\"`, `\\`, `\n`, `\r` and `\t`; `'…'` is
//! literal, so that it can contain JSON. Pure.

/// The reason why a script is invalid. `Display` is for the caller.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScriptError {
    #[error("unknown simulator key `{key}`; the keys are {keys}")]
    UnknownKey { key: String, keys: String },
    #[error("simulator key `{key}` cannot be `{value}`: it is {means}")]
    BadValue { key: String, value: String, means: &'static str },
    #[error("simulator key `{0}` has no value; write `key=value`")]
    NoValue(String),
    #[error("the quoted value of simulator key `{0}` does not end as it should")]
    BadQuote(String),
    #[error("a simulator directive is not closed; write `[sim key=value …]`")]
    Unclosed,
}

/// Keys and values, in their order in the script.
pub(super) type Pairs = Vec<(String, String)>;

/// Parses pairs from the start of `rest` up to and including `end`, or to the end of the text
/// without an `end`. Advances `rest`.
pub(super) fn pairs(
    rest: &mut &str,
    separates: fn(char) -> bool,
    end: Option<char>,
) -> Result<Pairs, ScriptError> {
    let mut pairs = Vec::new();
    loop {
        *rest = rest.trim_start_matches(separates);
        let Some(next) = rest.chars().next() else {
            return if end.is_none() { Ok(pairs) } else { Err(ScriptError::Unclosed) };
        };
        if Some(next) == end {
            *rest = &rest[next.len_utf8()..];
            return Ok(pairs);
        }
        pairs.push(pair(rest, |c| separates(c) || Some(c) == end)?);
    }
}

fn pair(rest: &mut &str, stops: impl Fn(char) -> bool) -> Result<(String, String), ScriptError> {
    let key = take_until(rest, |c| c == '=' || stops(c)).to_owned();
    let Some(value) = rest.strip_prefix('=') else { return Err(ScriptError::NoValue(key)) };
    *rest = value;
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let value = match quote {
        None => take_until(rest, &stops).to_owned(),
        Some(quote) => quoted(rest, quote)
            .filter(|_| rest.chars().next().is_none_or(stops))
            .ok_or_else(|| ScriptError::BadQuote(key.clone()))?,
    };
    Ok((key, value))
}

fn take_until<'a>(rest: &mut &'a str, stops: impl Fn(char) -> bool) -> &'a str {
    let (taken, left) = rest.split_at(rest.find(stops).unwrap_or(rest.len()));
    *rest = left;
    taken
}

/// Parses a quoted value and advances `rest`; `None` without a closing quote or with an invalid
/// escape.
fn quoted(rest: &mut &str, quote: char) -> Option<String> {
    let mut value = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            _ if c == quote => {
                *rest = &rest[at + c.len_utf8()..];
                return Some(value);
            }
            '\\' if quote == '"' => value.push(match chars.next()?.1 {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                c @ ('"' | '\\') => c,
                _ => return None,
            }),
            _ => value.push(c),
        }
    }
    None
}
