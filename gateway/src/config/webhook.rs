//! The settings of webhooks: the `[webhook]` table, flags and environment variables.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use hyper::Uri;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::settings::merge;
use super::source;
use crate::webhooks::{EventKind, SigningSecret, WebhookConfig, WebhookUrl};
use domain::money::Nanos;

/// The largest accepted number of endpoints.
const MAX_URLS: usize = 8;
const DEFAULT_BALANCE_LOW_USD: &str = "1";
const DEFAULT_KEY_EXPIRING_DAYS: u32 = 7;

/// The settings of one source. `None` means that the source does not contain the setting.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookSettings {
    /// URLs to which events are sent as signed JSON; repeatable [default: none]
    #[arg(
        id = "webhook_urls",
        long = "webhook-urls",
        value_name = "URL",
        env = "TOLLGATE_WEBHOOK_URLS",
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub urls: Option<Vec<UrlText>>,
    /// File with the secret of the signatures, `whsec_` and 24 to 64 bytes in base64
    #[arg(
        id = "webhook_secret_file",
        long = "webhook-secret-file",
        value_name = "FILE",
        env = "TOLLGATE_WEBHOOK_SECRET_FILE"
    )]
    #[serde(serialize_with = "source::serialize_path")]
    pub secret_file: Option<PathBuf>,
    /// Environment variable with that secret
    #[arg(
        id = "webhook_secret_env",
        long = "webhook-secret-env",
        value_name = "NAME",
        env = "TOLLGATE_WEBHOOK_SECRET_ENV"
    )]
    pub secret_env: Option<String>,
    /// Events to send; repeatable [default: all]
    #[arg(
        id = "webhook_events",
        long = "webhook-events",
        value_name = "EVENT",
        env = "TOLLGATE_WEBHOOK_EVENTS",
        value_delimiter = ','
    )]
    pub events: Option<Vec<EventKind>>,
    /// Balance below which an account has a low balance, in US dollars [default: 1]
    #[arg(
        id = "webhook_balance_low_usd",
        long = "webhook-balance-low-usd",
        value_name = "USD",
        env = "TOLLGATE_WEBHOOK_BALANCE_LOW_USD"
    )]
    pub balance_low_usd: Option<String>,
    /// Days before its expiry at which a key expires soon [default: 7]
    #[arg(
        id = "webhook_key_expiring_days",
        long = "webhook-key-expiring-days",
        value_name = "DAYS",
        env = "TOLLGATE_WEBHOOK_KEY_EXPIRING_DAYS"
    )]
    pub key_expiring_days: Option<u32>,
}

/// A URL that is not parsed yet. `Debug` omits it, because its path may contain a secret.
#[derive(Clone, Deserialize, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct UrlText(String);

// === impl UrlText ===

impl From<String> for UrlText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for UrlText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UrlText")
    }
}

// === impl WebhookSettings ===

impl WebhookSettings {
    /// Returns these settings, with missing ones taken from `lower`.
    #[must_use]
    pub fn or(self, lower: Self) -> Self {
        merge! { self or lower:
            urls, secret_file, secret_env, events, balance_low_usd, key_expiring_days,
        }
    }

    /// Validates the settings, reads the secret and adds the defaults; `None` without URLs.
    ///
    /// # Errors
    /// A URL or an amount is invalid, or there is no secret. The error contains neither a URL nor the secret.
    pub fn resolve(self) -> Result<Option<WebhookConfig>> {
        let urls = self.urls.unwrap_or_default();
        let urls: Vec<_> = urls.iter().filter(|url| !url.0.is_empty()).collect();
        if urls.is_empty() {
            return Ok(None);
        }
        ensure!(urls.len() <= MAX_URLS, "`webhook.urls` has more than {MAX_URLS} URLs");
        let urls = urls.into_iter().map(|url| parse_url(&url.0)).collect::<Result<_>>()?;
        let non_empty = |path: &&Path| !path.as_os_str().is_empty();
        let secret = read_secret(
            self.secret_file.as_deref().filter(non_empty),
            self.secret_env.as_deref().filter(|name| !name.is_empty()),
        )?;
        let amount = self.balance_low_usd.as_deref().unwrap_or(DEFAULT_BALANCE_LOW_USD);
        let balance_below: Nanos = amount.parse().context("`webhook.balance_low_usd`")?;
        let days = self.key_expiring_days.unwrap_or(DEFAULT_KEY_EXPIRING_DAYS);
        Ok(Some(WebhookConfig {
            urls,
            secret,
            events: self.events.unwrap_or(EventKind::ALL.to_vec()).into_iter().collect(),
            balance_below,
            expiring_within: Duration::from_hours(24) * days,
        }))
    }
}

fn parse_url(text: &str) -> Result<WebhookUrl> {
    let url = text.parse::<Uri>().ok().filter(|url| {
        let is_http = matches!(url.scheme_str(), Some("http" | "https"));
        is_http && url.host().is_some_and(|host| !host.is_empty())
    });
    let url = url.context("`webhook.urls` has one that is not `http://…` or `https://…`")?;
    let authority = url.authority().map_or("", |authority| authority.as_str());
    ensure!(!authority.contains('@'), "`webhook.urls` has one with a user name; omit it");
    Ok(WebhookUrl(url))
}

/// Reads the secret.
#[expect(clippy::disallowed_methods, reason = "this module is part of the configuration")]
fn read_secret(file: Option<&Path>, variable: Option<&str>) -> Result<SigningSecret> {
    match (file, variable) {
        (Some(file), None) => {
            let text = std::fs::read_to_string(file).map(Zeroizing::new);
            let name = || format!("`{}` (`webhook.secret_file`)", file.display());
            let text = text.with_context(|| format!("reading {}", name()))?;
            SigningSecret::parse(&text).with_context(name)
        }
        (None, Some(variable)) => {
            let name = || format!("variable `{variable}` (`webhook.secret_env`)");
            let text = std::env::var(variable).map(Zeroizing::new).with_context(name)?;
            SigningSecret::parse(&text).with_context(name)
        }
        _ => bail!("`webhook.urls` needs one of `webhook.secret_file` and `webhook.secret_env`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str, secret: &str) -> (tempfile::NamedTempFile, WebhookSettings) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), secret).unwrap();
        let settings = WebhookSettings {
            urls: Some(vec![UrlText(url.to_owned())]),
            secret_file: Some(file.path().to_owned()),
            ..WebhookSettings::default()
        };
        (file, settings)
    }

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n";

    #[test]
    fn defaults_are_added_and_without_urls_there_is_nothing() {
        assert!(WebhookSettings::default().resolve().unwrap().is_none());
        let (_file, settings) = settings("https://hooks.example/T0KEN", SECRET);
        let shown = format!("{settings:?}");
        let config = settings.resolve().unwrap().unwrap();
        assert_eq!((config.balance_below, config.events.len()), (Nanos(1_000_000_000), 7));
        assert_eq!(config.expiring_within, Duration::from_hours(7 * 24));
        for text in [shown, format!("{config:?}")] {
            assert!(!text.contains("T0KEN") && !text.contains("MfKQ"), "{text}");
        }
    }

    #[test]
    fn errors_name_the_setting_and_no_secret() {
        for (url, secret, name) in [
            ("hooks.example/T0KEN", SECRET, "`webhook.urls`"),
            ("ftp://hooks.example/T0KEN", SECRET, "`webhook.urls`"),
            ("https://u:T0KEN@hooks.example", SECRET, "`webhook.urls`"),
            ("https://hooks.example/T0KEN", "MfKQ", "`webhook.secret_file`"),
        ] {
            let (_file, settings) = settings(url, secret);
            let error = format!("{:#}", settings.resolve().unwrap_err());
            assert!(error.contains(name), "{error}");
            assert!(!error.contains("T0KEN") && !error.contains("MfKQ"), "{error}");
        }
        let (_file, without) = settings("https://hooks.example/", SECRET);
        let without = WebhookSettings { secret_file: None, ..without };
        assert!(without.resolve().unwrap_err().to_string().contains("`webhook.secret_env`"));
    }
}
