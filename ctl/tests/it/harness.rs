//! Runs command lines in process, each user with a temporary home directory.

use std::path::{Path, PathBuf};

use ctl::profile::Environment;
use secrecy::SecretString;
use tempfile::TempDir;

use crate::fake::FakeGateway;

/// A user with a home directory and without a terminal.
pub(crate) struct TestUser {
    /// The environment of the user's commands.
    pub(crate) environment: Environment,
    home: TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    /// The exit code.
    pub(crate) code: u8,
    /// The contents of stdout.
    pub(crate) out: String,
    /// The contents of stderr.
    pub(crate) err: String,
}

/// Starts a fake gateway, and creates a user with a token for it in `TOLLGATE_TOKEN`.
pub(crate) async fn signed_in() -> (FakeGateway, TestUser) {
    let (fake, mut user) = signed_out().await;
    user.environment.token = Some(SecretString::from("token"));
    (fake, user)
}

/// Starts a fake gateway, and creates a user with its address in `TOLLGATE_SERVER` and no token.
pub(crate) async fn signed_out() -> (FakeGateway, TestUser) {
    let fake = FakeGateway::start().await;
    let mut user = TestUser::new();
    user.environment.server = Some(fake.server.clone());
    (fake, user)
}

// === impl TestUser ===

impl TestUser {
    /// Creates a user with an empty home directory.
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut environment = Environment::for_home(home.path());
        environment.now = "2026-11-20T12:00:00Z".parse().unwrap();
        Self { environment, home }
    }

    /// Returns a path in the home directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Returns the path of the profile file.
    pub(crate) fn profile(&self) -> PathBuf {
        self.environment.config_dir.as_deref().unwrap().join("profile.toml")
    }

    /// Writes an operator token to the data directory of a gateway on this host.
    pub(crate) fn write_operator_token(&self) {
        let dir = self.environment.data_dir.as_deref().unwrap();
        std::fs::create_dir_all(dir).unwrap();
        std::fs::write(dir.join("operator.token"), "operator-token\n").unwrap();
    }

    /// Runs a command line, split at spaces.
    pub(crate) async fn ctl(&self, line: &str) -> CommandResult {
        self.ctl_with(line, "").await
    }

    /// Runs a command line with `stdin`.
    pub(crate) async fn ctl_with(&self, line: &str, stdin: &str) -> CommandResult {
        let args: Vec<_> = std::iter::once("ctl").chain(line.split_whitespace()).collect();
        self.run(&args, stdin).await
    }

    /// Runs a command with separate arguments.
    pub(crate) async fn run(&self, args: &[&str], stdin: &str) -> CommandResult {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut stdin = stdin.as_bytes();
        let code = ctl::run(args, &self.environment, &mut stdin, &mut out, &mut err).await;
        CommandResult {
            code,
            out: String::from_utf8(out).unwrap(),
            err: String::from_utf8(err).unwrap(),
        }
    }
}

// === impl CommandResult ===

impl CommandResult {
    /// Returns stdout, after asserting that the command succeeded.
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
