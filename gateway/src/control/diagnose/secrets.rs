//! Checks of the permissions of files with secrets.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Finding, Severity, blocking};
use crate::control::bootstrap::TOKEN_FILE;
use crate::directory::Catalogue;
use crate::secrets::seal::KEY_FILE;
use crate::tls::TlsFiles;
use domain::upstream::CredentialSource;

/// A file with a secret, or a directory of them.
pub(super) struct SecretFile {
    pub(super) path: PathBuf,
    /// The severity if other users can read it. Files that the operator provides may be shared on
    /// purpose.
    exposed: Severity,
    /// The recommended mode, in octal.
    mode: &'static str,
}

/// Returns the files with secrets: those of the data directory, of TLS and of the catalogue.
pub(super) fn files(dir: &Path, tls: Option<&TlsFiles>, catalogue: &Catalogue) -> Vec<SecretFile> {
    let own = |path: PathBuf, mode| SecretFile { path, exposed: Severity::Problem, mode };
    let mut files = vec![
        own(dir.to_path_buf(), "700"),
        own(dir.join(TOKEN_FILE), "600"),
        own(dir.join(KEY_FILE), "600"),
    ];
    let key = tls.map(|files| files.key.clone());
    let sources = catalogue.upstreams.values().flat_map(|upstream| upstream.secret_sources());
    let named = sources.filter_map(|source| match source {
        CredentialSource::File(path) => Some(PathBuf::from(path)),
        CredentialSource::Env(_) | CredentialSource::Sealed(_) => None,
    });
    files.extend(named.chain(key).collect::<BTreeSet<_>>().into_iter().map(|path| SecretFile {
        path,
        exposed: Severity::Warning,
        mode: "600",
    }));
    files
}

pub(super) async fn check(file: SecretFile) -> Vec<Finding> {
    blocking(move || vec![assess(&file, std::fs::metadata(&file.path))]).await
}

fn assess(file: &SecretFile, found: io::Result<Metadata>) -> Finding {
    let path = file.path.display();
    match found {
        Err(error) => Finding::problem(
            format!("it cannot be examined: {error}"),
            format!("see that `{path}` is there and belongs to the user that the gateway runs as"),
        ),
        Ok(found) => {
            let mode = found.permissions().mode() & 0o777;
            let of_others = mode & 0o077;
            if of_others == 0 {
                return Finding::ok(format!("only its owner may read it (mode {mode:03o})"));
            }
            let text = format!("others than its owner may use it (mode {mode:03o})");
            let remedy = format!("chmod {} '{path}'", file.mode);
            Finding::new(file.exposed, text, remedy)
        }
    }
}
