//! The commands that run `ctl` and `tui`, as they belong into a hint that is copied from the terminal.

use std::path::{Path, PathBuf};

/// How the user runs the other programs of this product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    runner: Runner,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Runner {
    /// `cargo run`: the other programs may not be built yet.
    Cargo,
    /// The directory that the user named to run the gateway.
    Directory(PathBuf),
    /// The shell finds them in `PATH`.
    SearchPath,
}

// === impl Programs ===

impl Programs {
    /// Programs that `cargo run` builds and runs.
    pub fn of_cargo() -> Self {
        Self { runner: Runner::Cargo }
    }

    /// Programs in the directory `dir`.
    pub fn in_directory(dir: &Path) -> Self {
        Self { runner: Runner::Directory(dir.to_owned()) }
    }

    /// Programs for a gateway that was started as `gateway` (the process's argument zero): those beside it if
    /// that names a directory and they are there, else those in `PATH`.
    pub fn beside(gateway: &Path) -> Self {
        let named = gateway.parent().filter(|dir| !dir.as_os_str().is_empty());
        let complete = named.filter(|dir| dir.join("ctl").is_file() && dir.join("tui").is_file());
        complete.map_or(Self { runner: Runner::SearchPath }, Self::in_directory)
    }

    /// Returns the command that runs `ctl` with `arguments`.
    pub fn ctl(&self, arguments: &str) -> String {
        match &self.runner {
            Runner::Cargo => format!("cargo run --release -p ctl -- {arguments}"),
            Runner::Directory(dir) => format!("{} {arguments}", quoted(&dir.join("ctl"))),
            Runner::SearchPath => format!("ctl {arguments}"),
        }
    }

    /// Returns the command that runs `tui`.
    pub fn tui(&self) -> String {
        match &self.runner {
            Runner::Cargo => "cargo run --release -p tui".to_owned(),
            Runner::Directory(dir) => quoted(&dir.join("tui")),
            Runner::SearchPath => "tui".to_owned(),
        }
    }
}

/// A path as a shell takes it.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%~".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_as_the_gateway_was() {
        let dir = tempfile::tempdir().unwrap();
        let gateway = dir.path().join("gateway");
        assert_eq!(Programs::beside(&gateway).ctl("whoami"), "ctl whoami", "they are elsewhere");
        for name in ["ctl", "tui"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let beside = Programs::beside(&gateway);
        assert_eq!(beside.ctl("whoami"), format!("{}/ctl whoami", dir.path().display()));
        assert_eq!(beside.tui(), format!("{}/tui", dir.path().display()));
        assert_eq!(Programs::beside(Path::new("gateway")).tui(), "tui");
        assert_eq!(Programs::of_cargo().ctl("whoami"), "cargo run --release -p ctl -- whoami");
    }

    #[test]
    fn a_path_that_a_shell_would_split_is_quoted() {
        assert_eq!(quoted(Path::new("/opt/toll gate/it's")), r"'/opt/toll gate/it'\''s'");
        assert_eq!(quoted(Path::new("target/release/ctl")), "target/release/ctl");
    }
}
