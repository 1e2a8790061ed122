//! `AccountService`.

use std::sync::Arc;

use proto::v1::{self, account_service_server::AccountService};
use tonic::{Request, Response, async_trait};

use super::status::invalid;
use super::{RpcResult, auth, convert, page_size};
use crate::control::Control;

pub(super) struct Accounts {
    pub(super) control: Arc<Control>,
}

#[async_trait]
impl AccountService for Accounts {
    async fn register(
        &self,
        request: Request<v1::RegisterRequest>,
    ) -> RpcResult<v1::RegisterResponse> {
        let caller = auth::optional_caller(&self.control, &request).await?;
        let address = auth::address(&request);
        let v1::RegisterRequest { name, password, invite_code } = request.into_inner();
        let (caller, password, code) = (caller.as_ref(), password.into(), invite_code.into());
        let registered = self.control.register(caller, address, &name, password, &code).await?;
        Ok(Response::new(v1::RegisterResponse {
            account: Some(convert::account(&registered.account)),
            trial_credit_usd: registered.trial_credit.to_string(),
            trial_credit_withheld: registered.withheld,
        }))
    }

    async fn sign_in(&self, request: Request<v1::SignInRequest>) -> RpcResult<v1::SignInResponse> {
        let address = auth::address(&request);
        let v1::SignInRequest { name, password } = request.into_inner();
        let signed_in = self.control.sign_in(address, &name, password.into()).await?;
        Ok(Response::new(v1::SignInResponse {
            token: convert::expose_secret(&signed_in.token),
            expires_at: Some(convert::time(signed_in.expires_at)),
            person: signed_in
                .person
                .map(|it| convert::person(&it, signed_in.account.account.name.clone())),
            account: Some(convert::account(&signed_in.account)),
        }))
    }

    async fn sign_out(
        &self,
        request: Request<v1::SignOutRequest>,
    ) -> RpcResult<v1::SignOutResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        self.control.sign_out(&caller).await?;
        Ok(Response::new(v1::SignOutResponse {}))
    }

    async fn who_am_i(&self, request: Request<v1::WhoAmIRequest>) -> RpcResult<v1::WhoAmIResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let person = caller.person.map(|it| convert::person(&it, caller.account.name.clone()));
        let account = self.control.view(caller.account).await?;
        Ok(Response::new(v1::WhoAmIResponse { account: Some(convert::account(&account)), person }))
    }

    async fn describe_gateway(
        &self,
        _: Request<v1::DescribeGatewayRequest>,
    ) -> RpcResult<v1::DescribeGatewayResponse> {
        let (api, tls) = self.control.api_address();
        Ok(Response::new(v1::DescribeGatewayResponse {
            public_url: api.public_url.clone().unwrap_or_default(),
            listen: api.listen.to_string(),
            tls,
        }))
    }

    async fn list_accounts(
        &self,
        request: Request<v1::ListAccountsRequest>,
    ) -> RpcResult<v1::ListAccountsResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let v1::ListAccountsRequest { page_size: requested, page_token } = request.into_inner();
        let size = page_size(requested, 100);
        let page = self.control.list_accounts(&caller, size, &page_token).await?;
        Ok(Response::new(v1::ListAccountsResponse {
            accounts: page.items.iter().map(convert::account).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn get_account(
        &self,
        request: Request<v1::GetAccountRequest>,
    ) -> RpcResult<v1::GetAccountResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let account = self.control.get_account(&caller, &request.into_inner().account).await?;
        Ok(Response::new(v1::GetAccountResponse { account: Some(convert::account(&account)) }))
    }

    async fn credit_account(
        &self,
        request: Request<v1::CreditAccountRequest>,
    ) -> RpcResult<v1::CreditAccountResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let v1::CreditAccountRequest { account, amount_usd, reason } = request.into_inner();
        let amount = convert::amount("amount_usd", &amount_usd).map_err(invalid)?;
        let account = self.control.credit_account(&caller, &account, amount, &reason).await?;
        Ok(Response::new(v1::CreditAccountResponse { account: Some(convert::account(&account)) }))
    }

    async fn suspend_account(
        &self,
        request: Request<v1::SuspendAccountRequest>,
    ) -> RpcResult<v1::SuspendAccountResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let v1::SuspendAccountRequest { account, reason } = request.into_inner();
        let account = self.control.suspend_account(&caller, &account, &reason).await?;
        Ok(Response::new(v1::SuspendAccountResponse { account: Some(convert::account(&account)) }))
    }

    async fn resume_account(
        &self,
        request: Request<v1::ResumeAccountRequest>,
    ) -> RpcResult<v1::ResumeAccountResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let account = self.control.resume_account(&caller, &request.into_inner().account).await?;
        Ok(Response::new(v1::ResumeAccountResponse { account: Some(convert::account(&account)) }))
    }

    async fn rename_account(
        &self,
        request: Request<v1::RenameAccountRequest>,
    ) -> RpcResult<v1::RenameAccountResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let v1::RenameAccountRequest { account, name } = request.into_inner();
        let account = self.control.rename_account(&caller, &account, &name).await?;
        Ok(Response::new(v1::RenameAccountResponse { account: Some(convert::account(&account)) }))
    }

    async fn close_account(
        &self,
        request: Request<v1::CloseAccountRequest>,
    ) -> RpcResult<v1::CloseAccountResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let account = self.control.close_account(&caller, &request.into_inner().account).await?;
        Ok(Response::new(v1::CloseAccountResponse { account: Some(convert::account(&account)) }))
    }

    async fn delete_account(
        &self,
        request: Request<v1::DeleteAccountRequest>,
    ) -> RpcResult<v1::DeleteAccountResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let v1::DeleteAccountRequest { account, confirm } = request.into_inner();
        let account = self.control.delete_account(&caller, &account, &confirm).await?;
        Ok(Response::new(v1::DeleteAccountResponse { account: Some(convert::account(&account)) }))
    }

    async fn set_plan(
        &self,
        request: Request<v1::SetPlanRequest>,
    ) -> RpcResult<v1::SetPlanResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let v1::SetPlanRequest { account, plan } = request.into_inner();
        let account = self.control.set_plan(&caller, &account, plan).await?;
        Ok(Response::new(v1::SetPlanResponse { account: Some(convert::account(&account)) }))
    }

    async fn change_password(
        &self,
        request: Request<v1::ChangePasswordRequest>,
    ) -> RpcResult<v1::ChangePasswordResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let address = auth::address(&request);
        let v1::ChangePasswordRequest { old_password, new_password } = request.into_inner();
        let (old, new) = (old_password.into(), new_password.into());
        let ended_sessions = self.control.change_password(&caller, address, old, new).await?;
        Ok(Response::new(v1::ChangePasswordResponse { ended_sessions }))
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> RpcResult<v1::ListSessionsResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let sessions = self.control.list_sessions(&caller).await?;
        let sessions = sessions.iter().map(convert::session).collect();
        Ok(Response::new(v1::ListSessionsResponse { sessions }))
    }

    async fn revoke_session(
        &self,
        request: Request<v1::RevokeSessionRequest>,
    ) -> RpcResult<v1::RevokeSessionResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        self.control.revoke_session(&caller, &request.into_inner().id).await?;
        Ok(Response::new(v1::RevokeSessionResponse {}))
    }

    async fn revoke_other_sessions(
        &self,
        request: Request<v1::RevokeOtherSessionsRequest>,
    ) -> RpcResult<v1::RevokeOtherSessionsResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let ended_sessions = self.control.revoke_other_sessions(&caller).await?;
        Ok(Response::new(v1::RevokeOtherSessionsResponse { ended_sessions }))
    }

    async fn create_invite(
        &self,
        request: Request<v1::CreateInviteRequest>,
    ) -> RpcResult<v1::CreateInviteResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let request = convert::invite_request(request.into_inner()).map_err(invalid)?;
        let new = self.control.create_invite(&caller, request).await?;
        let invite = convert::invite(new.invite);
        Ok(Response::new(v1::CreateInviteResponse {
            code: convert::expose_secret(&new.code),
            expires_at: invite.expires_at,
            invite: Some(invite),
        }))
    }

    async fn list_invites(
        &self,
        request: Request<v1::ListInvitesRequest>,
    ) -> RpcResult<v1::ListInvitesResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let invites = self.control.list_invites(&caller).await?;
        let invites = invites.into_iter().map(convert::invite).collect();
        Ok(Response::new(v1::ListInvitesResponse { invites }))
    }

    async fn revoke_invite(
        &self,
        request: Request<v1::RevokeInviteRequest>,
    ) -> RpcResult<v1::RevokeInviteResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        self.control.revoke_invite(&caller, &request.into_inner().id).await?;
        Ok(Response::new(v1::RevokeInviteResponse {}))
    }

    async fn create_password_reset(
        &self,
        request: Request<v1::CreatePasswordResetRequest>,
    ) -> RpcResult<v1::CreatePasswordResetResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let account = request.into_inner().account;
        let new = self.control.create_password_reset(&caller, &account).await?;
        Ok(Response::new(v1::CreatePasswordResetResponse {
            code: convert::expose_secret(&new.code),
            expires_at: Some(convert::time(new.expires_at)),
            account_name: new.identity.name().to_owned(),
        }))
    }

    async fn reset_password(
        &self,
        request: Request<v1::ResetPasswordRequest>,
    ) -> RpcResult<v1::ResetPasswordResponse> {
        let address = auth::address(&request);
        let v1::ResetPasswordRequest { name, code, new_password } = request.into_inner();
        let (code, password) = (code.into(), new_password.into());
        self.control.reset_password(address, &name, &code, password).await?;
        Ok(Response::new(v1::ResetPasswordResponse {}))
    }

    async fn grant_role(
        &self,
        request: Request<v1::GrantRoleRequest>,
    ) -> RpcResult<v1::GrantRoleResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let v1::GrantRoleRequest { account, role } = request.into_inner();
        let role = convert::role(role).map_err(invalid)?;
        let account = self.control.grant_role(&caller, &account, role).await?;
        Ok(Response::new(v1::GrantRoleResponse { account: Some(convert::account(&account)) }))
    }
}
