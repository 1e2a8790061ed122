//! Canned accounts and sessions.

use proto::v1::account_service_server::AccountService;
use proto::v1::*;
use tonic::{Request, Status};

use super::{Answer, FakeGateway, account, answer, at};

fn invite() -> Invite {
    Invite {
        id: "4be1f07a92c3".to_owned(),
        created_by: "operator".to_owned(),
        created_at: at(0, 0),
        expires_at: at(60, 0),
        plan: "team".to_owned(),
        credit_usd: "20".to_owned(),
        used_at: at(60, 0),
        used_by: "alice".to_owned(),
    }
}

#[tonic::async_trait]
impl AccountService for FakeGateway {
    async fn register(&self, request: Request<RegisterRequest>) -> Answer<RegisterResponse> {
        let input = self.record("Register", request)?;
        let trial_credit_withheld = input.name == "late";
        answer(RegisterResponse {
            account: account(&input.name),
            trial_credit_usd: if trial_credit_withheld { "0" } else { "5" }.to_owned(),
            trial_credit_withheld,
        })
    }

    async fn sign_in(&self, request: Request<SignInRequest>) -> Answer<SignInResponse> {
        let input = self.record("SignIn", request)?;
        if input.password == "wrong" {
            return Err(Status::unauthenticated("name or password is wrong"));
        }
        answer(SignInResponse {
            token: format!("session-of-{}", input.name),
            expires_at: at(86_400, 0),
            account: account(&input.name),
            person: None,
        })
    }

    async fn sign_out(&self, request: Request<SignOutRequest>) -> Answer<SignOutResponse> {
        self.record("SignOut", request)?;
        answer(SignOutResponse {})
    }

    async fn describe_gateway(
        &self,
        request: Request<DescribeGatewayRequest>,
    ) -> Answer<DescribeGatewayResponse> {
        assert!(request.metadata().get("authorization").is_none(), "the call needs no token");
        self.record("DescribeGateway", request)?;
        let Some(public_url) = self.state.lock().unwrap().public_url.clone() else {
            return Err(Status::unimplemented(""));
        };
        answer(DescribeGatewayResponse { public_url, ..DescribeGatewayResponse::default() })
    }

    async fn who_am_i(&self, request: Request<WhoAmIRequest>) -> Answer<WhoAmIResponse> {
        let is_anonymous = request.metadata().get("authorization").is_none();
        self.record("WhoAmI", request)?;
        if is_anonymous {
            return Err(Status::unauthenticated("this call needs a session"));
        }
        answer(WhoAmIResponse { account: account("alice"), person: None })
    }

    async fn list_accounts(
        &self,
        request: Request<ListAccountsRequest>,
    ) -> Answer<ListAccountsResponse> {
        let input = self.record("ListAccounts", request)?;
        let (name, next) = if input.page_token.is_empty() { ("alice", "2") } else { ("bob", "") };
        answer(ListAccountsResponse {
            accounts: account(name).into_iter().collect(),
            next_page_token: next.to_owned(),
        })
    }

    async fn get_account(&self, request: Request<GetAccountRequest>) -> Answer<GetAccountResponse> {
        let input = self.record("GetAccount", request)?;
        answer(GetAccountResponse { account: account(&input.account) })
    }

    async fn credit_account(
        &self,
        request: Request<CreditAccountRequest>,
    ) -> Answer<CreditAccountResponse> {
        let input = self.record("CreditAccount", request)?;
        answer(CreditAccountResponse { account: account(&input.account) })
    }

    async fn suspend_account(
        &self,
        request: Request<SuspendAccountRequest>,
    ) -> Answer<SuspendAccountResponse> {
        let input = self.record("SuspendAccount", request)?;
        let status = AccountStatus::Suspended.into();
        let account = account(&input.account).map(|account| Account { status, ..account });
        answer(SuspendAccountResponse { account })
    }

    async fn resume_account(
        &self,
        request: Request<ResumeAccountRequest>,
    ) -> Answer<ResumeAccountResponse> {
        let input = self.record("ResumeAccount", request)?;
        answer(ResumeAccountResponse { account: account(&input.account) })
    }

    async fn rename_account(
        &self,
        request: Request<RenameAccountRequest>,
    ) -> Answer<RenameAccountResponse> {
        let input = self.record("RenameAccount", request)?;
        answer(RenameAccountResponse { account: account(&input.name) })
    }

    async fn close_account(
        &self,
        request: Request<CloseAccountRequest>,
    ) -> Answer<CloseAccountResponse> {
        let input = self.record("CloseAccount", request)?;
        let status = AccountStatus::Closed.into();
        let account = account(&input.account).map(|account| Account { status, ..account });
        answer(CloseAccountResponse { account })
    }

    async fn delete_account(
        &self,
        request: Request<DeleteAccountRequest>,
    ) -> Answer<DeleteAccountResponse> {
        self.record("DeleteAccount", request)?;
        let status = AccountStatus::Deleted.into();
        let account = account("deleted-1").map(|account| Account { status, ..account });
        answer(DeleteAccountResponse { account })
    }

    async fn set_plan(&self, request: Request<SetPlanRequest>) -> Answer<SetPlanResponse> {
        let SetPlanRequest { account: name, plan } = self.record("SetPlan", request)?;
        let account = account(&name).map(|account| Account { plan, ..account });
        answer(SetPlanResponse { account })
    }

    async fn grant_role(&self, request: Request<GrantRoleRequest>) -> Answer<GrantRoleResponse> {
        let GrantRoleRequest { account: name, role } = self.record("GrantRole", request)?;
        let account = account(&name).map(|account| Account { role, ..account });
        answer(GrantRoleResponse { account })
    }

    async fn change_password(
        &self,
        request: Request<ChangePasswordRequest>,
    ) -> Answer<ChangePasswordResponse> {
        let input = self.record("ChangePassword", request)?;
        if input.old_password == "wrong" {
            return Err(Status::permission_denied("the old password is wrong"));
        }
        answer(ChangePasswordResponse { ended_sessions: 1 })
    }

    async fn list_sessions(
        &self,
        request: Request<ListSessionsRequest>,
    ) -> Answer<ListSessionsResponse> {
        self.record("ListSessions", request)?;
        let session = |id: &str, current| Session {
            id: id.to_owned(),
            created_at: at(0, 0),
            expires_at: at(86_400, 0),
            current,
        };
        let sessions = vec![session("4be1f07a92c3", false), session("0d5a1c88e27f", true)];
        answer(ListSessionsResponse { sessions })
    }

    async fn revoke_session(
        &self,
        request: Request<RevokeSessionRequest>,
    ) -> Answer<RevokeSessionResponse> {
        self.record("RevokeSession", request)?;
        answer(RevokeSessionResponse {})
    }

    async fn revoke_other_sessions(
        &self,
        request: Request<RevokeOtherSessionsRequest>,
    ) -> Answer<RevokeOtherSessionsResponse> {
        self.record("RevokeOtherSessions", request)?;
        answer(RevokeOtherSessionsResponse { ended_sessions: 2 })
    }

    async fn create_password_reset(
        &self,
        request: Request<CreatePasswordResetRequest>,
    ) -> Answer<CreatePasswordResetResponse> {
        let account_name = self.record("CreatePasswordReset", request)?.account;
        let expires_at = at(3_600, 0);
        answer(CreatePasswordResetResponse { code: "tgr-1".to_owned(), expires_at, account_name })
    }

    async fn reset_password(
        &self,
        request: Request<ResetPasswordRequest>,
    ) -> Answer<ResetPasswordResponse> {
        let input = self.record("ResetPassword", request)?;
        if input.code != "tgr-1" {
            return Err(Status::unauthenticated("the name or the code is wrong"));
        }
        answer(ResetPasswordResponse {})
    }

    async fn create_invite(
        &self,
        request: Request<CreateInviteRequest>,
    ) -> Answer<CreateInviteResponse> {
        let input = self.record("CreateInvite", request)?;
        let expires_at = at(i64::try_from(input.ttl_seconds).unwrap(), 0);
        let Invite { id, .. } = invite();
        let invite = Some(Invite { id, ..Invite::default() });
        answer(CreateInviteResponse { code: "inv-1".to_owned(), expires_at, invite })
    }

    async fn list_invites(
        &self,
        request: Request<ListInvitesRequest>,
    ) -> Answer<ListInvitesResponse> {
        self.record("ListInvites", request)?;
        answer(ListInvitesResponse { invites: vec![invite()] })
    }

    async fn revoke_invite(
        &self,
        request: Request<RevokeInviteRequest>,
    ) -> Answer<RevokeInviteResponse> {
        self.record("RevokeInvite", request)?;
        answer(RevokeInviteResponse {})
    }
}
