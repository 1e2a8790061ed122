//! `ctl restore`: has the `gateway` program of this host restore a backup.
//!
//! Only that program knows the format of the database; it needs no running gateway.

use std::path::PathBuf;
use std::process::Command;

use crate::Shell;
use crate::cli::Restore;
use crate::error::{Exit, Failure};

/// Runs `ctl restore`.
pub(super) fn run(shell: &mut Shell<'_>, input: &Restore) -> Result<(), Failure> {
    let program = gateway_program();
    let mut restore = Command::new(&program);
    restore.arg("restore").arg(&input.file).arg("--to").arg(&input.to);
    if let Some(dir) = &input.secrets_from {
        restore.arg("--secrets-from").arg(dir);
    }
    let output = restore.output().map_err(|error| {
        Failure::new(Exit::Failed, format!("running `{}`: {error}", program.display()))
            .advise("install the `gateway` program beside `ctl`, or in the PATH")
    })?;
    shell.output.bytes(&output.stdout)?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.trim().trim_start_matches("gateway: ");
    Err(Failure::new(Exit::Failed, message.to_owned()))
}

/// Returns the program in the directory of `ctl`, or else its name, for the `PATH`.
fn gateway_program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|ctl| ctl.with_file_name("gateway"));
    beside.filter(|program| program.is_file()).unwrap_or_else(|| "gateway".into())
}
