//! `ctl backup`: the gateway's database as a file.

use std::io::{ErrorKind, Write};
use std::path::Path;

use proto::v1::BackupRequest;
use proto::v1::maintenance_service_client::MaintenanceServiceClient;

use crate::Shell;
use crate::cli::Backup;
use crate::error::{Exit, Failure};

const MIB: u64 = 1024 * 1024;
const KEEP_THE_SEAL: &str = "keep `seal.key` of the gateway's data directory with it: without that key the \
    upstream credentials in the copy cannot be read";

/// Runs `ctl backup`.
pub(super) async fn run(shell: &mut Shell<'_>, input: Backup) -> Result<(), Failure> {
    if input.file == Path::new("-") {
        return to_stdout(shell).await;
    }
    let path = &*input.file;
    let writing = |error: std::io::Error| Failure::file("writing", path, &error);
    if !shell.globals.yes && path.symlink_metadata().is_ok() {
        return Err(exists(path));
    }
    let dir = match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    // Readable by its owner only from its first moment, and gone again if the copy breaks off.
    let mut file = tempfile::NamedTempFile::new_in(dir).map_err(writing)?;
    let size = copy(shell, |_, data| file.write_all(data).map_err(writing)).await?;
    file.as_file().sync_all().map_err(writing)?;
    if shell.globals.yes {
        file.persist(path).map_err(|error| writing(error.error))?;
    } else {
        file.persist_noclobber(path).map_err(|error| match error.error.kind() {
            ErrorKind::AlreadyExists => exists(path),
            _ => writing(error.error),
        })?;
    }
    shell.output.note(&format!("wrote {size} bytes to `{}`", path.display()));
    shell.output.note(KEEP_THE_SEAL);
    Ok(())
}

/// Writes the copy to stdout, for a pipe.
async fn to_stdout(shell: &mut Shell<'_>) -> Result<(), Failure> {
    if shell.environment.width.is_some() {
        return Err(Failure::usage("a database is nothing for a terminal")
            .advise("name a file, or send it on: `ctl backup - | gzip > tollgate.db.gz`"));
    }
    let size = copy(shell, |shell, data| shell.output.bytes(data)).await?;
    shell.output.note(&format!("wrote {size} bytes to stdout"));
    shell.output.note(KEEP_THE_SEAL);
    Ok(())
}

/// Hands the pieces of the copy to `write` as they come, and returns how many bytes it has.
async fn copy(
    shell: &mut Shell<'_>,
    mut write: impl FnMut(&mut Shell<'_>, &[u8]) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut client = MaintenanceServiceClient::new(shell.connect().await?);
    let mut pieces = client.backup(BackupRequest {}).await?.into_inner();
    let (mut written, mut size) = (0, 0);
    while let Some(piece) = pieces.message().await? {
        write(shell, &piece.data)?;
        written += piece.data.len() as u64;
        size = piece.size_bytes;
        shell.output.progress(written / MIB, Some(size.div_ceil(MIB)), "MiB");
    }
    shell.output.end_progress();
    if written != size || size == 0 {
        return Err(Failure::new(Exit::Unavailable, "the copy broke off").advise("try again"));
    }
    Ok(size)
}

fn exists(path: &Path) -> Failure {
    Failure::new(Exit::Conflict, format!("`{}` is there already", path.display()))
        .advise("choose another name, or replace it with --yes")
}
