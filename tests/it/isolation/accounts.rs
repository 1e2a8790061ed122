//! Accounts, keys and the audit log, called for another account.

use proto::v1;
use tests::Session;
use tonic::Code;

use super::attempt::{Case, shown};
use super::{Rule, Victim};

pub(super) async fn attempt(rpc: &str, caller: &Session, victim: &Victim) -> Option<Case> {
    let (mut all, mut foreign) = (Vec::new(), Vec::new());
    let rule = match rpc {
        "AccountService/Register" => {
            let name = format!("{}-friend", caller.name);
            let password = "long enough".to_owned();
            let request = v1::RegisterRequest { name, password, invite_code: String::new() };
            all.push(shown(caller.accounts().register(request).await));
            Rule::Open
        }
        "AccountService/SignIn" => {
            // the response to a wrong password contains no secret of a member
            let name = victim.session.name.clone();
            let request = v1::SignInRequest { name, password: "wrong password".to_owned() };
            let refused = caller.accounts().sign_in(request).await.unwrap_err();
            assert_eq!(refused.code(), Code::Unauthenticated);
            Rule::Open
        }
        "AccountService/SignOut" => {
            // the caller's session is needed for the other calls, and no other session can be named
            Rule::Own
        }
        "AccountService/DescribeGateway" => {
            let request = v1::DescribeGatewayRequest {};
            all.push(shown(caller.accounts().describe_gateway(request).await));
            Rule::Open
        }
        "AccountService/WhoAmI" => {
            all.push(shown(caller.accounts().who_am_i(v1::WhoAmIRequest {}).await));
            Rule::Own
        }
        "AccountService/ListAccounts" => {
            let request = v1::ListAccountsRequest::default();
            all.push(shown(caller.accounts().list_accounts(request).await));
            Rule::Support
        }
        "AccountService/GetAccount" => {
            for account in victim.names() {
                let request = v1::GetAccountRequest { account };
                all.push(shown(caller.accounts().get_account(request).await));
            }
            Rule::Hidden
        }
        "AccountService/CreditAccount" => {
            for account in victim.names() {
                let request = v1::CreditAccountRequest {
                    account,
                    amount_usd: "-1".to_owned(),
                    reason: "theft".to_owned(),
                };
                all.push(shown(caller.accounts().credit_account(request).await));
            }
            Rule::Operator
        }
        "AccountService/CreateInvite" => {
            let request = v1::CreateInviteRequest::default();
            all.push(shown(caller.accounts().create_invite(request).await));
            Rule::Operator
        }
        "AccountService/RenameAccount" => {
            for account in victim.names() {
                // roles that may rename it leave its name, which the other calls use
                let name = victim.session.name.clone();
                let request = v1::RenameAccountRequest { account, name };
                all.push(shown(caller.accounts().rename_account(request).await));
            }
            Rule::Operator
        }
        "AccountService/CloseAccount" => {
            for account in victim.names() {
                let request = v1::CloseAccountRequest { account };
                all.push(shown(caller.accounts().close_account(request).await));
            }
            Rule::Operator
        }
        "AccountService/DeleteAccount" => {
            for account in victim.names() {
                // roles that may delete it leave it to the other calls
                let confirm = "another name".to_owned();
                let request = v1::DeleteAccountRequest { account, confirm };
                all.push(shown(caller.accounts().delete_account(request).await));
            }
            Rule::Operator
        }
        "AccountService/ListInvites" => {
            let request = v1::ListInvitesRequest {};
            all.push(shown(caller.accounts().list_invites(request).await));
            Rule::Operator
        }
        "AccountService/RevokeInvite" => {
            let request = v1::RevokeInviteRequest { id: "4be1f07a92c3".to_owned() };
            all.push(shown(caller.accounts().revoke_invite(request).await));
            Rule::Operator
        }
        "AccountService/SuspendAccount" => {
            for account in victim.names() {
                let reason = "a test".to_owned();
                let request = v1::SuspendAccountRequest { account, reason };
                all.push(shown(caller.accounts().suspend_account(request).await));
            }
            Rule::Support
        }
        "AccountService/ResumeAccount" => {
            for account in victim.names() {
                let request = v1::ResumeAccountRequest { account };
                all.push(shown(caller.accounts().resume_account(request).await));
            }
            Rule::Support
        }
        "AccountService/SetPlan" => {
            for account in victim.names() {
                let request = v1::SetPlanRequest { account, plan: "free".to_owned() };
                all.push(shown(caller.accounts().set_plan(request).await));
            }
            Rule::Operator
        }
        "AccountService/ChangePassword" => {
            // the request names no account: it changes the caller's password
            let request = v1::ChangePasswordRequest {
                old_password: format!("correct horse battery {}", caller.name),
                new_password: "another long one".to_owned(),
            };
            all.push(shown(caller.accounts().change_password(request).await));
            Rule::Own
        }
        "AccountService/CreatePasswordReset" => {
            for account in victim.names() {
                let request = v1::CreatePasswordResetRequest { account };
                all.push(shown(caller.accounts().create_password_reset(request).await));
            }
            Rule::Operator
        }
        "AccountService/ResetPassword" => {
            // the response to a wrong code contains no secret of a member
            let request = v1::ResetPasswordRequest {
                name: victim.session.name.clone(),
                code: "tgr-guess".to_owned(),
                new_password: "another long one".to_owned(),
            };
            let refused = caller.accounts().reset_password(request).await.unwrap_err();
            assert_eq!(refused.code(), Code::Unauthenticated);
            Rule::Open
        }
        "AccountService/ListSessions" => {
            all.push(shown(caller.accounts().list_sessions(v1::ListSessionsRequest {}).await));
            Rule::Own
        }
        "AccountService/RevokeSession" => {
            let request = v1::RevokeSessionRequest { id: victim.session_id.clone() };
            all.push(shown(caller.accounts().revoke_session(request).await));
            Rule::Private(Code::NotFound)
        }
        "AccountService/RevokeOtherSessions" => {
            let request = v1::RevokeOtherSessionsRequest {};
            all.push(shown(caller.accounts().revoke_other_sessions(request).await));
            Rule::Own
        }
        "AccountService/GrantRole" => {
            for account in victim.names() {
                let role = v1::Role::Operator.into();
                let request = v1::GrantRoleRequest { account, role };
                all.push(shown(caller.accounts().grant_role(request).await));
            }
            Rule::Owner
        }
        "KeyService/CreateKey" => {
            let request = v1::CreateKeyRequest { label: "mine".to_owned(), ..Default::default() };
            all.push(shown(caller.keys().create_key(request).await));
            Rule::Own
        }
        "KeyService/ListKeys" => {
            for account in victim.names() {
                foreign.push((
                    shown(caller.keys().list_keys(v1::ListKeysRequest { account }).await),
                    Code::NotFound,
                ));
            }
            let every = v1::ListKeysRequest { account: "*".to_owned() };
            foreign.push((shown(caller.keys().list_keys(every).await), Code::PermissionDenied));
            all.push(shown(caller.keys().list_keys(v1::ListKeysRequest::default()).await));
            Rule::Own
        }
        "KeyService/UpdateKey" => {
            // roles that may change it leave its label, which the other calls look for
            let label = Some("private-label".to_owned());
            let id = victim.key.id.clone();
            let request = v1::UpdateKeyRequest { id, label, ..Default::default() };
            all.push(shown(caller.keys().update_key(request).await));
            Rule::HiddenOperator
        }
        "KeyService/RotateKey" => {
            let id = victim.key.id.clone();
            let request = v1::RotateKeyRequest { id, overlap_seconds: 0 };
            all.push(shown(caller.keys().rotate_key(request).await));
            Rule::Private(Code::PermissionDenied)
        }
        "KeyService/RevokeKey" => {
            let request = v1::RevokeKeyRequest { id: victim.key.id.clone() };
            all.push(shown(caller.keys().revoke_key(request).await));
            Rule::Hidden
        }
        "AuditService/ListAudit" => {
            for account in victim.names() {
                let request = v1::ListAuditRequest { account, ..Default::default() };
                foreign.push((shown(caller.audit().list_audit(request).await), Code::NotFound));
            }
            all.push(shown(caller.audit().list_audit(v1::ListAuditRequest::default()).await));
            Rule::Own
        }
        _ => return None,
    };
    Some(Case { rule, attempts: all, foreign })
}
