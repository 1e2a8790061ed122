//! `ctl account invite`, `invites` and `uninvite`, and the printed form of invites.

use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::{CreateInviteRequest, Invite, ListInvitesRequest, RevokeInviteRequest};
use serde::Serialize;

use crate::Shell;
use crate::cli::account;
use crate::commands::{non_empty, rfc3339};
use crate::error::Failure;
use crate::output::Record;

/// A new invite with its code, printed only at creation.
#[derive(Serialize)]
struct NewInviteRecord {
    code: String,
    expires_at: Option<String>,
    id: Option<String>,
    plan: Option<String>,
    credit_usd: Option<String>,
}

/// An invite, as printed.
#[derive(Serialize)]
pub(in crate::commands) struct InviteRecord {
    id: String,
    created_at: Option<String>,
    created_by: Option<String>,
    expires_at: Option<String>,
    plan: Option<String>,
    credit_usd: Option<String>,
    used_at: Option<String>,
    used_by: Option<String>,
}

/// Runs `ctl account invite`.
pub(super) async fn create(shell: &mut Shell<'_>, input: account::Invite) -> Result<(), Failure> {
    let request = CreateInviteRequest {
        ttl_seconds: u64::try_from(input.ttl.as_secs()).unwrap_or_default(),
        plan: input.plan,
        credit_usd: input.credit,
    };
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let answer = client.create_invite(request).await?.into_inner();
    let invite = answer.invite.unwrap_or_default();
    shell.output.one(&NewInviteRecord {
        code: answer.code,
        expires_at: rfc3339(answer.expires_at),
        id: non_empty(invite.id),
        plan: non_empty(invite.plan),
        credit_usd: non_empty(invite.credit_usd),
    })?;
    shell.output.note("one person can use it: ctl register NAME --invite CODE");
    Ok(())
}

/// Runs `ctl account invites`.
pub(super) async fn list(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let answer = client.list_invites(ListInvitesRequest {}).await?.into_inner();
    let invites: Vec<_> = answer.invites.into_iter().map(InviteRecord::from).collect();
    shell.output.many(&invites)
}

/// Runs `ctl account uninvite`.
pub(super) async fn revoke(shell: &mut Shell<'_>, id: String) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    client.revoke_invite(RevokeInviteRequest { id: id.clone() }).await?;
    shell.output.note(&format!("revoked the invite `{id}`"));
    Ok(())
}

impl From<Invite> for InviteRecord {
    fn from(invite: Invite) -> Self {
        Self {
            id: invite.id,
            created_at: rfc3339(invite.created_at),
            created_by: non_empty(invite.created_by),
            expires_at: rfc3339(invite.expires_at),
            plan: non_empty(invite.plan),
            credit_usd: non_empty(invite.credit_usd),
            used_at: rfc3339(invite.used_at),
            used_by: non_empty(invite.used_by),
        }
    }
}

impl Record for NewInviteRecord {
    const FIELDS: &'static [&'static str] = &["code", "expires_at", "id", "plan", "credit_usd"];
    const COLUMNS: &'static [&'static str] = &["code", "expires_at", "plan", "credit_usd"];
}

impl Record for InviteRecord {
    const FIELDS: &'static [&'static str] = &[
        "id",
        "created_at",
        "created_by",
        "expires_at",
        "plan",
        "credit_usd",
        "used_at",
        "used_by",
    ];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}
