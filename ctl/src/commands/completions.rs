//! `ctl completions`: a script for the shell, made from the command tree.

use clap::CommandFactory;
use clap_complete::aot;

use crate::Shell;
use crate::cli::{self, Cli};
use crate::error::Failure;

/// Runs `ctl completions`.
pub(super) fn run(shell: &mut Shell<'_>, kind: cli::Shell) -> Result<(), Failure> {
    let generator = match kind {
        cli::Shell::Bash => aot::Shell::Bash,
        cli::Shell::Zsh => aot::Shell::Zsh,
        cli::Shell::Fish => aot::Shell::Fish,
    };
    let mut script = Vec::new();
    aot::generate(generator, &mut Cli::command(), "ctl", &mut script);
    shell.output.text(&String::from_utf8_lossy(&script))
}
