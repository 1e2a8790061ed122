//! `ctl account …`, except for the printed form of accounts.

mod export;
mod invite;
mod limits;
mod people;
pub(super) mod record;
mod reset_password;

use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::{
    ChangePasswordRequest, CloseAccountRequest, CreditAccountRequest, DeleteAccountRequest,
    GetAccountRequest, GrantRoleRequest, ListAccountsRequest, RenameAccountRequest,
    ResumeAccountRequest, SetPlanRequest, SuspendAccountRequest,
};
use secrecy::ExposeSecret;
use tonic::Code;

use self::record::AccountRecord;
use super::required;
use crate::Shell;
use crate::cli::account::{
    AccountCommand, Close, Credit, Delete, Grant, Plan, Rename, Resume, Role, Show, Suspend,
};
use crate::error::Failure;

/// Runs `ctl account …`.
pub(super) async fn run(shell: &mut Shell<'_>, command: AccountCommand) -> Result<(), Failure> {
    match command {
        AccountCommand::List => list(shell).await,
        AccountCommand::Show(Show { account: None }) => super::login::whoami(shell).await,
        AccountCommand::Show(Show { account: Some(account) }) => show(shell, account).await,
        AccountCommand::Limits(input) => limits::run(shell, input).await,
        AccountCommand::Credit(input) => credit(shell, input).await,
        AccountCommand::Suspend(input) => suspend(shell, input).await,
        AccountCommand::Resume(input) => resume(shell, input).await,
        AccountCommand::Rename(input) => rename(shell, input).await,
        AccountCommand::Export(input) => export::run(shell, input).await,
        AccountCommand::Close(input) => close(shell, input).await,
        AccountCommand::Delete(input) => delete(shell, input).await,
        AccountCommand::Plan(input) => plan(shell, input).await,
        AccountCommand::Grant(input) => grant(shell, input).await,
        AccountCommand::Password(input) => password(shell, input.password_stdin).await,
        AccountCommand::ResetPassword(input) => reset_password::run(shell, input).await,
        AccountCommand::People(command) => people::run(shell, command).await,
        AccountCommand::Invite(input) => invite::create(shell, input).await,
        AccountCommand::Invites => invite::list(shell).await,
        AccountCommand::Uninvite(input) => invite::revoke(shell, input.id).await,
    }
}

async fn list(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let mut accounts = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListAccountsRequest { page_size: 1_000, page_token };
        let page = client.list_accounts(request).await?.into_inner();
        accounts.extend(page.accounts.into_iter().map(AccountRecord::from));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return shell.output.many(&accounts);
        }
    }
}

async fn show(shell: &mut Shell<'_>, account: String) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let answer = client.get_account(GetAccountRequest { account }).await?.into_inner();
    shell.output.one(&AccountRecord::from(required(answer.account, "account")?))
}

async fn credit(shell: &mut Shell<'_>, input: Credit) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let Credit { account, amount_usd, reason } = input;
    let request = CreditAccountRequest { account, amount_usd, reason };
    let answer = client.credit_account(request).await?.into_inner();
    shell.output.one(&AccountRecord::from(required(answer.account, "account")?))
}

async fn suspend(shell: &mut Shell<'_>, input: Suspend) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let request = SuspendAccountRequest { account: input.account, reason: input.reason };
    let answer = client.suspend_account(request).await?.into_inner();
    shell.output.one(&AccountRecord::from(required(answer.account, "account")?))
}

async fn resume(shell: &mut Shell<'_>, input: Resume) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let request = ResumeAccountRequest { account: input.account };
    let answer = client.resume_account(request).await?.into_inner();
    shell.output.one(&AccountRecord::from(required(answer.account, "account")?))
}

async fn rename(shell: &mut Shell<'_>, input: Rename) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let request = RenameAccountRequest { account: input.account, name: input.name };
    let answer = client.rename_account(request).await?.into_inner();
    shell.output.one(&AccountRecord::from(required(answer.account, "account")?))
}

async fn close(shell: &mut Shell<'_>, input: Close) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let request = CloseAccountRequest { account: input.account };
    let answer = client.close_account(request).await?.into_inner();
    shell.output.one(&AccountRecord::from(required(answer.account, "account")?))
}

async fn delete(shell: &mut Shell<'_>, input: Delete) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let request = DeleteAccountRequest { account: input.account, confirm: input.confirm };
    let answer = client.delete_account(request).await?.into_inner();
    shell.output.one(&AccountRecord::from(required(answer.account, "account")?))
}

async fn plan(shell: &mut Shell<'_>, input: Plan) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let request = SetPlanRequest { account: input.account, plan: input.plan };
    let answer = client.set_plan(request).await?.into_inner();
    shell.output.one(&AccountRecord::from(required(answer.account, "account")?))
}

async fn grant(shell: &mut Shell<'_>, input: Grant) -> Result<(), Failure> {
    let role = match input.role {
        Role::Member => proto::v1::Role::Member,
        Role::Support => proto::v1::Role::Support,
        Role::Operator => proto::v1::Role::Operator,
        Role::Owner => proto::v1::Role::Owner,
    };
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let request = GrantRoleRequest { account: input.account, role: role.into() };
    let answer = client.grant_role(request).await?.into_inner();
    shell.output.one(&AccountRecord::from(required(answer.account, "account")?))
}

async fn password(shell: &mut Shell<'_>, from_stdin: bool) -> Result<(), Failure> {
    let (old, new) = super::login::read_password_change(shell, from_stdin)?;
    let request = ChangePasswordRequest {
        old_password: old.expose_secret().to_owned(),
        new_password: new.expose_secret().to_owned(),
    };
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let answer = client.change_password(request).await.map_err(|status| {
        let is_refused = status.code() == Code::PermissionDenied;
        let failure = Failure::from(status);
        if is_refused { failure.advise("operators cannot read passwords either") } else { failure }
    })?;
    let ended = super::session::count_text(answer.into_inner().ended_sessions);
    shell.output.note(&format!("changed the password; {ended}"));
    Ok(())
}
