//! `ctl reload`: has the gateway read its settings and files again.

use proto::v1::ReloadRequest;
use proto::v1::maintenance_service_client::MaintenanceServiceClient;
use serde::Serialize;

use crate::Shell;
use crate::error::Failure;
use crate::output::Record;

/// What was reloaded, as printed.
#[derive(Serialize)]
struct ReloadRecord {
    certificate_changed: bool,
    rotated_upstreams: Vec<String>,
    need_restart: Vec<String>,
    applied: Vec<String>,
}

/// Runs `ctl reload`.
pub(super) async fn run(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let mut client = MaintenanceServiceClient::new(shell.connect().await?);
    let answer = client.reload(ReloadRequest {}).await?.into_inner();
    shell.output.one(&ReloadRecord {
        certificate_changed: answer.certificate_changed,
        rotated_upstreams: answer.rotated_upstreams,
        need_restart: answer.need_restart,
        applied: answer.applied,
    })
}

impl Record for ReloadRecord {
    const FIELDS: &'static [&'static str] =
        &["certificate_changed", "rotated_upstreams", "need_restart", "applied"];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}
