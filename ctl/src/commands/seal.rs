//! `ctl seal …`: the key that encrypts stored secrets.

use proto::v1::RotateSealKeyRequest;
use proto::v1::maintenance_service_client::MaintenanceServiceClient;
use serde::Serialize;

use crate::Shell;
use crate::cli::seal::SealCommand;
use crate::error::Failure;
use crate::output::Record;

/// A rotation, as printed.
#[derive(Serialize)]
struct RotationRecord {
    resealed: u32,
    source: String,
    former_removed: bool,
}

/// Runs `ctl seal …`.
pub(super) async fn run(shell: &mut Shell<'_>, command: SealCommand) -> Result<(), Failure> {
    match command {
        SealCommand::Rotate => rotate(shell).await,
    }
}

async fn rotate(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let mut client = MaintenanceServiceClient::new(shell.connect().await?);
    let answer = client.rotate_seal_key(RotateSealKeyRequest {}).await?.into_inner();
    let record = RotationRecord {
        resealed: answer.resealed,
        source: answer.source,
        former_removed: answer.former_removed,
    };
    if !record.former_removed {
        let source = &record.source;
        shell
            .output
            .note(&format!("no secret needs it any more: remove the former key from {source}"));
    }
    shell.output.one(&record)
}

impl Record for RotationRecord {
    const FIELDS: &'static [&'static str] = &["resealed", "source", "former_removed"];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}
