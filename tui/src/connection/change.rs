//! The calls that change state on the gateway.

mod access;

use jiff::{SignedDuration, Timestamp};
use proto::client;
use proto::v1;
use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::diagnostics_service_client::DiagnosticsServiceClient;
use proto::v1::key_service_client::KeyServiceClient;
use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::node_service_client::NodeServiceClient;
use proto::v1::people_service_client::PeopleServiceClient;
use proto::v1::plan_service_client::PlanServiceClient;
use proto::v1::upstream_service_client::UpstreamServiceClient;
use proto::v1::usage_service_client::UsageServiceClient;
use secrecy::{ExposeSecret, SecretString};
use tonic::{Code, Status};

use super::call::{SessionError, with_timeout, within_timeout};
use super::{convert, problem};
use crate::clock;
use crate::model::Screen;
use crate::model::change::{
    AddedRow, Change, ChangeOutcome, CredentialDraft, IssuedSecret, SecretKind, UpstreamDraft,
};

/// Performs a change.
///
/// # Errors
/// The outer error ends the session. The inner error is a text for the user.
pub(super) async fn apply(
    channel: client::Connection,
    change: Change,
) -> Result<Result<ChangeOutcome, String>, SessionError> {
    let changes = match change {
        Change::Batch(changes) => changes,
        change => return single(channel, change).await,
    };
    let count = changes.len();
    let mut notices = Vec::new();
    let mut problems = Vec::new();
    for change in changes {
        match single(channel.clone(), change).await? {
            Ok(outcome) => notices.push(outcome.notice),
            Err(problem) => problems.push(problem),
        }
    }
    let done = notices.len();
    let notice = match notices.pop() {
        Some(only) if count == 1 => only,
        _ => format!("all {count} are done"),
    };
    Ok(match problems.into_iter().next() {
        None => Ok(ChangeOutcome { is_batch: true, ..notice_only(notice) }),
        Some(only) if count == 1 => Err(only),
        Some(first) => Err(format!("{done} of {count} are done; the first problem: {first}")),
    })
}

async fn single(
    channel: client::Connection,
    change: Change,
) -> Result<Result<ChangeOutcome, String>, SessionError> {
    match call(channel, change).await {
        Ok(done) => Ok(Ok(done)),
        Err(status) if status.code() == Code::Unauthenticated => Err(status.into()),
        Err(status) => Ok(Err(problem::change(&status))),
    }
}

async fn call(channel: client::Connection, change: Change) -> Result<ChangeOutcome, Status> {
    match change {
        change @ (Change::CreateKey { .. }
        | Change::UpdateKey { .. }
        | Change::RotateKey { .. }
        | Change::RevokeKey { .. }) => key(KeyServiceClient::new(channel), change).await,
        Change::PutPlan { plan, is_new } => {
            let name = plan.name.clone();
            let notice = format!("plan `{name}` is saved");
            let request = v1::PutPlanRequest { plan: Some(convert::to_plan(plan)) };
            with_timeout(PlanServiceClient::new(channel).put_plan(request)).await?;
            let added = is_new.then(|| added(Screen::Plans, name));
            Ok(ChangeOutcome { added, ..notice_only(notice) })
        }
        change
        @ (Change::AddModel(_) | Change::UpdateModel { .. } | Change::RemoveModel { .. }) => {
            model(ModelServiceClient::new(channel), change).await
        }
        change @ (Change::AddUpstream(_)
        | Change::UpdateUpstream(_)
        | Change::ResetUpstream { .. }
        | Change::RemoveUpstream { .. }) => {
            upstream(UpstreamServiceClient::new(channel), change).await
        }
        Change::DrainNode { name, is_draining } => {
            let now = if is_draining { "drains" } else { "gets requests again" };
            let notice = format!("node `{name}` {now}");
            let request = v1::DrainNodeRequest { name, draining: is_draining };
            with_timeout(NodeServiceClient::new(channel).drain_node(request)).await?;
            Ok(notice_only(notice))
        }
        Change::RemoveNode { name, is_lost } => {
            let notice = format!("node `{name}` is removed");
            let request = v1::RemoveNodeRequest { name, lost: is_lost };
            with_timeout(NodeServiceClient::new(channel).remove_node(request)).await?;
            Ok(notice_only(notice))
        }
        change @ (Change::ResetPassword { .. }
        | Change::CreateInvite { .. }
        | Change::RevokeInvite { .. }
        | Change::RevokeSession { .. }
        | Change::RevokeOtherSessions) => {
            access::account(AccountServiceClient::new(channel), change).await
        }
        change @ (Change::AddPerson { .. }
        | Change::SetPersonRole { .. }
        | Change::RemovePerson { .. }) => {
            access::people(PeopleServiceClient::new(channel), change).await
        }
        Change::TestUpstream { name } => test_upstream(channel, &name).await,
        Change::CancelRequest { id } => {
            let notice = format!("request `{id}` is cancelled");
            let request = v1::CancelRequestRequest { id };
            with_timeout(UsageServiceClient::new(channel).cancel_request(request)).await?;
            Ok(notice_only(notice))
        }
        change => account(AccountServiceClient::new(channel), change).await,
    }
}

/// Returns what the checks of the upstream find: the worst finding, or the last one if all is well.
async fn test_upstream(channel: client::Connection, name: &str) -> Result<ChangeOutcome, Status> {
    let mut diagnostics = DiagnosticsServiceClient::new(channel);
    let request = v1::DiagnoseRequest { send_requests: false };
    let mut findings = with_timeout(diagnostics.diagnose(request)).await?;
    let mut worst: Option<v1::DiagnoseResponse> = None;
    while let Some(finding) = within_timeout(findings.message()).await? {
        let is_worse = worst.as_ref().is_none_or(|it| it.severity <= finding.severity);
        if finding.subject == name && is_worse {
            worst = Some(finding);
        }
    }
    let finding = worst.ok_or_else(|| Status::not_found(format!("no upstream `{name}`")))?;
    let text = format!("upstream `{name}`: {}", finding.finding);
    match finding.severity() {
        v1::Severity::Problem | v1::Severity::Warning | v1::Severity::Unspecified => {
            Err(Status::failed_precondition(format!("{text}: {}", finding.remedy)))
        }
        v1::Severity::Ok => Ok(notice_only(text)),
    }
}

async fn key(
    mut keys: KeyServiceClient<client::Connection>,
    change: Change,
) -> Result<ChangeOutcome, Status> {
    let (key, secret, notice) = match change {
        Change::CreateKey { label, limits, spend_cap_usd, models, expires_in_seconds } => {
            let expires_at = expires_in_seconds.map(|seconds| after(clock::now(), seconds));
            let limits = Some(convert::to_limits(limits));
            let spend_cap_usd = spend_cap_usd.unwrap_or_default();
            let request = v1::CreateKeyRequest {
                label,
                limits,
                models,
                expires_at,
                spend_cap_usd,
                ..Default::default()
            };
            let answer = with_timeout(keys.create_key(request)).await?;
            (answer.key, answer.secret, "is created")
        }
        Change::UpdateKey { before, after, end } => {
            let notice = format!("key `{}` is changed", after.label);
            with_timeout(keys.update_key(convert::to_key_change(
                &before,
                *after,
                end,
                clock::now(),
            )))
            .await?;
            return Ok(notice_only(notice));
        }
        Change::RotateKey { id, overlap_seconds } => {
            let request = v1::RotateKeyRequest { id, overlap_seconds };
            let answer = with_timeout(keys.rotate_key(request)).await?;
            (answer.key, answer.secret, "is rotated")
        }
        Change::RevokeKey { id, label } => {
            with_timeout(keys.revoke_key(v1::RevokeKeyRequest { id })).await?;
            return Ok(notice_only(format!("key `{label}` is revoked")));
        }
        _ => return Err(Status::internal("not a key change")),
    };
    let v1::Key { id, label, models, .. } = key.unwrap_or_default();
    let notice = format!("key `{label}` {notice}");
    let issued = IssuedSecret { models, ..issued(SecretKind::Key, label, secret) };
    let added = Some(added(Screen::Keys, id));
    Ok(ChangeOutcome { secret: Some(issued), added, ..notice_only(notice) })
}

async fn account(
    mut accounts: AccountServiceClient<client::Connection>,
    change: Change,
) -> Result<ChangeOutcome, Status> {
    let notice = match change {
        Change::Credit { account, amount_usd, reason } => {
            let name = account.clone();
            let request = v1::CreditAccountRequest { account, amount_usd, reason };
            let answer = with_timeout(accounts.credit_account(request)).await?;
            let balance = answer.account.unwrap_or_default().balance_usd;
            format!("`{name}` has ${balance} now")
        }
        Change::Suspend { account, reason } => {
            let notice = format!("`{account}` is suspended");
            let request = v1::SuspendAccountRequest { account, reason };
            with_timeout(accounts.suspend_account(request)).await?;
            notice
        }
        Change::Resume { account } => {
            let notice = format!("`{account}` can be used again");
            with_timeout(accounts.resume_account(v1::ResumeAccountRequest { account })).await?;
            notice
        }
        Change::GrantRole { account, role } => {
            let notice = format!("`{account}` is now {}", role.as_str());
            let role = convert::to_role(role).into();
            with_timeout(accounts.grant_role(v1::GrantRoleRequest { account, role })).await?;
            notice
        }
        Change::SetPlan { account, plan } => {
            let notice = format!("`{account}` is on plan `{plan}`");
            with_timeout(accounts.set_plan(v1::SetPlanRequest { account, plan })).await?;
            notice
        }
        Change::RenameAccount { account, name } => {
            let notice = format!("`{account}` is called `{name}` now");
            with_timeout(accounts.rename_account(v1::RenameAccountRequest { account, name }))
                .await?;
            notice
        }
        Change::CloseAccount { account } => {
            let notice = format!("`{account}` is closed; x deletes it");
            with_timeout(accounts.close_account(v1::CloseAccountRequest { account })).await?;
            notice
        }
        Change::DeleteAccount { account } => {
            let notice = format!("`{account}` is deleted");
            let confirm = account.clone();
            with_timeout(accounts.delete_account(v1::DeleteAccountRequest { account, confirm }))
                .await?;
            notice
        }
        Change::ChangePassword { old, new } => {
            let request = v1::ChangePasswordRequest {
                old_password: old.expose_secret().to_owned(),
                new_password: new.expose_secret().to_owned(),
            };
            let ended = with_timeout(accounts.change_password(request)).await?.ended_sessions;
            format!("the password is changed; {ended} other sessions have ended")
        }
        _ => return Err(Status::internal("not an account change")),
    };
    Ok(notice_only(notice))
}

async fn model(
    mut models: ModelServiceClient<client::Connection>,
    change: Change,
) -> Result<ChangeOutcome, Status> {
    let notice = match change {
        Change::AddModel(entry) => {
            let id = entry.id.clone();
            let notice = format!("model `{id}` is in the catalogue");
            let request = v1::AddModelRequest { model: Some(convert::to_model(*entry)) };
            with_timeout(models.add_model(request)).await?;
            let added = Some(added(Screen::Models, id));
            return Ok(ChangeOutcome { added, ..notice_only(notice) });
        }
        Change::UpdateModel { before, after } => {
            let notice = format!("model `{}` is changed", after.id);
            with_timeout(models.update_model(convert::to_model_change(&before, *after))).await?;
            notice
        }
        Change::RemoveModel { id } => {
            let notice = format!("model `{id}` is removed");
            with_timeout(models.remove_model(v1::RemoveModelRequest { id })).await?;
            notice
        }
        _ => return Err(Status::internal("not a model change")),
    };
    Ok(notice_only(notice))
}

async fn upstream(
    mut upstreams: UpstreamServiceClient<client::Connection>,
    change: Change,
) -> Result<ChangeOutcome, Status> {
    let notice = match change {
        Change::AddUpstream(draft) => {
            let notice =
                format!("upstream `{}` is added: `3`, then `n` puts a model on it", draft.name);
            let UpstreamDraft { name, url, profile, credential, deadlines } = draft;
            let added = Some(added(Screen::Upstreams, name.clone()));
            let upstream = v1::Upstream {
                name,
                url,
                credential: credential.map(to_credential),
                profile: convert::to_profile(profile).into(),
                deadlines: Some(convert::to_deadlines(deadlines)),
                ..Default::default()
            };
            let request = v1::AddUpstreamRequest { upstream: Some(upstream) };
            with_timeout(upstreams.add_upstream(request)).await?;
            return Ok(ChangeOutcome { added, ..notice_only(notice) });
        }
        Change::UpdateUpstream(UpstreamDraft { name, url, profile, credential, deadlines }) => {
            let notice = format!("upstream `{name}` is changed");
            let request = v1::UpdateUpstreamRequest {
                name,
                url: Some(url),
                credential: credential.map(to_credential),
                profile: Some(convert::to_profile(profile).into()),
                deadlines: Some(convert::to_deadlines(deadlines)),
                ..Default::default()
            };
            with_timeout(upstreams.update_upstream(request)).await?;
            notice
        }
        Change::ResetUpstream { name } => {
            let notice = format!("requests go to `{name}` again");
            with_timeout(upstreams.reset_upstream(v1::ResetUpstreamRequest { name })).await?;
            notice
        }
        Change::RemoveUpstream { name } => {
            let notice = format!("upstream `{name}` is removed");
            with_timeout(upstreams.remove_upstream(v1::RemoveUpstreamRequest { name })).await?;
            notice
        }
        _ => return Err(Status::internal("not an upstream change")),
    };
    Ok(notice_only(notice))
}

fn issued(kind: SecretKind, label: String, secret: String) -> IssuedSecret {
    IssuedSecret { kind, label, secret: SecretString::from(secret), models: Vec::new() }
}

fn notice_only(notice: String) -> ChangeOutcome {
    ChangeOutcome { notice, ..ChangeOutcome::default() }
}

fn added(screen: Screen, id: String) -> AddedRow {
    AddedRow { screen, id }
}

fn to_credential(draft: CredentialDraft) -> v1::Credential {
    use v1::credential::Source;
    let source = match draft {
        CredentialDraft::Variable(name) => Source::Env(name),
        CredentialDraft::File(path) => Source::File(path),
        CredentialDraft::Secret(secret) => Source::Secret(secret.expose_secret().to_owned()),
    };
    v1::Credential { source: Some(source) }
}

/// Returns the time `seconds` after `now`, or the last one that there is.
pub(super) fn after(now: Timestamp, seconds: u64) -> prost_types::Timestamp {
    let delay = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    let end = now.checked_add(delay).unwrap_or(Timestamp::MAX);
    prost_types::Timestamp { seconds: end.as_second(), nanos: 0 }
}
