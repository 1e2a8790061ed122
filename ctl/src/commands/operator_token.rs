//! `ctl operator-token …`.

use proto::v1::maintenance_service_client::MaintenanceServiceClient;
use proto::v1::{
    DisableOperatorTokenRequest, EnableOperatorTokenRequest, RotateOperatorTokenRequest,
};
use serde::Serialize;

use crate::Shell;
use crate::cli::operator_token::OperatorTokenCommand;
use crate::error::Failure;
use crate::output::Record;

/// Where the token is, as printed.
#[derive(Serialize)]
struct OperatorTokenRecord {
    path: String,
}

/// Runs `ctl operator-token …`.
pub(super) async fn run(
    shell: &mut Shell<'_>,
    command: OperatorTokenCommand,
) -> Result<(), Failure> {
    let mut client = MaintenanceServiceClient::new(shell.connect().await?);
    let (path, note) = match command {
        OperatorTokenCommand::Rotate => {
            let answer = client.rotate_operator_token(RotateOperatorTokenRequest {}).await?;
            (answer.into_inner().path, "the new token is in this file on the host of the gateway")
        }
        OperatorTokenCommand::Disable => {
            let answer = client.disable_operator_token(DisableOperatorTokenRequest {}).await?;
            (answer.into_inner().path, "the token in this file is refused from now on")
        }
        OperatorTokenCommand::Enable => {
            let answer = client.enable_operator_token(EnableOperatorTokenRequest {}).await?;
            (answer.into_inner().path, "the token in this file is accepted again")
        }
    };
    shell.output.one(&OperatorTokenRecord { path })?;
    shell.output.note(note);
    Ok(())
}

impl Record for OperatorTokenRecord {
    const FIELDS: &'static [&'static str] = &["path"];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}
