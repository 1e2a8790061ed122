//! `ctl version`: the versions of `ctl` and of the gateway.

use proto::v1::GetVersionRequest;
use proto::v1::maintenance_service_client::MaintenanceServiceClient;
use serde::Serialize;

use super::non_empty;
use crate::Shell;
use crate::error::Failure;
use crate::output::Record;

/// The version of a program, as printed.
#[derive(Serialize)]
struct VersionRecord {
    program: &'static str,
    version: String,
    commit: Option<String>,
    /// The database and its schema: `SQLite schema 22`.
    schema: Option<String>,
}

/// Runs `ctl version`. Prints the version of `ctl` even if the gateway cannot be asked.
pub(super) async fn run(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let ours = VersionRecord {
        program: "ctl",
        version: ::version::VERSION.to_owned(),
        commit: ::version::COMMIT.map(str::to_owned),
        schema: None,
    };
    match gateway(shell).await {
        Ok(gateway) => shell.output.many(&[ours, gateway]),
        Err(failure) => {
            shell.output.many(&[ours])?;
            Err(failure)
        }
    }
}

async fn gateway(shell: &mut Shell<'_>) -> Result<VersionRecord, Failure> {
    let mut client = MaintenanceServiceClient::new(shell.connect().await?);
    let answer = client.get_version(GetVersionRequest {}).await?.into_inner();
    Ok(VersionRecord {
        program: "gateway",
        version: answer.version,
        commit: non_empty(answer.commit),
        schema: Some(format!("{} schema {}", answer.backend, answer.schema_version)),
    })
}

impl Record for VersionRecord {
    const FIELDS: &'static [&'static str] = &["program", "version", "commit", "schema"];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}
