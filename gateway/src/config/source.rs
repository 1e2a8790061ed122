//! Where the settings came from, so that they can be read again while the gateway runs.

use std::path::PathBuf;

use anyhow::{Context, Result};
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{Config, LiveSettings, Settings};

/// The sources of the settings: a file and the flags, which include environment variables.
#[derive(Clone, Debug, Default)]
pub struct SettingsSource {
    /// The TOML file, if one was named.
    pub file: Option<PathBuf>,
    /// The settings with the highest precedence.
    pub flags: Settings,
}

/// The settings that a gateway uses, and where they came from.
#[derive(Clone, Debug)]
pub struct SettingsInUse {
    source: SettingsSource,
    settings: Settings,
}

/// The settings as they are now, compared with those in use.
#[derive(Clone, Debug)]
pub struct RereadSettings {
    /// The settings to apply.
    pub live: LiveSettings,
    /// The names of those that differ from the ones in use.
    pub changed: Vec<String>,
    /// The names of the settings that differ, but can only change with a start.
    pub need_restart: Vec<String>,
    /// The settings in use once `live` is applied.
    pub in_use: SettingsInUse,
}

impl SettingsSource {
    /// Reads the settings and validates them.
    ///
    /// # Errors
    /// The file cannot be read, or a setting is invalid.
    pub fn resolve(self) -> Result<Config> {
        let settings = self.read()?;
        let config = settings.clone().resolve()?;
        Ok(Config { in_use: Some(Box::new(SettingsInUse { source: self, settings })), ..config })
    }

    fn read(&self) -> Result<Settings> {
        let file = self.file.as_deref().map(Settings::read).transpose()?.unwrap_or_default();
        Ok(self.flags.clone().or(file))
    }
}

impl SettingsInUse {
    /// Reads the settings again, validates them, and compares them with those in use.
    ///
    /// # Errors
    /// The file cannot be read, or a setting is invalid.
    pub fn read_again(&self) -> Result<RereadSettings> {
        let new = self.source.read()?;
        new.clone().resolve()?;
        // With the others as they are: the default of `registration`, for example, depends on `admin_listen`.
        let settings = self.settings.clone().with_live(&new);
        let live = LiveSettings::of(settings.clone().resolve()?);
        let changed = differences(&self.settings, &settings)?;
        let need_restart = differences(&settings, &new)?;
        let in_use = Self { source: self.source.clone(), settings };
        Ok(RereadSettings { live, changed, need_restart, in_use })
    }
}

/// Serializes a path, which need not be text, as its bytes.
#[expect(clippy::ref_option, reason = "serde calls it so")]
pub(super) fn serialize_path<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.as_os_str().as_encoded_bytes()).serialize(serializer)
}

/// Returns the names of the settings that differ, as in the file: `edge.max_headers`.
fn differences(old: &Settings, new: &Settings) -> Result<Vec<String>> {
    // Not as TOML, which lacks large numbers: flags and variables can have them.
    let table = |settings| serde_json::to_value(settings).context("comparing the settings");
    let mut names = Vec::new();
    collect_differences("", &table(old)?, &table(new)?, &mut names);
    // Not in the table, because they may contain a password or a token.
    let differ = |old: &Option<SecretString>, new: &Option<SecretString>| {
        let [old, new] = [old, new].map(|it| it.as_ref().map(ExposeSecret::expose_secret));
        old != new
    };
    if differ(&old.store, &new.store) {
        names.push("store".to_owned());
    }
    if differ(&old.otlp.headers, &new.otlp.headers) {
        names.push("otlp.headers".to_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// Adds the names of the values under `name` that differ. Both values have the same structure.
fn collect_differences(name: &str, old: &Value, new: &Value, names: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, old) in old {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                collect_differences(&name, old, new.get(key).unwrap_or(&Value::Null), names);
            }
        }
        (old, new) if old != new => names.push(name.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::super::{RegistrationMode, ResponsesSettings};
    use super::*;
    use crate::control::Registration;

    #[test]
    fn changed_settings_are_named_and_invalid_ones_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("gateway.toml");
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        write("max_body_bytes = 9000\nregistration = \"closed\"\n[edge]\nmax_headers = 50\n");
        let flags = Settings {
            data_dir: Some("d".into()),
            max_body_bytes: Some(5_000),
            ..Settings::default()
        };
        let source = SettingsSource { file: Some(file.clone()), flags };
        let config = source.resolve().unwrap();
        assert_eq!(config.max_body_bytes, 5_000);
        let start = config.in_use.unwrap();
        let unchanged = start.read_again().unwrap();
        assert_eq!((unchanged.changed, unchanged.need_restart), (Vec::new(), Vec::new()));

        // A flag hides the first change.
        write(
            "max_body_bytes = 8000\nregistration = \"invite\"\nstore = \"postgres://db/x\"\nworkers = 2\n\
             [edge]\nmax_headers = 60\n[responses]\nretention_days = 3\nstore = false\n",
        );
        let changed = start.read_again().unwrap();
        assert_eq!(changed.changed, ["registration", "responses.retention_days"]);
        assert_eq!(
            changed.need_restart,
            ["edge.max_headers", "responses.store", "store", "workers"]
        );
        assert_eq!(changed.live.registration, Registration::Invite);
        let again = changed.in_use.read_again().unwrap();
        assert_eq!((again.changed, again.need_restart), (Vec::new(), changed.need_restart));

        write("drain_seconds = 1000000");
        assert!(start.read_again().unwrap_err().to_string().contains("`drain_seconds`"));
        write("no such setting");
        assert!(start.read_again().is_err());
    }

    /// The mode of `registration` without the setting depends on the address in use, not on a new one.
    #[test]
    fn a_default_is_that_of_the_settings_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("gateway.toml");
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        write("admin_listen = \"0.0.0.0:8081\"\nallow_plaintext = true\n");
        let flags = Settings { data_dir: Some("d".into()), ..Settings::default() };
        let source = SettingsSource { file: Some(file.clone()), flags };
        let start = source.resolve().unwrap().in_use.unwrap();
        write("admin_listen = \"127.0.0.1:8081\"\n");
        let changed = start.read_again().unwrap();
        assert_eq!(changed.live.registration, Registration::Invite);
        assert_eq!(changed.need_restart, ["admin_listen", "allow_plaintext"]);
    }

    #[test]
    fn settings_that_apply_without_a_restart_are_taken_together() {
        let new = Settings {
            cors_origins: Some(Vec::new()),
            records_keep_days: Some(1),
            records_max_rows: Some(1),
            registration: Some(RegistrationMode::Closed),
            registrations_per_hour: Some(1),
            trial_daily_usd: Some(1),
            unused_keys_keep_days: Some(1),
            responses: ResponsesSettings {
                account_mib: Some(1),
                retention_days: Some(1),
                ..ResponsesSettings::default()
            },
            ..Settings::default()
        };
        let old = Settings::default();
        let names = [
            "cors_origins",
            "records_keep_days",
            "records_max_rows",
            "registration",
            "registrations_per_hour",
            "responses.account_mib",
            "responses.retention_days",
            "trial_daily_usd",
            "unused_keys_keep_days",
        ];
        assert_eq!(differences(&old, &old.clone().with_live(&new)).unwrap(), names);
    }

    /// Regression test: a number or a path that TOML cannot express failed each reload.
    #[test]
    fn settings_that_a_file_cannot_have_are_compared() {
        let path = std::ffi::OsString::from_vec(vec![b'/', 255]);
        let flags = Settings {
            data_dir: Some(path.into()),
            records_max_rows: Some(u64::MAX),
            ..Settings::default()
        };
        let start = SettingsSource { file: None, flags }.resolve().unwrap().in_use.unwrap();
        let unchanged = start.read_again().unwrap();
        assert_eq!((unchanged.changed, unchanged.need_restart), (Vec::new(), Vec::new()));
    }
}
