//! The settings of the database and of what its records survive.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use clap::builder::{StringValueParser, TypedValueParser};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize};

use domain::durability::Durability;
use store::postgres::PostgresAddress;

/// The database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreConfig {
    /// `SQLite` in the data directory.
    Sqlite,
    /// `PostgreSQL`.
    Postgres(PostgresAddress),
}

/// The durability of request records, as written in a setting.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum DurabilitySetting {
    /// A crash of the process
    Process,
    /// Also a power failure: every request waits twice for the disk
    Power,
}

impl From<DurabilitySetting> for Durability {
    fn from(setting: DurabilitySetting) -> Self {
        match setting {
            DurabilitySetting::Process => Self::Process,
            DurabilitySetting::Power => Self::Power,
        }
    }
}

impl StoreConfig {
    /// Resolves `store` and `store_password_file`. Errors do not show the URL, which may contain a
    /// password.
    pub(super) fn resolve(store: Option<&SecretString>, password: Option<&Path>) -> Result<Self> {
        let store = store.map_or("", |store| store.expose_secret());
        if matches!(store, "" | "sqlite") {
            ensure!(
                password.is_none(),
                "`store_password_file` needs `store`, the URL of a database"
            );
            return Ok(Self::Sqlite);
        }
        if !PostgresAddress::is_meant(store) {
            bail!("`store` must be `sqlite` or a URL like `postgres://user@host/database`");
        }
        let address = PostgresAddress::parse(store).context("`store` is not usable")?;
        let Some(file) = password else { return Ok(Self::Postgres(address)) };
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("reading `{}` (`store_password_file`)", file.display()))?;
        let text = zeroize::Zeroizing::new(text);
        Ok(Self::Postgres(address.with_password(&text.trim_end().into())))
    }
}

/// Returns the parser of a setting that may contain a password, for clap. It accepts every text, because clap
/// shows what a parser refuses.
pub(super) fn secret_parser() -> impl TypedValueParser<Value = SecretString> {
    StringValueParser::new().map(SecretString::from)
}

/// Reads a setting that may contain a password, for serde.
pub(super) fn deserialize_secret<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SecretString>, D::Error> {
    String::deserialize(deserializer).map(|text| Some(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_sqlite_or_a_url() {
        let resolve = |text: &str| StoreConfig::resolve(Some(&text.into()), None);
        assert_eq!(StoreConfig::resolve(None, None).unwrap(), StoreConfig::Sqlite);
        assert_eq!(resolve("sqlite").unwrap(), StoreConfig::Sqlite);
        let StoreConfig::Postgres(address) = resolve("postgres://u:secret@h/d").unwrap() else {
            panic!("not PostgreSQL")
        };
        assert_eq!(address.to_string(), "postgres://u@h:5432/d");
        for wrong in ["mysql://u:secret@h/d", "postgres://u:secret@h:x/d", "u:secret@h/d"] {
            let error = format!("{:#}", resolve(wrong).unwrap_err());
            assert!(error.contains("`store`") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn the_password_can_be_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "pass word\n").unwrap();
        let resolve = |text: &str| StoreConfig::resolve(Some(&text.into()), Some(&file));
        let expected = PostgresAddress::parse("postgres://u:pass%20word@h/d").unwrap();
        assert_eq!(resolve("postgres://u@h/d").unwrap(), StoreConfig::Postgres(expected));
        assert!(resolve("").unwrap_err().to_string().contains("`store_password_file`"));
        std::fs::remove_file(&file).unwrap();
        let error = resolve("postgres://u@h/d").unwrap_err().to_string();
        assert!(error.contains("store_password_file"), "{error}");
    }
}
