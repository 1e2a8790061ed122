//! Why an upstream gave no answer.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Zoned;
use jiff::fmt::rfc2822;

use domain::wire::error::ReportedError;

/// The headers that say how long to wait, with their units.
pub const RETRY_AFTER_HEADERS: [(HeaderName, Duration); 2] = [
    (HeaderName::from_static("retry-after-ms"), Duration::from_millis(1)),
    (RETRY_AFTER, Duration::from_secs(1)),
];

/// Replaces a date in the `retry-after` header of an answer with the seconds from the answer's own `date` to it. The
/// upstream's clock may differ from ours, so a date without that reference is removed.
pub(super) fn convert_retry_date(headers: &mut HeaderMap) {
    let date = |name| -> Option<Zoned> {
        rfc2822::DateTimeParser::new().parse_zoned(headers.get(name)?.to_str().ok()?.trim()).ok()
    };
    let Some(until) = date(RETRY_AFTER) else { return };
    match date(DATE) {
        Some(answered) => {
            let seconds = until.timestamp().as_second() - answered.timestamp().as_second();
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(0)));
        }
        None => _ = headers.remove(RETRY_AFTER),
    }
}

/// Any error.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A failure between the gateway and an upstream.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The catalogue entry cannot work. The text is for the operator and contains no secret.
    #[error("upstream misconfigured: {0}")]
    Misconfigured(String),
    /// No connection, or the connection broke before the head of the answer.
    #[error("upstream unreachable")]
    Unreachable(#[source] BoxError),
    /// The journal could not be flushed, so the request was not sent.
    #[error("the request was kept back")]
    JournalUnavailable(#[source] BoxError),
    /// It has as many requests as its entry allows, and no place became free.
    #[error("upstream has as many requests as it may have")]
    Overloaded,
    /// A deadline passed.
    #[error("upstream timed out {0}")]
    TimedOut(TimeoutKind),
    /// The upstream returned an error status.
    #[error("upstream answered HTTP {status}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The error body.
        body: ReportedError,
        /// The headers, for `retry-after` and the like.
        headers: Box<HeaderMap>,
    },
    /// The upstream answered with a redirect. Redirects are not followed, because the credential and the prompt are meant
    /// for this upstream only.
    #[error("upstream answered HTTP {status}, {}, which is not followed", redirect(.to.as_deref()))]
    Redirected {
        /// The HTTP status.
        status: u16,
        /// The scheme, host and port of the other address; `None` if it is on the same host or unknown.
        to: Option<String>,
    },
    /// The upstream reported an error inside an answer that had begun.
    #[error("upstream reported an error: {}", .0.message.as_deref().unwrap_or("(no message)"))]
    Reported(ReportedError),
    /// The answer is not a chat answer; the text describes what is wrong.
    #[error("upstream sent an invalid response: {0}")]
    Invalid(String),
    /// The model violated a constraint of the request; the text describes which.
    #[error("{0}")]
    ConstraintViolation(String),
    /// The answer ended early.
    #[error("upstream closed the answer early")]
    CutOff,
}

/// The part of an answer that missed its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    /// The connection, including its TLS handshake.
    Connect,
    /// The head of the answer.
    FirstByte,
    /// The next bytes of the answer.
    Idle,
    /// The end of an answer that has begun.
    Total,
}

impl UpstreamError {
    /// Returns whether another deployment may be tried: no answer has begun, and the fault may be the server's. A
    /// status 404 may mean that this server does not have the model.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Misconfigured(_)
            | Self::Unreachable(_)
            | Self::Overloaded
            | Self::TimedOut(TimeoutKind::Connect | TimeoutKind::FirstByte)
            | Self::Redirected { .. }
            | Self::Invalid(_) => true,
            Self::Refused { status, .. } => {
                matches!(status, 401..=404 | 408 | 429 | 500..)
            }
            Self::JournalUnavailable(_)
            | Self::TimedOut(TimeoutKind::Idle | TimeoutKind::Total)
            | Self::Reported(_)
            | Self::ConstraintViolation(_)
            | Self::CutOff => false,
        }
    }

    /// Returns whether the upstream refused the credential rather than the request: it is not valid, its account has
    /// no credit, or it was used too often.
    pub fn refuses_credential(&self) -> bool {
        matches!(self, Self::Refused { status: 401..=403 | 429, .. })
    }

    /// Returns whether the failure counts against the upstream's health. Errors inside an answer may be
    /// caused by the request, and a constraint violation is the model's, not the server's.
    pub fn is_upstream_fault(&self) -> bool {
        match self {
            Self::TimedOut(TimeoutKind::Connect | TimeoutKind::FirstByte | TimeoutKind::Idle) | Self::CutOff => true,
            // The request may have asked for a long answer.
            Self::TimedOut(TimeoutKind::Total)
            | Self::JournalUnavailable(_)
            | Self::Overloaded
            | Self::Reported(_)
            | Self::ConstraintViolation(_)
            // The client may have caused it, by a parameter that names something.
            | Self::Refused { status: 404, .. } => false,
            Self::Misconfigured(_)
            | Self::Unreachable(_)
            | Self::Invalid(_)
            | Self::Redirected { .. }
            | Self::Refused { .. } => self.is_retryable(),
        }
    }

    /// Returns how long a busy upstream asks to be left alone, if it says so in seconds or milliseconds.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let Self::Refused { status: 429 | 503, headers, .. } = self else { return None };
        RETRY_AFTER_HEADERS.iter().find_map(|(name, unit)| {
            let count: u32 = headers.get(name)?.to_str().ok()?.trim().parse().ok()?;
            unit.checked_mul(count)
        })
    }

    /// Returns a short name of the error, for records.
    pub fn label(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Misconfigured(_) => "misconfigured",
            Self::Unreachable(_) => "unreachable",
            Self::JournalUnavailable(_) => "kept_back",
            Self::TimedOut(TimeoutKind::Connect) => "connect_timeout",
            Self::TimedOut(TimeoutKind::FirstByte) => "first_byte_timeout",
            Self::TimedOut(TimeoutKind::Idle) => "idle_timeout",
            Self::TimedOut(TimeoutKind::Total) => "total_timeout",
            Self::Refused { status, .. } => return Cow::Owned(format!("http_{status}")),
            Self::Redirected { .. } => "redirect",
            Self::Reported(_) => "reported_error",
            Self::Invalid(_) => "invalid_answer",
            Self::ConstraintViolation(_) => "constraint_violation",
            Self::CutOff => "cut_off",
            Self::Overloaded => "overloaded",
        })
    }

    /// Returns a text for operators: the chain of causes, without the upstream's own text, which may repeat
    /// its credential or the client's prompt.
    pub fn for_operators(&self) -> String {
        match self {
            Self::Misconfigured(what) => format!("its catalogue entry cannot work: {what}"),
            Self::Unreachable(source) => {
                let mut text = "it cannot be reached".to_owned();
                let mut cause: Option<&dyn std::error::Error> = Some(&**source);
                while let Some(error) = cause {
                    _ = write!(text, ": {error}");
                    cause = error.source();
                }
                text
            }
            Self::JournalUnavailable(_) => "the gateway could not send it".to_owned(),
            Self::Overloaded => "it has as many requests as `max_connections` allows".to_owned(),
            Self::TimedOut(phase) => format!("it took too long {phase}"),
            Self::Refused { status, .. } => format!("it answered HTTP {status}"),
            Self::Redirected { status, to } => {
                let to = redirect(to.as_deref());
                format!("it answered HTTP {status}, {to}; redirects are not followed")
            }
            Self::Reported(_) => "it reported an error inside of its answer".to_owned(),
            Self::Invalid(what) => format!("its answer is not valid: {what}"),
            Self::ConstraintViolation(what) => what.clone(),
            Self::CutOff => "it closed the answer early".to_owned(),
        }
    }
}

/// Describes a redirect to another host, or to an unknown address.
fn redirect(to: Option<&str>) -> Cow<'static, str> {
    match to {
        Some(to) => Cow::Owned(format!("a redirect to `{to}`")),
        None => Cow::Borrowed("a redirect"),
    }
}

impl std::fmt::Display for TimeoutKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connect => "to accept a connection",
            Self::FirstByte => "before its answer began",
            Self::Idle => "in the middle of its answer",
            Self::Total => "to complete its answer",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_date_becomes_the_seconds_after_the_answer() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let cases = [
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(date), Some("30")),
            ("Sun, 06 Nov 1994 08:49:07 GMT", Some(date), Some("0")),
            ("Sun, 06 Nov 1994 08:50:07 GMT", None, None),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some("now"), None),
            ("30", Some(date), Some("30")),
            ("soon", Some(date), Some("soon")),
        ];
        for (until, answered, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(until));
            if let Some(answered) = answered {
                headers.insert(DATE, HeaderValue::from_static(answered));
            }
            convert_retry_date(&mut headers);
            let left = headers.get(RETRY_AFTER).map(|value| value.to_str().unwrap());
            assert_eq!(left, expected, "{until}, {answered:?}");
        }
    }
}
