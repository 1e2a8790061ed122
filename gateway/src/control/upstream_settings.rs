//! Validation of the settings of upstreams: addresses, deadlines, bounds and health checks.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::uri::PathAndQuery;
use trust::Trust;

use domain::ValidationError;
use domain::upstream::{ConnectionBound, HealthCheck, Proxy, ProxyChoice};

/// The longest text of certificates. It leaves room in a request to the admin plane, which is limited to 256 KiB.
pub(super) const MAX_CERTIFICATES_BYTES: usize = 128 * 1024;

const MAX_URL_BYTES: usize = 2_048;
const MAX_TIMEOUT: Duration = Duration::from_hours(24);
/// The highest bound on connections and on waiting requests.
const MAX_CONNECTIONS: u32 = 1_000_000;
/// The possible intervals of health checks.
const HEALTH_CHECK_INTERVALS: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(1);

/// Validates a base URL and strips trailing slashes. Error messages do not quote the URL, because
/// it may contain a password.
pub(super) fn check_url(url: &str) -> Result<String, ValidationError> {
    let invalid = |message: &str| Err(ValidationError::new("url", message));
    if url.len() > MAX_URL_BYTES {
        return invalid("`url` is too long");
    }
    if url.starts_with("sim:") {
        if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return invalid("`url` must not contain spaces or control characters");
        }
        return Ok(url.to_owned());
    }
    let Ok(parsed) = url.parse::<http::Uri>() else {
        return invalid("`url` must be `http://HOST[:PORT][/PATH]`, `https://…` or `sim:`");
    };
    let is_http = matches!(parsed.scheme_str(), Some("http" | "https"));
    match parsed.authority() {
        Some(authority) if is_http && !authority.host().is_empty() => {
            if authority.as_str().contains('@') {
                return invalid(
                    "`url` must not hold a name or password; give the upstream a credential",
                );
            }
        }
        Some(_) | None => {
            return invalid("`url` must be `http://HOST[:PORT][/PATH]`, `https://…` or `sim:`");
        }
    }
    if parsed.query().is_some() || url.contains('#') {
        return invalid("`url` must not have a query or a fragment: a path is added to it");
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// Validates the text form of the choice of a proxy, which is without its login.
pub(super) fn check_proxy(url: &str) -> Result<ProxyChoice, ValidationError> {
    match url {
        "" => return Ok(ProxyChoice::Environment),
        ProxyChoice::DIRECT => return Ok(ProxyChoice::Direct),
        _ => {}
    }
    let invalid = |message: &str| Err(ValidationError::new("proxy", message));
    if url.len() > MAX_URL_BYTES {
        return invalid("`proxy` is too long");
    }
    let parsed = url.parse::<http::Uri>().unwrap_or_default();
    let is_bare = matches!(parsed.path_and_query().map(PathAndQuery::as_str), None | Some("/"));
    match (parsed.scheme_str(), parsed.authority()) {
        (Some("http" | "socks5"), Some(authority)) if authority.as_str().contains('@') => {
            invalid("`proxy` must not hold a name or password; give the upstream a `proxy_login`")
        }
        (Some("http" | "socks5"), Some(authority)) if authority.port().is_some() && is_bare => {
            let url = url.trim_end_matches('/').to_owned();
            Ok(ProxyChoice::Configured(Proxy { url, login: None }))
        }
        _ => invalid("`proxy` must be `http://HOST:PORT`, `socks5://HOST:PORT` or `direct`"),
    }
}

/// Validates CA certificates in PEM; `None` if the text is empty.
pub(super) fn check_ca_certificates(pem: String) -> Result<Option<String>, ValidationError> {
    let invalid = |why: &dyn std::fmt::Display| {
        ValidationError::new("ca_certificates", format!("`ca_certificates` cannot be used: {why}"))
    };
    if pem.is_empty() {
        return Ok(None);
    }
    if pem.len() > MAX_CERTIFICATES_BYTES {
        return Err(invalid(&format_args!("it has more than {MAX_CERTIFICATES_BYTES} bytes")));
    }
    Trust::only(pem.as_bytes()).map_err(|error| invalid(&error))?;
    Ok(Some(pem))
}

/// Returns the bound on connections after a change; a number that is `None` does not change.
pub(super) fn changed_bound(
    bound: Option<ConnectionBound>,
    max_connections: Option<u32>,
    max_waiting: Option<u32>,
) -> Result<Option<ConnectionBound>, ValidationError> {
    for (field, number) in [("max_connections", max_connections), ("max_waiting", max_waiting)] {
        if number.is_some_and(|number| number > MAX_CONNECTIONS) {
            let message = format!("`{field}` must be at most {MAX_CONNECTIONS}");
            return Err(ValidationError::new(field, message));
        }
    }
    let max_connections = max_connections.or(bound.map(|bound| bound.max_connections));
    let Some(max_connections) = max_connections.filter(|&number| number > 0) else {
        if max_waiting.is_some() {
            let message = "`max_waiting` is for an upstream with `max_connections`; set both";
            return Err(ValidationError::new("max_waiting", message));
        }
        return Ok(None);
    };
    let max_waiting = max_waiting.or(bound.map(|bound| bound.max_waiting));
    let max_waiting = max_waiting.unwrap_or(ConnectionBound::DEFAULT_WAITING);
    Ok(Some(ConnectionBound { max_connections, max_waiting }))
}

/// Returns the health check after a change; what is `None` does not change.
pub(super) fn changed_health_check(
    check: Option<&HealthCheck>,
    path: Option<String>,
    interval: Option<Duration>,
) -> Result<Option<HealthCheck>, ValidationError> {
    let path = path.or_else(|| check.map(|check| check.path.clone()));
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        if interval.is_some_and(|interval| !interval.is_zero()) {
            let message =
                "`health_check_interval_ms` is for an upstream with `health_check`; set both";
            return Err(ValidationError::new("health_check_interval_ms", message));
        }
        return Ok(None);
    };
    let parsed = path.parse::<PathAndQuery>();
    if !path.starts_with('/') || path.contains('#') || path.len() > MAX_URL_BYTES || parsed.is_err()
    {
        let message = "`health_check` must be a path such as `/health`";
        return Err(ValidationError::new("health_check", message));
    }
    let interval = interval.or(check.map(|check| check.interval));
    let interval = interval.filter(|interval| !interval.is_zero());
    let interval = interval.unwrap_or(HealthCheck::DEFAULT_INTERVAL);
    if !HEALTH_CHECK_INTERVALS.contains(&interval) {
        let (least, most) = HEALTH_CHECK_INTERVALS.into_inner();
        let (least, most) = (least.as_millis(), most.as_millis());
        let message = format!("`health_check_interval_ms` must be {least} to {most}");
        return Err(ValidationError::new("health_check_interval_ms", message));
    }
    Ok(Some(HealthCheck { path, interval }))
}

pub(super) fn check_deadline(
    field: &'static str,
    new: Option<Duration>,
    old: Option<Duration>,
) -> Result<Option<Duration>, ValidationError> {
    let deadline = new.or(old).filter(|deadline| !deadline.is_zero());
    if deadline.is_some_and(|deadline| deadline > MAX_TIMEOUT) {
        let most = MAX_TIMEOUT.as_millis();
        return Err(ValidationError::new(field, format!("`{field}` must be at most {most}")));
    }
    Ok(deadline)
}
