//! Processes whose wall clock is wrong by some minutes.
//!
//! A library with the C functions that read clocks is compiled at run time and preloaded. libfaketime
//! is not usable: the gateway crashes with it.

use std::path::{Path, PathBuf};

use tokio::process::Command;

const SOURCE: &str = include_str!("clock_shift.c");

/// The compiled library.
pub struct ClockShift {
    library: PathBuf,
}

impl ClockShift {
    /// Compiles the library in the directory `dir`. Returns `None` and says so if this host has no C
    /// compiler or does not preload libraries.
    ///
    /// # Panics
    /// If the compiler rejects the source.
    pub async fn compile(dir: &Path) -> Option<Self> {
        let (source, library) = (dir.join("clock_shift.c"), dir.join("clock_shift.so"));
        std::fs::write(&source, SOURCE).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"]);
        compiler.arg(&library).arg(&source);
        let status = if cfg!(target_os = "linux") { compiler.status().await.ok() } else { None };
        let Some(status) = status else {
            eprintln!("clocks are not shifted: that needs Linux and a C compiler, `cc`");
            return None;
        };
        assert!(status.success(), "compiling clock_shift.c: {status}");
        Some(Self { library })
    }

    /// Shifts the wall clock of the process that `command` starts.
    pub fn apply(&self, command: &mut std::process::Command, seconds: i64) {
        command.env("LD_PRELOAD", &self.library);
        command.env("TOLLGATE_TEST_CLOCK_OFFSET", seconds.to_string());
    }
}
