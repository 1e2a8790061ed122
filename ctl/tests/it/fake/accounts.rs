//! The fake's accounts and sessions.

use proto::v1::account_service_server::AccountService;
use proto::v1::*;
use tonic::{Request, Status};

use super::{Answer, Fake, account, answer, at};

#[tonic::async_trait]
impl AccountService for Fake {
    async fn register(&self, request: Request<RegisterRequest>) -> Answer<RegisterResponse> {
        let input = self.note("Register", request)?;
        let trial_credit_withheld = input.name == "late";
        answer(RegisterResponse {
            account: account(&input.name),
            trial_credit_usd: if trial_credit_withheld { "0" } else { "5" }.to_owned(),
            trial_credit_withheld,
        })
    }

    async fn sign_in(&self, request: Request<SignInRequest>) -> Answer<SignInResponse> {
        let input = self.note("SignIn", request)?;
        if input.password == "wrong" {
            return Err(Status::unauthenticated("name or password is wrong"));
        }
        answer(SignInResponse {
            token: format!("session-of-{}", input.name),
            expires_at: at(86_400, 0),
            account: account(&input.name),
        })
    }

    async fn sign_out(&self, request: Request<SignOutRequest>) -> Answer<SignOutResponse> {
        self.note("SignOut", request)?;
        answer(SignOutResponse {})
    }

    async fn describe_gateway(
        &self,
        request: Request<DescribeGatewayRequest>,
    ) -> Answer<DescribeGatewayResponse> {
        assert!(request.metadata().get("authorization").is_none(), "nobody's token is needed");
        self.note("DescribeGateway", request)?;
        let Some(public_url) = self.state.lock().unwrap().public_url.clone() else {
            return Err(Status::unimplemented(""));
        };
        answer(DescribeGatewayResponse { public_url, ..DescribeGatewayResponse::default() })
    }

    async fn who_am_i(&self, request: Request<WhoAmIRequest>) -> Answer<WhoAmIResponse> {
        let stranger = request.metadata().get("authorization").is_none();
        self.note("WhoAmI", request)?;
        if stranger {
            return Err(Status::unauthenticated("this call needs a session"));
        }
        answer(WhoAmIResponse { account: account("alice") })
    }

    async fn list_accounts(
        &self,
        request: Request<ListAccountsRequest>,
    ) -> Answer<ListAccountsResponse> {
        let input = self.note("ListAccounts", request)?;
        let (name, next) = if input.page_token.is_empty() { ("alice", "2") } else { ("bob", "") };
        answer(ListAccountsResponse {
            accounts: account(name).into_iter().collect(),
            next_page_token: next.to_owned(),
        })
    }

    async fn get_account(&self, request: Request<GetAccountRequest>) -> Answer<GetAccountResponse> {
        let input = self.note("GetAccount", request)?;
        answer(GetAccountResponse { account: account(&input.account) })
    }

    async fn credit_account(
        &self,
        request: Request<CreditAccountRequest>,
    ) -> Answer<CreditAccountResponse> {
        let input = self.note("CreditAccount", request)?;
        answer(CreditAccountResponse { account: account(&input.account) })
    }

    async fn suspend_account(
        &self,
        request: Request<SuspendAccountRequest>,
    ) -> Answer<SuspendAccountResponse> {
        let input = self.note("SuspendAccount", request)?;
        let status = AccountStatus::Suspended.into();
        let account = account(&input.account).map(|account| Account { status, ..account });
        answer(SuspendAccountResponse { account })
    }

    async fn resume_account(
        &self,
        request: Request<ResumeAccountRequest>,
    ) -> Answer<ResumeAccountResponse> {
        let input = self.note("ResumeAccount", request)?;
        answer(ResumeAccountResponse { account: account(&input.account) })
    }

    async fn set_plan(&self, request: Request<SetPlanRequest>) -> Answer<SetPlanResponse> {
        let SetPlanRequest { account: name, plan } = self.note("SetPlan", request)?;
        let account = account(&name).map(|account| Account { plan, ..account });
        answer(SetPlanResponse { account })
    }

    async fn change_password(
        &self,
        request: Request<ChangePasswordRequest>,
    ) -> Answer<ChangePasswordResponse> {
        let input = self.note("ChangePassword", request)?;
        if input.old_password == "wrong" {
            return Err(Status::permission_denied("the old password is wrong"));
        }
        answer(ChangePasswordResponse { ended_sessions: 1 })
    }

    async fn list_sessions(
        &self,
        request: Request<ListSessionsRequest>,
    ) -> Answer<ListSessionsResponse> {
        self.note("ListSessions", request)?;
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
        self.note("RevokeSession", request)?;
        answer(RevokeSessionResponse {})
    }

    async fn revoke_other_sessions(
        &self,
        request: Request<RevokeOtherSessionsRequest>,
    ) -> Answer<RevokeOtherSessionsResponse> {
        self.note("RevokeOtherSessions", request)?;
        answer(RevokeOtherSessionsResponse { ended_sessions: 2 })
    }

    async fn create_invite(
        &self,
        request: Request<CreateInviteRequest>,
    ) -> Answer<CreateInviteResponse> {
        let input = self.note("CreateInvite", request)?;
        let expires_at = at(i64::try_from(input.ttl_seconds).unwrap(), 0);
        answer(CreateInviteResponse { code: "inv-1".to_owned(), expires_at })
    }
}
