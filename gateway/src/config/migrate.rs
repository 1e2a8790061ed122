//! The arguments of `gateway migrate`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use secrecy::SecretString;

use super::{Settings, StoreConfig, default_data_dir, store};
use ::store::postgres::PostgresAddress;

/// The arguments of `gateway migrate`.
#[derive(Args, Clone, Debug)]
pub struct MigrateArgs {
    /// An empty database that receives a copy of the SQLite database: `postgres://USER@HOST/DATABASE` [default: only the
    /// schema of the SQLite database is upgraded]
    #[arg(long, value_name = "URL", env = "TOLLGATE_STORE", hide_env_values = true, value_parser = store::secret_parser())]
    to: Option<SecretString>,
    /// Print what would be done, and change nothing; the gateway may run
    #[arg(long)]
    dry_run: bool,
    /// A file with the password of the database, instead of one in the URL
    #[arg(long, value_name = "FILE", env = "TOLLGATE_STORE_PASSWORD_FILE")]
    store_password_file: Option<PathBuf>,
    /// Data directory of the stopped gateway [default: the XDG data home, `tollgate` in it]
    #[arg(long, value_name = "DIR", env = "TOLLGATE_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// The TOML file of the gateway, for its `data_dir`; other settings are ignored
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CONFIG")]
    config: Option<PathBuf>,
}

/// What is migrated where.
#[derive(Clone, Debug)]
pub struct Migration {
    /// The data directory with the `SQLite` database.
    pub data_dir: PathBuf,
    /// The database that receives the copy; `None` to upgrade the schema of the `SQLite` database.
    pub target: Option<PostgresAddress>,
    /// Whether to print what would be done, and to change nothing.
    pub is_dry_run: bool,
}

impl MigrateArgs {
    /// Validates the arguments. Errors do not show the URL, which may contain a password.
    ///
    /// # Errors
    /// The URL or a file is not usable, or no data directory is known.
    pub fn resolve(self) -> Result<Migration> {
        let file = self.config.as_deref().map(Settings::read).transpose()?.unwrap_or_default();
        let data_dir = self.data_dir.or(file.data_dir);
        let data_dir = data_dir.filter(|dir| !dir.as_os_str().is_empty());
        let target = match &self.to {
            None => None,
            Some(to) => {
                let target = StoreConfig::resolve(Some(to), self.store_password_file.as_deref());
                let StoreConfig::Postgres(target) = target.context("reading --to")? else {
                    bail!("--to must be a URL like `postgres://user@host/database`")
                };
                Some(target)
            }
        };
        Ok(Migration {
            data_dir: data_dir.map_or_else(default_data_dir, Ok)?,
            target,
            is_dry_run: self.dry_run,
        })
    }
}
