//! The account service. The caller is always `ada`, a member or an operator.

use proto::v1::account_service_server::AccountService;
use proto::v1::{
    Account, AccountStatus, CreditAccountRequest, CreditAccountResponse, GrantRoleRequest,
    GrantRoleResponse, ListAccountsRequest, ListAccountsResponse, RegisterRequest,
    RegisterResponse, ResumeAccountRequest, ResumeAccountResponse, SetPlanRequest, SetPlanResponse,
    SignInRequest, SignInResponse, SignOutRequest, SignOutResponse, SuspendAccountRequest,
    SuspendAccountResponse, WhoAmIRequest, WhoAmIResponse,
};
use tonic::{Request, Response, Status};

use super::{Backend, TOKEN, authorize};

#[tonic::async_trait]
impl AccountService for Backend {
    async fn sign_in(
        &self,
        request: Request<SignInRequest>,
    ) -> Result<Response<SignInResponse>, Status> {
        let request = request.into_inner();
        let given = (request.name, request.password);
        if !self.read(|state| state.passwords.contains(&given)) {
            return Err(Status::unauthenticated("wrong name or password"));
        }
        let token = TOKEN.to_owned();
        Ok(Response::new(SignInResponse {
            token,
            account: Some(self.me()),
            expires_at: None,
            person: None,
        }))
    }

    async fn describe_gateway(
        &self,
        _: Request<proto::v1::DescribeGatewayRequest>,
    ) -> Result<Response<proto::v1::DescribeGatewayResponse>, Status> {
        let public_url = "https://gate.example/v1".to_owned();
        Ok(Response::new(proto::v1::DescribeGatewayResponse { public_url, ..Default::default() }))
    }

    async fn who_am_i(
        &self,
        request: Request<WhoAmIRequest>,
    ) -> Result<Response<WhoAmIResponse>, Status> {
        authorize(&request)?;
        if self.read(|state| state.signed_out) > 0 {
            return Err(Status::unauthenticated("the session has ended"));
        }
        Ok(Response::new(WhoAmIResponse { account: Some(self.me()), person: None }))
    }

    async fn register(
        &self,
        request: Request<RegisterRequest>,
    ) -> Result<Response<RegisterResponse>, Status> {
        let request = request.into_inner();
        if request.name == "ada" {
            return Err(Status::already_exists("`ada` is taken"));
        }
        self.change(|state| state.passwords.push((request.name, request.password)));
        Ok(Response::new(RegisterResponse::default()))
    }

    async fn sign_out(
        &self,
        request: Request<SignOutRequest>,
    ) -> Result<Response<SignOutResponse>, Status> {
        authorize(&request)?;
        self.change(|state| state.signed_out += 1);
        Ok(Response::new(SignOutResponse {}))
    }

    async fn list_accounts(
        &self,
        request: Request<ListAccountsRequest>,
    ) -> Result<Response<ListAccountsResponse>, Status> {
        authorize(&request)?;
        let accounts = self.read(|state| state.accounts.clone());
        Ok(Response::new(ListAccountsResponse { accounts, next_page_token: String::new() }))
    }

    async fn get_account(
        &self,
        _: Request<proto::v1::GetAccountRequest>,
    ) -> Result<Response<proto::v1::GetAccountResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn credit_account(
        &self,
        request: Request<CreditAccountRequest>,
    ) -> Result<Response<CreditAccountResponse>, Status> {
        authorize(&request)?;
        let CreditAccountRequest { account, amount_usd, .. } = request.into_inner();
        let account = self.account(&account, |it| it.balance_usd = amount_usd)?;
        Ok(Response::new(CreditAccountResponse { account: Some(account) }))
    }

    async fn suspend_account(
        &self,
        request: Request<SuspendAccountRequest>,
    ) -> Result<Response<SuspendAccountResponse>, Status> {
        authorize(&request)?;
        let status = AccountStatus::Suspended.into();
        let account = self.account(&request.into_inner().account, |it| it.status = status)?;
        Ok(Response::new(SuspendAccountResponse { account: Some(account) }))
    }

    async fn resume_account(
        &self,
        request: Request<ResumeAccountRequest>,
    ) -> Result<Response<ResumeAccountResponse>, Status> {
        authorize(&request)?;
        let status = AccountStatus::Active.into();
        let account = self.account(&request.into_inner().account, |it| it.status = status)?;
        Ok(Response::new(ResumeAccountResponse { account: Some(account) }))
    }

    async fn grant_role(
        &self,
        request: Request<GrantRoleRequest>,
    ) -> Result<Response<GrantRoleResponse>, Status> {
        authorize(&request)?;
        let GrantRoleRequest { account, role } = request.into_inner();
        let account = self.account(&account, |it| it.role = role)?;
        Ok(Response::new(GrantRoleResponse { account: Some(account) }))
    }

    async fn set_plan(
        &self,
        request: Request<SetPlanRequest>,
    ) -> Result<Response<SetPlanResponse>, Status> {
        authorize(&request)?;
        let SetPlanRequest { account, plan } = request.into_inner();
        let account = self.account(&account, |it| it.plan = plan)?;
        Ok(Response::new(SetPlanResponse { account: Some(account) }))
    }

    async fn change_password(
        &self,
        _: Request<proto::v1::ChangePasswordRequest>,
    ) -> Result<Response<proto::v1::ChangePasswordResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn list_sessions(
        &self,
        _: Request<proto::v1::ListSessionsRequest>,
    ) -> Result<Response<proto::v1::ListSessionsResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn revoke_session(
        &self,
        _: Request<proto::v1::RevokeSessionRequest>,
    ) -> Result<Response<proto::v1::RevokeSessionResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn revoke_other_sessions(
        &self,
        _: Request<proto::v1::RevokeOtherSessionsRequest>,
    ) -> Result<Response<proto::v1::RevokeOtherSessionsResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn create_password_reset(
        &self,
        _: Request<proto::v1::CreatePasswordResetRequest>,
    ) -> Result<Response<proto::v1::CreatePasswordResetResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn reset_password(
        &self,
        _: Request<proto::v1::ResetPasswordRequest>,
    ) -> Result<Response<proto::v1::ResetPasswordResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn create_invite(
        &self,
        _: Request<proto::v1::CreateInviteRequest>,
    ) -> Result<Response<proto::v1::CreateInviteResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn rename_account(
        &self,
        _: Request<proto::v1::RenameAccountRequest>,
    ) -> Result<Response<proto::v1::RenameAccountResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn close_account(
        &self,
        _: Request<proto::v1::CloseAccountRequest>,
    ) -> Result<Response<proto::v1::CloseAccountResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn delete_account(
        &self,
        _: Request<proto::v1::DeleteAccountRequest>,
    ) -> Result<Response<proto::v1::DeleteAccountResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn list_invites(
        &self,
        _: Request<proto::v1::ListInvitesRequest>,
    ) -> Result<Response<proto::v1::ListInvitesResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn revoke_invite(
        &self,
        _: Request<proto::v1::RevokeInviteRequest>,
    ) -> Result<Response<proto::v1::RevokeInviteResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }
}

impl Backend {
    /// Returns the account that makes every call.
    fn me(&self) -> Account {
        self.read(|state| state.accounts[0].clone())
    }

    fn account(&self, name: &str, change: impl FnOnce(&mut Account)) -> Result<Account, Status> {
        self.change(|state| {
            let account = state.accounts.iter_mut().find(|it| it.name == name);
            account.map(|account| {
                change(account);
                account.clone()
            })
        })
        .ok_or_else(|| Status::not_found("no such account"))
    }
}
