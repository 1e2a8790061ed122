//! What can be examined from this host alone: files with secrets, the way to the gateway, the token, the
//! clock.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use proto::client::Connection;
use proto::v1::WhoAmIRequest;
use proto::v1::account_service_client::AccountServiceClient;

use super::{Diagnosis, Report};
use crate::commands::api::{Api, BaseUrl, base_url};
use crate::commands::{present, word};
use crate::error::Failure;
use crate::profile::{Endpoint, ProfileFile, TokenSource, is_local};
use crate::{Shell, clock, connect};

/// How long the API may take to refuse a stranger.
const API_TIMEOUT: Duration = Duration::from_secs(10);
/// Clocks may differ by so much, in milliseconds, before times in the log mislead.
const TOLERATED_SKEW_MS: i64 = 2_000;

/// Examines who may read the files that hold tokens.
pub(super) fn files(shell: &mut Shell<'_>, report: &mut Report) -> Result<(), Failure> {
    let environment = shell.environment;
    let named = shell.globals.token_file.clone().or_else(|| environment.token_file.clone());
    let profile = environment.config_dir.as_deref().map(ProfileFile::path);
    // The token that is named may be the operator's.
    let operator = environment.operator_token_file().filter(|path| Some(path) != named.as_ref());
    for path in [named, profile, operator].into_iter().flatten() {
        if let Some(finding) = permissions(&path) {
            report.add(shell, finding)?;
        }
    }
    Ok(())
}

/// Says who may read a file; nothing of one that is not there, or not ours to see.
fn permissions(path: &PathBuf) -> Option<Diagnosis> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    let shown = path.display().to_string();
    let others = mode & 0o077;
    Some(if others > 0 {
        let finding = format!("others may read or change it (mode {mode:03o})");
        let remedy = format!("chmod 600 {}", quoted(path));
        Diagnosis::of("credentials", &shown, finding).problem(remedy)
    } else {
        Diagnosis::of("credentials", &shown, "only its owner may read it")
    })
}

fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    if text.contains(|c: char| c.is_whitespace() || c == '\'') {
        format!("'{}'", text.replace('\'', r"'\''"))
    } else {
        text
    }
}

/// Examines the way to the gateway and who is asking; returns the connection if there is one.
pub(super) async fn gateway(
    shell: &mut Shell<'_>,
    report: &mut Report,
) -> Result<Option<Connection>, Failure> {
    let advice = |failure: &Failure| failure.advice().unwrap_or_default().to_owned();
    let endpoint = match shell.endpoint() {
        Ok(endpoint) => endpoint,
        Err(failure) => {
            let finding = Diagnosis::of("token", "", failure.to_string());
            report.add(shell, finding.problem(advice(&failure)))?;
            shell.gateway()?
        }
    };
    let server = endpoint.server.clone();
    let begun = clock::now();
    let connection = match connect(&endpoint).await {
        Ok(connection) => connection,
        Err(failure) => {
            let finding = Diagnosis::of("server", &server, failure.to_string());
            report.add(shell, finding.problem(advice(&failure)))?;
            return Ok(None);
        }
    };
    let elapsed_ms = Some(milliseconds(begun, clock::now()));
    let found = Diagnosis { elapsed_ms, ..Diagnosis::of("server", &server, "it can be reached") };
    report.add(shell, found)?;
    if server.starts_with("http:") && !is_local(&server) {
        let finding = Diagnosis::of("server", &server, "tokens and passwords go there in clear");
        let remedy = "put a TLS proxy in front of the admin plane, and use https://";
        report.add(shell, finding.warning(remedy))?;
    }
    let who = AccountServiceClient::new(connection.clone()).who_am_i(WhoAmIRequest {}).await;
    let finding = match who {
        Ok(answer) => {
            let account = present(answer.into_inner().account, "account")?;
            let role = word(account.role().as_str_name(), "ROLE_").unwrap_or_default();
            let from = match &endpoint.source {
                TokenSource::File(path) => path.display().to_string(),
                TokenSource::Variable => "TOLLGATE_TOKEN".to_owned(),
                TokenSource::Profile => "the profile".to_owned(),
                TokenSource::Operator => "the gateway's data directory".to_owned(),
                TokenSource::Nowhere => "nowhere".to_owned(),
            };
            let finding = format!("it is {}'s, role {role}; from {from}", account.name);
            Diagnosis::of("token", "", finding)
        }
        Err(status) => {
            let failure = Failure::from(status);
            Diagnosis::of("token", "", failure.to_string()).problem(advice(&failure))
        }
    };
    let valid = finding.severity == "ok";
    report.add(shell, finding)?;
    if valid && let Some(finding) = api(&endpoint).await {
        report.add(shell, finding)?;
    }
    Ok(valid.then_some(connection))
}

/// Examines whether the API is where ctl and tui tell clients that it is; nothing of a gateway that does not
/// say where that is.
async fn api(endpoint: &Endpoint) -> Option<Diagnosis> {
    let BaseUrl { url, is_guess: false } = base_url(None, endpoint).await.ok()? else {
        return None;
    };
    let reached = match Api::new(&url, endpoint, API_TIMEOUT) {
        Ok(api) => api.knock().await,
        Err(failure) => Err(failure),
    };
    Some(match reached {
        Ok(()) => Diagnosis::of("api", &url, "clients are sent there, and it answers"),
        Err(failure) => {
            let finding = format!("clients are sent there, but from here: {failure}");
            let remedy =
                "if clients have another address, set `public_url` in the gateway's settings";
            Diagnosis::of("api", &url, finding).warning(remedy)
        }
    })
}

/// Compares the gateway's clock with this host's, as it was between asking and the answer.
pub(super) fn clock(asked: Timestamp, answered: Timestamp, gateway_ms: i64) -> Diagnosis {
    let (asked, answered) = (asked.as_millisecond(), answered.as_millisecond());
    let skew = if gateway_ms < asked { gateway_ms - asked } else { (gateway_ms - answered).max(0) };
    if skew.abs() <= TOLERATED_SKEW_MS {
        return Diagnosis::of("clock", "", "this host and the gateway have the same time");
    }
    let (seconds, side) = (skew.abs() / 1_000, if skew < 0 { "behind" } else { "ahead of" });
    let finding = format!("the gateway's clock is {seconds} s {side} this host's");
    let remedy = "have both hosts keep their time with NTP (`timedatectl set-ntp true`)";
    Diagnosis::of("clock", "", finding).warning(remedy)
}

fn milliseconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64() * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::clock;

    #[test]
    fn a_clock_is_wrong_only_beyond_the_time_that_the_answer_took() {
        let at = |second: i64| jiff::Timestamp::from_second(second).unwrap();
        for (gateway_ms, severity, said) in [
            (100_000, "ok", "same time"),
            (109_000, "ok", "same time"),
            (98_500, "ok", "same time"),
            (111_900, "ok", "same time"),
            (40_000, "warning", "60 s behind"),
            (170_000, "warning", "60 s ahead of"),
        ] {
            let finding = clock(at(100), at(110), gateway_ms);
            assert_eq!(finding.severity, severity, "{gateway_ms}");
            assert!(finding.finding.contains(said), "{}", finding.finding);
        }
    }
}
