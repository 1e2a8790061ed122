//! `ctl completions`: the script with which a shell asks `ctl` for completions.

use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::cli;
use crate::error::Failure;
use crate::{Shell, complete};

/// Runs `ctl completions`.
pub(super) fn run(shell: &mut Shell<'_>, kind: cli::Shell) -> Result<(), Failure> {
    let completer: &dyn EnvCompleter = match kind {
        cli::Shell::Bash => &Bash,
        cli::Shell::Zsh => &Zsh,
        cli::Shell::Fish => &Fish,
    };
    let script = complete::registration_script(completer)?;
    shell.output.text(&script)
}
