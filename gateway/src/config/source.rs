//! Where the settings came from, so that they can be read again while the gateway runs.

use std::path::PathBuf;

use anyhow::{Context, Result};
use secrecy::ExposeSecret;
use toml::{Table, Value};

use super::{Config, Settings};

/// The sources of the settings: a file and the flags, which include environment variables.
#[derive(Clone, Debug, Default)]
pub struct SettingsSource {
    /// The TOML file, if one was named.
    pub file: Option<PathBuf>,
    /// The settings with the highest precedence.
    pub flags: Settings,
}

/// The settings with which a gateway was started, and where they came from.
#[derive(Clone, Debug)]
pub struct StartSettings {
    source: SettingsSource,
    in_use: Settings,
}

impl SettingsSource {
    /// Reads the settings and validates them.
    ///
    /// # Errors
    /// The file cannot be read, or a setting is invalid.
    pub fn resolve(self) -> Result<Config> {
        let in_use = self.read()?;
        let config = in_use.clone().resolve()?;
        Ok(Config { start_settings: Some(StartSettings { source: self, in_use }), ..config })
    }

    fn read(&self) -> Result<Settings> {
        let file = self.file.as_deref().map(Settings::read).transpose()?.unwrap_or_default();
        Ok(self.flags.clone().or(file))
    }
}

impl StartSettings {
    /// Reads the settings again, validates them, and returns the names of those that differ from the start.
    ///
    /// # Errors
    /// The file cannot be read, or a setting is invalid.
    pub fn changes(&self) -> Result<Vec<String>> {
        let now = self.source.read()?;
        now.clone().resolve()?;
        differences(&self.in_use, &now)
    }
}

/// Returns the names of the settings that differ, as in the file: `edge.max_headers`.
fn differences(old: &Settings, new: &Settings) -> Result<Vec<String>> {
    let table = |settings| Table::try_from(settings).context("comparing the settings");
    let mut names = Vec::new();
    collect_differences(&table(old)?, &table(new)?, "", &mut names);
    // Not in the table, because it may contain a password.
    let [old, new] =
        [old, new].map(|settings| settings.store.as_ref().map(ExposeSecret::expose_secret));
    if old != new {
        names.push("store".to_owned());
    }
    names.sort_unstable();
    Ok(names)
}

fn collect_differences(old: &Table, new: &Table, prefix: &str, names: &mut Vec<String>) {
    let added = new.keys().filter(|name| !old.contains_key(*name));
    for name in old.keys().chain(added) {
        match (old.get(name), new.get(name)) {
            (Some(Value::Table(old)), Some(Value::Table(new))) => {
                collect_differences(old, new, &format!("{prefix}{name}."), names);
            }
            (old, new) if old != new => names.push(format!("{prefix}{name}")),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let start = config.start_settings.unwrap();
        assert_eq!(start.changes().unwrap(), Vec::<String>::new());

        // A flag hides the first change.
        write(
            "max_body_bytes = 8000\nstore = \"postgres://db/x\"\nworkers = 2\n[edge]\nmax_headers = 60\n",
        );
        assert_eq!(
            start.changes().unwrap(),
            ["edge.max_headers", "registration", "store", "workers"]
        );

        write("drain_seconds = 1000000");
        assert!(start.changes().unwrap_err().to_string().contains("`drain_seconds`"));
        write("no such setting");
        assert!(start.changes().is_err());
    }
}
