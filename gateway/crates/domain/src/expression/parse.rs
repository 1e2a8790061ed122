//! The parser of filter expressions. Errors contain the position of the invalid part.

use jiff::Timestamp;

use super::value;
use super::{Comparison, Expression, Predicate, Term};
use crate::ValidationError;
use crate::id::{AccountId, KeyId, ModelId};

/// The field of the admin API that holds an expression.
const FIELD: &str = "filter.expression";
/// The maximum length of an expression, in bytes, and its maximum number of terms.
const MAX_EXPRESSION_BYTES: usize = 4_096;
const MAX_TERMS: usize = 64;
const FIELDS: &str = "`model:`, `status:`, `key:`, `account:`, `endpoint:`, `error:`, `stream:`, \
    `cost>`, `tokens>`, `duration>`, `ttft>`, `since:` and `until:`";

/// Resolves the names in an expression to ids.
pub trait Resolver {
    /// The error for an unknown name.
    type Error: From<ValidationError>;

    /// Returns the account with this name or id.
    ///
    /// # Errors
    /// The account does not exist, or is not visible to the caller.
    fn account(&self, text: &str) -> Result<AccountId, Self::Error>;
    /// Returns the id of the model with this id or alias.
    fn model(&self, text: &str) -> ModelId;
}

/// A part of the expression with its byte offset.
#[derive(Clone, Copy)]
struct Part<'a> {
    text: &'a str,
    start: usize,
}

/// The operator between a field and its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    /// A colon: equal to one of the values.
    Is,
    /// A comparison.
    Compares(Comparison),
}

/// The parser of one expression.
struct Parser<'a, N> {
    whole: &'a str,
    now: Timestamp,
    resolver: &'a N,
}

/// Parses an expression. Relative times count from `now`.
///
/// # Errors
/// A term is invalid: the message contains its position and the allowed input. Also errors of
/// `resolver`.
pub fn parse<N: Resolver>(
    text: &str,
    now: Timestamp,
    resolver: &N,
) -> Result<Expression, N::Error> {
    if text.len() > MAX_EXPRESSION_BYTES {
        return Err(
            invalid(&format!("nothing may be longer than {MAX_EXPRESSION_BYTES} bytes")).into()
        );
    }
    let parser = Parser { whole: text, now, resolver };
    let mut expression = Expression::default();
    for (count, term) in (Part { text, start: 0 }).split(char::is_whitespace).enumerate() {
        if count == MAX_TERMS {
            let what = format!("there may be {MAX_TERMS} terms, no more");
            return Err(parser.error_at(term, &what));
        }
        parser.add(&mut expression, term)?;
    }
    Ok(expression)
}

// === impl Parser ===

impl<N: Resolver> Parser<'_, N> {
    fn add(&self, expression: &mut Expression, term: Part<'_>) -> Result<(), N::Error> {
        let negated = term.text.starts_with('-');
        let plain = term.after(usize::from(negated));
        let Some((field, operator, value)) = plain.split_at_operator() else {
            let what = format!("`{}` is no condition; there are {FIELDS}", plain.text);
            return Err(self.error_at(term, &what));
        };
        if value.split(is_comma).next().is_none() {
            return Err(self.error_at(term, &format!("`{}` lacks a value", plain.text)));
        }
        if let (name @ ("since" | "until"), Operator::Is) = (field.text, operator) {
            let time = self.one(value, |text| value::time(text, self.now))?;
            // A negated `since` is an `until`, and the reverse.
            if (name == "since") == negated {
                expression.until = Some(expression.until.map_or(time, |until| until.min(time)));
            } else {
                expression.since = expression.since.max(Some(time));
            }
        } else {
            let predicate = self.predicate(term, field, operator, value)?;
            expression.terms.push(Term { predicate, negated });
        }
        Ok(())
    }

    fn predicate(
        &self,
        term: Part<'_>,
        field: Part<'_>,
        operator: Operator,
        value: Part<'_>,
    ) -> Result<Predicate, N::Error> {
        let owned = |text: &str| Ok(text.to_owned());
        Ok(match (field.text, operator) {
            ("account", Operator::Is) => {
                let accounts = value.split(is_comma).map(|part| self.resolver.account(part.text));
                Predicate::Account(accounts.collect::<Result<_, _>>()?)
            }
            ("key", Operator::Is) => Predicate::Key(self.list(value, |text| Ok(KeyId::new(text)))?),
            ("model", Operator::Is) => {
                Predicate::Model(self.list(value, |text| Ok(self.resolver.model(text)))?)
            }
            ("status", Operator::Is) => Predicate::Status(self.list(value, value::status)?),
            ("endpoint", Operator::Is) => Predicate::Endpoint(self.list(value, value::endpoint)?),
            ("error", Operator::Is) => Predicate::Error(self.list(value, owned)?),
            ("stream", Operator::Is) => Predicate::Stream(self.one(value, value::yes_or_no)?),
            ("cost", Operator::Compares(how)) => {
                Predicate::Cost(how, self.one(value, value::amount)?)
            }
            ("tokens", Operator::Compares(how)) => {
                Predicate::Tokens(how, self.one(value, value::tokens)?)
            }
            ("duration", Operator::Compares(how)) => {
                Predicate::Duration(how, self.one(value, value::span)?)
            }
            ("ttft", Operator::Compares(how)) => {
                Predicate::Ttft(how, self.one(value, value::span)?)
            }
            (name @ ("cost" | "tokens" | "duration" | "ttft"), Operator::Is) => {
                let what = format!("`{name}` is compared: write `{name}>…` or `{name}<…`");
                return Err(self.error_at(term, &what));
            }
            (name, Operator::Compares(_)) if FIELDS.contains(&format!("`{name}:`")) => {
                let what = format!("`{name}` is not compared: write `{name}:…`");
                return Err(self.error_at(term, &what));
            }
            (name, _) => {
                let what = format!("there is no field `{name}`; there are {FIELDS}");
                return Err(self.error_at(field, &what));
            }
        })
    }

    fn one<T>(
        &self,
        value: Part<'_>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, N::Error> {
        read(value.text).map_err(|what| self.error_at(value, &what))
    }

    /// Parses each of the comma-separated values.
    fn list<T>(
        &self,
        value: Part<'_>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, N::Error> {
        value.split(is_comma).map(|part| self.one(part, &read)).collect()
    }

    /// Returns the error for `part`, with its position in characters from one.
    fn error_at(&self, part: Part<'_>, what: &str) -> N::Error {
        let first = self.whole[..part.start].chars().count() + 1;
        let last = first + part.text.chars().count().max(1) - 1;
        invalid(&format!("characters {first} to {last}: {what}")).into()
    }
}

// === impl Part ===

impl Part<'_> {
    /// Returns the non-empty parts between separators.
    fn split(self, separates: fn(char) -> bool) -> impl Iterator<Item = Self> {
        let mut next = self.start;
        let pieces = self.text.split_inclusive(separates).map(move |piece| {
            let start = next;
            next += piece.len();
            Self { text: piece.trim_end_matches(separates), start }
        });
        pieces.filter(|part| !part.text.is_empty())
    }

    /// Returns the rest after the first `bytes`.
    fn after(self, bytes: usize) -> Self {
        Self { text: &self.text[bytes..], start: self.start + bytes }
    }

    /// Splits a term into field, operator and value.
    fn split_at_operator(self) -> Option<(Self, Operator, Self)> {
        let at = self.text.find([':', '>', '<'])?;
        let (field, rest) = self.text.split_at(at);
        let (operator, width) = match (rest.as_bytes()[0], rest[1..].starts_with('=')) {
            (b':', _) => (Operator::Is, 1),
            (b'>', false) => (Operator::Compares(Comparison::Above), 1),
            (b'>', true) => (Operator::Compares(Comparison::AtLeast), 2),
            (_, false) => (Operator::Compares(Comparison::Below), 1),
            (_, true) => (Operator::Compares(Comparison::AtMost), 2),
        };
        Some((Self { text: field, start: self.start }, operator, self.after(at + width)))
    }
}

fn is_comma(c: char) -> bool {
    c == ','
}

fn invalid(what: &str) -> ValidationError {
    ValidationError::new(FIELD, format!("in `{FIELD}`, {what}"))
}
