//! `ctl account reset-password`.

use proto::v1::CreatePasswordResetRequest;
use proto::v1::account_service_client::AccountServiceClient;
use serde::Serialize;

use crate::Shell;
use crate::cli::account::ResetPassword;
use crate::commands::rfc3339;
use crate::error::Failure;
use crate::output::Record;

/// A code for a new password, printed only at creation.
#[derive(Serialize)]
struct PasswordResetRecord {
    code: String,
    account: String,
    expires_at: Option<String>,
}

/// Runs `ctl account reset-password`.
pub(super) async fn run(shell: &mut Shell<'_>, input: ResetPassword) -> Result<(), Failure> {
    let request = CreatePasswordResetRequest { account: input.account };
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let answer = client.create_password_reset(request).await?.into_inner();
    let name = answer.account_name;
    shell.output.one(&PasswordResetRecord {
        code: answer.code,
        account: name.clone(),
        expires_at: rfc3339(answer.expires_at),
    })?;
    shell.output.note(&format!("give the code to `{name}`: ctl login {name} --reset-code CODE"));
    Ok(())
}

impl Record for PasswordResetRecord {
    const FIELDS: &'static [&'static str] = &["code", "account", "expires_at"];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}
