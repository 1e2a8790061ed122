//! The changes of who may sign in: codes, sessions, and the people of accounts.

use proto::client;
use proto::v1;
use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::people_service_client::PeopleServiceClient;
use tonic::Status;

use super::super::call::with_timeout;
use super::super::convert;
use super::{added, issued, notice_only};
use crate::model::Screen;
use crate::model::change::{Change, ChangeOutcome, SecretKind};

/// Changes codes and sessions.
pub(super) async fn account(
    mut accounts: AccountServiceClient<client::Connection>,
    change: Change,
) -> Result<ChangeOutcome, Status> {
    let notice = match change {
        Change::ResetPassword { account } => {
            let request = v1::CreatePasswordResetRequest { account };
            let answer = with_timeout(accounts.create_password_reset(request)).await?;
            let (name, code) = (answer.account_name, answer.code);
            let notice = format!("`{name}` can set a new password with the code");
            let secret = Some(issued(SecretKind::PasswordReset, name, code));
            return Ok(ChangeOutcome { secret, ..notice_only(notice) });
        }
        Change::CreateInvite { ttl_seconds, plan, credit_usd } => {
            let credit_usd = credit_usd.unwrap_or_default();
            let request = v1::CreateInviteRequest { ttl_seconds, plan, credit_usd };
            let answer = with_timeout(accounts.create_invite(request)).await?;
            let notice = "the invite is created".to_owned();
            let secret = Some(issued(SecretKind::Invite, String::new(), answer.code));
            let added = answer.invite.map(|invite| added(Screen::Invites, invite.id));
            return Ok(ChangeOutcome { secret, added, ..notice_only(notice) });
        }
        Change::RevokeInvite { id } => {
            let notice = format!("invite `{id}` is revoked");
            with_timeout(accounts.revoke_invite(v1::RevokeInviteRequest { id })).await?;
            notice
        }
        Change::RevokeSession { id } => {
            let notice = format!("session `{id}` has ended");
            with_timeout(accounts.revoke_session(v1::RevokeSessionRequest { id })).await?;
            notice
        }
        Change::RevokeOtherSessions => {
            let request = v1::RevokeOtherSessionsRequest {};
            let ended = with_timeout(accounts.revoke_other_sessions(request)).await?.ended_sessions;
            format!("{ended} other sessions have ended")
        }
        _ => return Err(Status::internal("not a change of codes or sessions")),
    };
    Ok(notice_only(notice))
}

/// Changes the people of accounts.
pub(super) async fn people(
    mut people: PeopleServiceClient<client::Connection>,
    change: Change,
) -> Result<ChangeOutcome, Status> {
    let notice = match change {
        Change::AddPerson { account, name, role } => {
            let role = convert::to_person_role(role).into();
            let request = v1::AddPersonRequest { account, name, role };
            let answer = with_timeout(people.add_person(request)).await?;
            let v1::Person { id, name, .. } = answer.person.unwrap_or_default();
            let notice = format!("`{name}` is added, and signs in with the code");
            let secret = Some(issued(SecretKind::Person, name, answer.code));
            let added = Some(added(Screen::People, id));
            return Ok(ChangeOutcome { secret, added, ..notice_only(notice) });
        }
        Change::SetPersonRole { name, role } => {
            let notice = format!("`{name}` is now {}", role.as_str());
            let role = convert::to_person_role(role).into();
            let request = v1::SetPersonRoleRequest { person: name, role };
            with_timeout(people.set_person_role(request)).await?;
            notice
        }
        Change::RemovePerson { name } => {
            let notice = format!("`{name}` is removed");
            with_timeout(people.remove_person(v1::RemovePersonRequest { person: name })).await?;
            notice
        }
        _ => return Err(Status::internal("not a change of people")),
    };
    Ok(notice_only(notice))
}
