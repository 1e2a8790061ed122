//! `gateway operator-token enable`: the way back for an operator who can sign in as no owner, but has
//! access to the data directory.

use std::io::Write;

use anyhow::{Context, Result};

use super::backend::Backend;
use crate::clock::{SystemClock, SystemEntropy};
use crate::config::Config;
use crate::control::operator_token::enable_offline;
use crate::data_dir;

/// Enables the operator token in the data directory of a stopped gateway, and writes its path to `out`.
///
/// # Errors
/// A gateway uses the directory, none has run on it, or the store fails.
pub async fn enable_operator_token(config: &Config, out: &mut dyn Write) -> Result<()> {
    let dir = &config.data_dir;
    let _lock = data_dir::lock(dir).await.context("stop the gateway first")?;
    let clock = SystemClock::new();
    let backend = Backend::open(config, config.listen, &clock, &SystemEntropy).await?;
    let enabled = enable_offline(dir, &*backend.store(), &clock).await;
    // Its node does not leave: the journal may have records that the next start stores.
    backend.close().await;
    let path = enabled.context("enabling the operator token")?;
    writeln!(out, "the operator token in `{}` is accepted", path.display())
        .context("writing the result")
}
