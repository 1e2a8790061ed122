//! The checks of this host: permissions of secret files, connection to the gateway, token and
//! clock.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use proto::client::Connection;
use proto::v1::WhoAmIRequest;
use proto::v1::account_service_client::AccountServiceClient;

use super::{Diagnosis, Report};
use crate::api::{Api, BaseUrl, base_url};
use crate::commands::{enum_name, required};
use crate::error::Failure;
use crate::profile::{Endpoint, ProfileFile, TokenSource, is_local};
use crate::{Shell, clock, connect};

/// The timeout of the API probe.
const API_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum clock skew, in milliseconds; with more, times in the log are misleading.
const MAX_CLOCK_SKEW_MS: i64 = 2_000;

/// Checks the permissions of the files that hold tokens.
pub(super) fn check_files(shell: &mut Shell<'_>, report: &mut Report) -> Result<(), Failure> {
    let environment = shell.environment;
    let named = shell.globals.token_file.clone().or_else(|| environment.token_file.clone());
    let profile = environment.config_dir.as_deref().map(ProfileFile::path);
    // The named token file may be the operator's: it is reported once.
    let operator = environment.operator_token_file().filter(|path| Some(path) != named.as_ref());
    for path in [named, profile, operator].into_iter().flatten() {
        if let Some(diagnosis) = check_permissions(&path) {
            report.add(shell, diagnosis)?;
        }
    }
    Ok(())
}

/// Checks that only its owner can access a file; `None` if its metadata cannot be read.
fn check_permissions(path: &PathBuf) -> Option<Diagnosis> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    let shown = path.display().to_string();
    let others = mode & 0o077;
    Some(if others > 0 {
        let finding = format!("other users can read or change it (mode {mode:03o})");
        let remedy = format!("chmod 600 {}", shell_quoted(path));
        Diagnosis::ok("credentials", &shown, finding).problem(remedy)
    } else {
        Diagnosis::ok("credentials", &shown, "only its owner can read it")
    })
}

fn shell_quoted(path: &Path) -> String {
    let text = path.display().to_string();
    if text.contains(|c: char| c.is_whitespace() || c == '\'') {
        format!("'{}'", text.replace('\'', r"'\''"))
    } else {
        text
    }
}

/// Checks the connection to the gateway, the token and the API; returns the connection if the token
/// is valid.
pub(super) async fn check_connection(
    shell: &mut Shell<'_>,
    report: &mut Report,
) -> Result<Option<Connection>, Failure> {
    let advice = |failure: &Failure| failure.advice().unwrap_or_default().to_owned();
    let endpoint = match shell.endpoint() {
        Ok(endpoint) => endpoint,
        Err(failure) => {
            let finding = Diagnosis::ok("token", "", failure.to_string());
            report.add(shell, finding.problem(advice(&failure)))?;
            shell.gateway()?
        }
    };
    let server = endpoint.server.clone();
    let start = clock::now();
    let connection = match connect(&endpoint).await {
        Ok(connection) => connection,
        Err(failure) => {
            let finding = Diagnosis::ok("server", &server, failure.to_string());
            report.add(shell, finding.problem(advice(&failure)))?;
            return Ok(None);
        }
    };
    let elapsed_ms = Some(milliseconds(start, clock::now()));
    let reached = Diagnosis { elapsed_ms, ..Diagnosis::ok("server", &server, "it can be reached") };
    report.add(shell, reached)?;
    if server.starts_with("http:") && !is_local(&server) {
        let finding = Diagnosis::ok("server", &server, "tokens and passwords are sent unencrypted");
        let remedy = "put a TLS proxy in front of the admin plane, and use https://";
        report.add(shell, finding.warning(remedy))?;
    }
    let answer = AccountServiceClient::new(connection.clone()).who_am_i(WhoAmIRequest {}).await;
    let finding = match answer {
        Ok(answer) => {
            let account = required(answer.into_inner().account, "account")?;
            let role = enum_name(account.role().as_str_name(), "ROLE_").unwrap_or_default();
            let source = match &endpoint.source {
                TokenSource::File(path) => path.display().to_string(),
                TokenSource::Variable => "TOLLGATE_TOKEN".to_owned(),
                TokenSource::Profile => "the profile".to_owned(),
                TokenSource::Operator => "the gateway's data directory".to_owned(),
                TokenSource::Missing => "nowhere".to_owned(),
            };
            let finding = format!("account {}, role {role}; from {source}", account.name);
            Diagnosis::ok("token", "", finding)
        }
        Err(status) => {
            let failure = Failure::from(status);
            Diagnosis::ok("token", "", failure.to_string()).problem(advice(&failure))
        }
    };
    let is_valid = finding.severity == "ok";
    report.add(shell, finding)?;
    if is_valid && let Some(finding) = check_api(&endpoint).await {
        report.add(shell, finding)?;
    }
    Ok(is_valid.then_some(connection))
}

/// Checks that the API answers at the URL that `ctl` and `tui` print for clients; `None` if the
/// gateway does not announce a URL.
async fn check_api(endpoint: &Endpoint) -> Option<Diagnosis> {
    let BaseUrl { url, is_guess: false } = base_url(None, endpoint).await.ok()? else {
        return None;
    };
    let reached = match Api::new(&url, endpoint, API_TIMEOUT) {
        Ok(api) => api.probe().await,
        Err(failure) => Err(failure),
    };
    Some(match reached {
        Ok(()) => Diagnosis::ok("api", &url, "the API for clients answers"),
        Err(failure) => {
            let finding = format!("the API for clients does not answer this host: {failure}");
            let remedy =
                "if clients use another address, set `public_url` in the gateway's settings";
            Diagnosis::ok("api", &url, finding).warning(remedy)
        }
    })
}

/// Compares the gateway's clock with the interval between the request and its answer on this host's
/// clock.
pub(super) fn check_clock(sent: Timestamp, received: Timestamp, gateway_ms: i64) -> Diagnosis {
    let (sent, received) = (sent.as_millisecond(), received.as_millisecond());
    let skew = if gateway_ms < sent { gateway_ms - sent } else { (gateway_ms - received).max(0) };
    if skew.abs() <= MAX_CLOCK_SKEW_MS {
        return Diagnosis::ok("clock", "", "this host and the gateway have the same time");
    }
    let (seconds, side) = (skew.abs() / 1_000, if skew < 0 { "behind" } else { "ahead of" });
    let finding = format!("the gateway's clock is {seconds} s {side} this host's");
    let remedy = "synchronize both hosts with NTP (`timedatectl set-ntp true`)";
    Diagnosis::ok("clock", "", finding).warning(remedy)
}

fn milliseconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64() * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::check_clock;

    #[test]
    fn clock_skew_is_measured_beyond_the_round_trip_time() {
        let at = |second: i64| jiff::Timestamp::from_second(second).unwrap();
        for (gateway_ms, severity, text) in [
            (100_000, "ok", "same time"),
            (109_000, "ok", "same time"),
            (98_500, "ok", "same time"),
            (111_900, "ok", "same time"),
            (40_000, "warning", "60 s behind"),
            (170_000, "warning", "60 s ahead of"),
        ] {
            let diagnosis = check_clock(at(100), at(110), gateway_ms);
            assert_eq!(diagnosis.severity, severity, "{gateway_ms}");
            assert!(diagnosis.finding.contains(text), "{}", diagnosis.finding);
        }
    }
}
