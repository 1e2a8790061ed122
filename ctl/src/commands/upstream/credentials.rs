//! The credentials of an upstream: their flags, and their printed form.

use proto::v1::credential::Source;
use proto::v1::{Credential, CredentialHealth, CredentialList};
use secrecy::ExposeSecret;
use serde::Serialize;

use super::super::{non_empty, read_secret_line, rfc3339};
use crate::Shell;
use crate::cli::upstream as cli;
use crate::error::Failure;

/// A credential, as printed.
#[derive(Serialize)]
pub(super) struct CredentialRecord {
    /// Counted from 1.
    number: u32,
    /// `env`, `file` or `secret`.
    source: &'static str,
    /// The name of the variable or the path of the file.
    name: Option<String>,
    /// Until when other credentials are used first; this and all following fields are absent without its health.
    paused_until: Option<String>,
    requests: Option<u64>,
    refusals: Option<u64>,
    /// The HTTP status of the last refusal.
    last_refusal: Option<u32>,
    /// Why the gateway could not read it.
    problem: Option<String>,
}

/// Converts the flags to credentials; reads those of `--key-stdin`, one from each line.
pub(super) fn given(
    shell: &mut Shell<'_>,
    flags: cli::Credentials,
) -> Result<Vec<Credential>, Failure> {
    let mut sources: Vec<_> = flags.env.into_iter().map(Source::Env).collect();
    sources.extend(flags.file.into_iter().map(Source::File));
    for _ in 0..flags.stdin {
        sources.push(from_stdin(shell, "credential")?);
    }
    Ok(sources.into_iter().map(credential).collect())
}

/// Returns the new credentials of an upstream: those with the numbers `kept`, then those of the flags. `None` if
/// there are none.
pub(super) fn changed(
    shell: &mut Shell<'_>,
    kept: Vec<u32>,
    flags: cli::Credentials,
) -> Result<Option<CredentialList>, Failure> {
    let mut credentials: Vec<_> = kept.into_iter().map(Source::Current).map(credential).collect();
    credentials.extend(given(shell, flags)?);
    Ok((!credentials.is_empty()).then_some(CredentialList { credentials }))
}

/// Reads a secret from a line of stdin; `what` names it in errors.
pub(super) fn from_stdin(shell: &mut Shell<'_>, what: &str) -> Result<Source, Failure> {
    let secret = read_secret_line(shell, what)?;
    Ok(Source::Secret(secret.expose_secret().trim().to_owned()))
}

pub(super) fn credential(source: Source) -> Credential {
    Credential { source: Some(source) }
}

/// Returns the printed forms of credentials, without their health.
pub(super) fn records(credentials: Vec<Credential>) -> Vec<CredentialRecord> {
    let sources = credentials.into_iter().filter_map(|credential| credential.source);
    (1..).zip(sources).map(|(number, source)| CredentialRecord::new(number, source)).collect()
}

/// Returns the printed forms of credentials with their health.
pub(super) fn health_records(credentials: Vec<CredentialHealth>) -> Vec<CredentialRecord> {
    let record = |health: CredentialHealth| {
        let source = health.source?.source?;
        Some(CredentialRecord {
            paused_until: rfc3339(health.paused_until),
            requests: Some(health.requests),
            refusals: Some(health.refusals),
            last_refusal: Some(health.last_refusal).filter(|status| *status != 0),
            problem: non_empty(health.problem),
            ..CredentialRecord::new(health.number, source)
        })
    };
    credentials.into_iter().filter_map(record).collect()
}

/// Returns the kind of a source, and the name of the variable or the path of the file.
pub(super) fn source_and_name(source: Source) -> (&'static str, Option<String>) {
    match source {
        Source::Env(name) => ("env", Some(name)),
        Source::File(path) => ("file", Some(path)),
        // Responses contain no `current`.
        Source::Secret(_) | Source::Current(_) => ("secret", None),
    }
}

/// Returns the texts of several credentials; `None` if there are fewer, whose text is that of other fields.
pub(super) fn joined(
    credentials: &[CredentialRecord],
    text: impl Fn(&CredentialRecord) -> &str,
) -> Option<String> {
    let texts = credentials.iter().map(text).filter(|text| !text.is_empty());
    (credentials.len() > 1).then(|| texts.collect::<Vec<_>>().join(", "))
}

// === impl CredentialRecord ===

impl CredentialRecord {
    fn new(number: u32, source: Source) -> Self {
        let (source, name) = source_and_name(source);
        Self {
            number,
            source,
            name,
            paused_until: None,
            requests: None,
            refusals: None,
            last_refusal: None,
            problem: None,
        }
    }

    /// Returns the source.
    pub(super) fn source(&self) -> &'static str {
        self.source
    }

    /// Returns the name of the variable or the path of the file; empty for a stored credential.
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Returns whether other credentials are used first.
    pub(super) fn is_paused(&self) -> bool {
        self.paused_until.is_some()
    }

    /// Returns whether the gateway could not read it.
    pub(super) fn is_missing(&self) -> bool {
        self.problem.is_some()
    }

    /// Describes the credential and its state in one line.
    pub(super) fn describe(&self) -> String {
        let source = format!("{}: {} {}", self.number, self.source, self.name());
        if let Some(problem) = &self.problem {
            return format!("{}, missing: {problem}", source.trim_end());
        }
        let mut parts = vec![source.trim_end().to_owned()];
        parts.extend(self.requests.map(|requests| format!("{requests} requests")));
        if let Some(refusals @ 1..) = self.refusals {
            let last = self.last_refusal.map(|status| format!(" (last with HTTP {status})"));
            parts.push(format!("{refusals} refused{}", last.unwrap_or_default()));
        }
        parts.extend(self.paused_until.as_ref().map(|until| format!("paused until {until}")));
        parts.join(", ")
    }
}
