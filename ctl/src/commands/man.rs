//! `ctl man`: manual pages, generated from the command tree.

use clap::CommandFactory;

use crate::Shell;
use crate::cli::{Cli, Man};
use crate::error::Failure;

/// Runs `ctl man`.
pub(super) fn run(shell: &mut Shell<'_>, input: Man) -> Result<(), Failure> {
    let command = Cli::command();
    let Some(dir) = input.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        return shell.output.text(&String::from_utf8_lossy(&page));
    };
    let write_failure = |error: std::io::Error| Failure::file("writing to", &dir, &error);
    std::fs::create_dir_all(&dir).map_err(write_failure)?;
    clap_mangen::generate_to(command, &dir).map_err(write_failure)?;
    shell.output.note(&format!(
        "wrote the manual to `{}`; read it with `man -l {}`",
        dir.display(),
        dir.join("ctl.1").display()
    ));
    Ok(())
}
