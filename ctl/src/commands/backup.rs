//! `ctl backup`: copies the gateway's database to a file or stdout.

use std::io::{ErrorKind, Write};
use std::path::Path;

use proto::v1::BackupRequest;
use proto::v1::maintenance_service_client::MaintenanceServiceClient;

use crate::Shell;
use crate::cli::Backup;
use crate::error::{Exit, Failure};

const MIB: u64 = 1024 * 1024;
const SEAL_KEY_NOTE: &str = "keep `seal.key` of the gateway's data directory with it: without that key the \
    upstream credentials in the copy cannot be read";

/// Runs `ctl backup`.
pub(super) async fn run(shell: &mut Shell<'_>, input: Backup) -> Result<(), Failure> {
    if input.file == Path::new("-") {
        return to_stdout(shell).await;
    }
    let path = &*input.file;
    let write_failure = |error: std::io::Error| Failure::file("writing", path, &error);
    if !shell.globals.yes && path.symlink_metadata().is_ok() {
        return Err(already_exists(path));
    }
    let dir = match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    // Created readable only by its owner, and removed if the copy fails.
    let mut file = tempfile::NamedTempFile::new_in(dir).map_err(write_failure)?;
    let size = copy(shell, |_, data| file.write_all(data).map_err(write_failure)).await?;
    file.as_file().sync_all().map_err(write_failure)?;
    if shell.globals.yes {
        file.persist(path).map_err(|error| write_failure(error.error))?;
    } else {
        file.persist_noclobber(path).map_err(|error| match error.error.kind() {
            ErrorKind::AlreadyExists => already_exists(path),
            _ => write_failure(error.error),
        })?;
    }
    shell.output.note(&format!("wrote {size} bytes to `{}`", path.display()));
    shell.output.note(SEAL_KEY_NOTE);
    Ok(())
}

/// Writes the copy to stdout, which must not be a terminal.
async fn to_stdout(shell: &mut Shell<'_>) -> Result<(), Failure> {
    if shell.environment.width.is_some() {
        return Err(Failure::usage("a database cannot be written to a terminal")
            .advise("name a file, or use a pipe: `ctl backup - | gzip > tollgate.db.gz`"));
    }
    let size = copy(shell, |shell, data| shell.output.bytes(data)).await?;
    shell.output.note(&format!("wrote {size} bytes to stdout"));
    shell.output.note(SEAL_KEY_NOTE);
    Ok(())
}

/// Passes the chunks of the copy to `write` as they arrive, and returns its size in bytes.
///
/// # Errors
/// The call or `write` fails, or the stream ends before the announced size.
async fn copy(
    shell: &mut Shell<'_>,
    mut write: impl FnMut(&mut Shell<'_>, &[u8]) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut client = MaintenanceServiceClient::new(shell.connect().await?);
    let mut chunks = client.backup(BackupRequest {}).await?.into_inner();
    let (mut written, mut size) = (0, 0);
    while let Some(chunk) = chunks.message().await? {
        write(shell, &chunk.data)?;
        written += chunk.data.len() as u64;
        size = chunk.size_bytes;
        shell.output.progress(written / MIB, Some(size.div_ceil(MIB)), "MiB");
    }
    shell.output.end_progress();
    if written != size || size == 0 {
        return Err(
            Failure::new(Exit::Unavailable, "the backup was interrupted").advise("try again")
        );
    }
    Ok(size)
}

fn already_exists(path: &Path) -> Failure {
    Failure::new(Exit::Conflict, format!("`{}` exists already", path.display()))
        .advise("choose another name, or overwrite it with --yes")
}
