//! A user of `ctl`.

use ctl::profile::Environment;
use serde_json::Value;
use tempfile::TempDir;
use tests::Product;

/// A user with a home directory.
pub(super) struct User {
    pub(super) environment: Environment,
    _home: TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub(super) struct CommandResult {
    pub(super) code: u8,
    pub(super) out: String,
    pub(super) err: String,
}

impl User {
    pub(super) fn new(product: &Product) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut environment = Environment::for_home(home.path());
        environment.server = Some(product.admin.clone());
        Self { environment, _home: home }
    }

    pub(super) fn operator(product: &Product) -> Self {
        let mut user = Self::new(product);
        user.environment.token = Some(product.home.operator_token().into());
        user
    }

    /// Runs a command line, split at spaces.
    pub(super) async fn ctl(&self, line: &str) -> CommandResult {
        self.ctl_with(line, "").await
    }

    /// Runs a command line with this standard input.
    pub(super) async fn ctl_with(&self, line: &str, stdin: &str) -> CommandResult {
        self.run(line.split(' '), stdin).await
    }

    /// Runs a command with these arguments.
    pub(super) async fn run(&self, args: impl Iterator<Item = &str>, stdin: &str) -> CommandResult {
        let args = std::iter::once("ctl").chain(args);
        let mut input = stdin.as_bytes();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = ctl::run(args, &self.environment, &mut input, &mut out, &mut err).await;
        CommandResult {
            code,
            out: String::from_utf8(out).unwrap(),
            err: String::from_utf8(err).unwrap(),
        }
    }

    /// Runs a command that must succeed, and returns its stdout.
    pub(super) async fn ok(&self, line: &str) -> String {
        let ran = self.ctl(line).await;
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
        ran.out
    }

    /// Runs a command that must succeed, and returns its JSON output.
    pub(super) async fn json(&self, line: &str) -> Value {
        let out = self.ok(&format!("{line} -o json")).await;
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("{line}: {out}"))
    }
}

/// Registers a member and signs it in.
pub(super) async fn member(product: &Product, name: &str) -> User {
    let user = User::new(product);
    let password = "correct horse battery staple\n";
    for command in ["register", "login"] {
        let ran = user.ctl_with(&format!("{command} {name} --password-stdin"), password).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(!format!("{ran:?}").contains("correct horse"), "{ran:?}");
    }
    user
}
