//! `AccountService`.

use std::sync::Arc;
use std::time::Duration;

use proto::v1::{self, account_service_server::AccountService};
use tonic::{Request, Response, async_trait};

use super::{Answer, auth, convert, page_size};
use crate::control::Control;

pub(super) struct Accounts {
    pub(super) control: Arc<Control>,
}

#[async_trait]
impl AccountService for Accounts {
    async fn register(
        &self,
        request: Request<v1::RegisterRequest>,
    ) -> Answer<v1::RegisterResponse> {
        let caller = auth::anybody(&self.control, request.metadata()).await?;
        let v1::RegisterRequest { name, password, invite_code } = request.into_inner();
        let (password, invite_code) = (password.into(), invite_code.into());
        let account = self.control.register(caller.as_ref(), &name, password, &invite_code).await?;
        Ok(Response::new(v1::RegisterResponse { account: Some(convert::account(&account)) }))
    }

    async fn sign_in(&self, request: Request<v1::SignInRequest>) -> Answer<v1::SignInResponse> {
        let v1::SignInRequest { name, password } = request.into_inner();
        let signed_in = self.control.sign_in(&name, password.into()).await?;
        Ok(Response::new(v1::SignInResponse {
            token: convert::reveal(&signed_in.token),
            expires_at: Some(convert::time(signed_in.expires_at)),
            account: Some(convert::account(&signed_in.account)),
        }))
    }

    async fn sign_out(&self, request: Request<v1::SignOutRequest>) -> Answer<v1::SignOutResponse> {
        let caller = auth::caller(&self.control, request.metadata()).await?;
        self.control.sign_out(&caller).await?;
        Ok(Response::new(v1::SignOutResponse {}))
    }

    async fn who_am_i(&self, request: Request<v1::WhoAmIRequest>) -> Answer<v1::WhoAmIResponse> {
        let caller = auth::caller(&self.control, request.metadata()).await?;
        let account = self.control.view(caller.account);
        Ok(Response::new(v1::WhoAmIResponse { account: Some(convert::account(&account)) }))
    }

    async fn list_accounts(
        &self,
        request: Request<v1::ListAccountsRequest>,
    ) -> Answer<v1::ListAccountsResponse> {
        let caller = auth::caller(&self.control, request.metadata()).await?;
        let v1::ListAccountsRequest { page_size: asked, page_token } = request.into_inner();
        let page = self.control.list_accounts(&caller, page_size(asked, 100), &page_token)?;
        Ok(Response::new(v1::ListAccountsResponse {
            accounts: page.items.iter().map(convert::account).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn get_account(
        &self,
        request: Request<v1::GetAccountRequest>,
    ) -> Answer<v1::GetAccountResponse> {
        let caller = auth::caller(&self.control, request.metadata()).await?;
        let account = self.control.get_account(&caller, &request.into_inner().account)?;
        Ok(Response::new(v1::GetAccountResponse { account: Some(convert::account(&account)) }))
    }

    async fn credit_account(
        &self,
        request: Request<v1::CreditAccountRequest>,
    ) -> Answer<v1::CreditAccountResponse> {
        let caller = auth::caller(&self.control, request.metadata()).await?;
        let v1::CreditAccountRequest { account, amount_usd, reason } = request.into_inner();
        let amount = convert::amount("amount_usd", &amount_usd)?;
        let account = self.control.credit_account(&caller, &account, amount, &reason).await?;
        Ok(Response::new(v1::CreditAccountResponse { account: Some(convert::account(&account)) }))
    }

    async fn create_invite(
        &self,
        request: Request<v1::CreateInviteRequest>,
    ) -> Answer<v1::CreateInviteResponse> {
        let caller = auth::caller(&self.control, request.metadata()).await?;
        let lifetime = Duration::from_secs(request.into_inner().ttl_seconds);
        let invite = self.control.create_invite(&caller, lifetime).await?;
        Ok(Response::new(v1::CreateInviteResponse {
            code: convert::reveal(&invite.code),
            expires_at: Some(convert::time(invite.expires_at)),
        }))
    }
}
