//! Runs command lines in process, with a home of their own.

use std::path::{Path, PathBuf};

use ctl::profile::Environment;
use secrecy::SecretString;
use tempfile::TempDir;

use crate::fake::Fake;

/// A person with a home directory, at a keyboard that is no terminal.
pub(crate) struct Person {
    /// What the person's process has.
    pub(crate) environment: Environment,
    home: TempDir,
}

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code.
    pub(crate) code: u8,
    /// Its stdout.
    pub(crate) out: String,
    /// Its stderr.
    pub(crate) err: String,
}

/// Starts a fake gateway, and a person who is signed in there by `TOLLGATE_TOKEN`.
pub(crate) async fn signed_in() -> (Fake, Person) {
    let (fake, mut person) = stranger().await;
    person.environment.token = Some(SecretString::from("token"));
    (fake, person)
}

/// Starts a fake gateway, and a person who means it by `TOLLGATE_SERVER` and has no token.
pub(crate) async fn stranger() -> (Fake, Person) {
    let fake = Fake::start().await;
    let mut person = Person::new();
    person.environment.server = Some(fake.server.clone());
    (fake, person)
}

// === impl Person ===

impl Person {
    /// Makes one with an empty home.
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut environment = Environment::within(home.path());
        environment.now = "2026-11-20T12:00:00Z".parse().unwrap();
        Self { environment, home }
    }

    /// Returns a path in the person's home.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Returns where the person's profile is.
    pub(crate) fn profile(&self) -> PathBuf {
        self.environment.config_dir.as_deref().unwrap().join("profile.toml")
    }

    /// Puts an operator token where a gateway of this host leaves it.
    pub(crate) fn finds_operator_token(&self) {
        let dir = self.environment.data_dir.as_deref().unwrap();
        std::fs::create_dir_all(dir).unwrap();
        std::fs::write(dir.join("operator.token"), "operator-token\n").unwrap();
    }

    /// Runs a command line, split at spaces.
    pub(crate) async fn ctl(&self, line: &str) -> Ran {
        self.ctl_with(line, "").await
    }

    /// Runs a command line with something on stdin.
    pub(crate) async fn ctl_with(&self, line: &str, stdin: &str) -> Ran {
        let args: Vec<_> = std::iter::once("ctl").chain(line.split_whitespace()).collect();
        self.run(&args, stdin).await
    }

    /// Runs a command.
    pub(crate) async fn run(&self, args: &[&str], stdin: &str) -> Ran {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut stdin = stdin.as_bytes();
        let code = ctl::run(args, &self.environment, &mut stdin, &mut out, &mut err).await;
        Ran { code, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() }
    }
}

// === impl Ran ===

impl Ran {
    /// Returns stdout of a command that did what it should.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }
}

/// Returns a file's permission bits.
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
