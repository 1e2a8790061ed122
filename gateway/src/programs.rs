//! The commands that run `ctl` and `tui`, for printed hints that users copy.

use std::path::{Path, PathBuf};

/// How the user runs `ctl` and `tui`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    runner: Runner,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Runner {
    /// `cargo run`, because the programs may not be built yet.
    Cargo,
    /// The directory of the gateway binary, as the user typed it.
    Directory(PathBuf),
    /// The programs are in `PATH`.
    SearchPath,
}

// === impl Programs ===

impl Programs {
    /// Returns commands that start with `cargo run`.
    pub fn with_cargo_run() -> Self {
        Self { runner: Runner::Cargo }
    }

    /// Returns commands for programs in the directory `dir`.
    pub fn in_directory(dir: &Path) -> Self {
        Self { runner: Runner::Directory(dir.to_owned()) }
    }

    /// Returns commands for a gateway that was started as `gateway` (argument zero of the process): those in its
    /// directory if it has one and contains both programs, otherwise those in `PATH`.
    pub fn beside(gateway: &Path) -> Self {
        let directory = gateway.parent().filter(|dir| !dir.as_os_str().is_empty());
        let complete =
            directory.filter(|dir| dir.join("ctl").is_file() && dir.join("tui").is_file());
        complete.map_or(Self { runner: Runner::SearchPath }, Self::in_directory)
    }

    /// Returns the command that runs `ctl` with `arguments`.
    pub fn ctl(&self, arguments: &str) -> String {
        match &self.runner {
            Runner::Cargo => format!("cargo run --release -p ctl -- {arguments}"),
            Runner::Directory(dir) => format!("{} {arguments}", shell_quote(&dir.join("ctl"))),
            Runner::SearchPath => format!("ctl {arguments}"),
        }
    }

    /// Returns the command that runs `tui`.
    pub fn tui(&self) -> String {
        match &self.runner {
            Runner::Cargo => "cargo run --release -p tui".to_owned(),
            Runner::Directory(dir) => shell_quote(&dir.join("tui")),
            Runner::SearchPath => "tui".to_owned(),
        }
    }
}

/// Quotes a path for a POSIX shell, if necessary.
pub(crate) fn shell_quote(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%~".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_use_the_directory_of_the_gateway() {
        let dir = tempfile::tempdir().unwrap();
        let gateway = dir.path().join("gateway");
        assert_eq!(Programs::beside(&gateway).ctl("whoami"), "ctl whoami", "not in this directory");
        for name in ["ctl", "tui"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let beside = Programs::beside(&gateway);
        assert_eq!(beside.ctl("whoami"), format!("{}/ctl whoami", dir.path().display()));
        assert_eq!(beside.tui(), format!("{}/tui", dir.path().display()));
        assert_eq!(Programs::beside(Path::new("gateway")).tui(), "tui");
        let cargo = Programs::with_cargo_run();
        assert_eq!(cargo.ctl("whoami"), "cargo run --release -p ctl -- whoami");
    }

    #[test]
    fn quotes_paths_with_special_characters() {
        assert_eq!(shell_quote(Path::new("/opt/toll gate/it's")), r"'/opt/toll gate/it'\''s'");
        assert_eq!(shell_quote(Path::new("target/release/ctl")), "target/release/ctl");
    }
}
