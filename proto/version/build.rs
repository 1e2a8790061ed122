//! Passes the commit of the source to the compiler: `TOLLGATE_COMMIT`, or else that of the git repository.
//!
//! A source archive has no repository, and a package may be built in the repository of something else; the commit is
//! then empty. Nothing here fails the build.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The number of hexadecimal digits of the commit.
const DIGITS: &str = "--short=12";

#[expect(
    clippy::disallowed_methods,
    reason = "build scripts get their settings in the environment"
)]
fn main() {
    println!("cargo:rerun-if-env-changed=TOLLGATE_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let given = std::env::var("TOLLGATE_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(from_repository).unwrap_or_default();
    println!("cargo:rustc-env=TOLLGATE_BUILD_COMMIT={commit}");
    let version = env!("CARGO_PKG_VERSION");
    let long = if commit.is_empty() { version.to_owned() } else { format!("{version} ({commit})") };
    println!("cargo:rustc-env=TOLLGATE_BUILD_VERSION={long}");
}

/// Returns the commit of the repository whose root is that of the workspace.
fn from_repository() -> Option<String> {
    let workspace =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?.canonicalize().ok()?;
    let root = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()?;
    if root != workspace {
        return None;
    }
    // The reflog grows with each commit and each checkout; without one, the files that they change.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["logs/HEAD", "HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        let path = git(&["rev-parse", "--git-path", name]).map(PathBuf::from);
        if let Some(path) = path.filter(|path| path.exists()) {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    git(&["rev-parse", DIGITS, "HEAD"])
}

/// Returns the output of a git command; `None` if it fails or git is not installed.
fn git(arguments: &[&str]) -> Option<String> {
    let directory = env!("CARGO_MANIFEST_DIR");
    let output = Command::new("git").args(["-C", directory]).args(arguments).output().ok()?;
    let text = output.status.success().then(|| String::from_utf8(output.stdout).ok())??;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
