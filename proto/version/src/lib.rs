//! The version of the programs, and the commit that they were built from.
//!
//! All programs of the workspace have one version. The commit is known if the build found the git repository, or
//! `TOLLGATE_COMMIT` in its environment.

/// The version: `0.1.0`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version and the commit, if it is known: `0.1.0 (0123456789ab)`.
pub const LONG: &str = env!("TOLLGATE_BUILD_VERSION");

/// The commit, shortened; `None` if it is not known.
pub const COMMIT: Option<&str> = {
    let commit = env!("TOLLGATE_BUILD_COMMIT");
    if commit.is_empty() { None } else { Some(commit) }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_version_contains_the_commit() {
        let expected = match COMMIT {
            Some(commit) => format!("{VERSION} ({commit})"),
            None => VERSION.to_owned(),
        };
        assert_eq!(LONG, expected);
    }
}
