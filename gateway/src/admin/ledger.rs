//! `LedgerService`.

use std::sync::Arc;

use proto::v1::{self, ledger_service_server::LedgerService};
use tonic::{Request, Response, async_trait};

use super::{RpcResult, auth, convert, page_size};
use crate::control::Control;

pub(super) struct Ledger {
    pub(super) control: Arc<Control>,
}

#[async_trait]
impl LedgerService for Ledger {
    async fn list_entries(
        &self,
        request: Request<v1::ListEntriesRequest>,
    ) -> RpcResult<v1::ListEntriesResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let v1::ListEntriesRequest { account, page_size: requested, page_token } =
            request.into_inner();
        let account = (!account.is_empty()).then_some(&*account);
        let size = page_size(requested, 50);
        let page = self.control.list_entries(&caller, account, size, &page_token).await?;
        Ok(Response::new(v1::ListEntriesResponse {
            entries: page.items.into_iter().map(convert::entry).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn verify_ledger(
        &self,
        request: Request<v1::VerifyLedgerRequest>,
    ) -> RpcResult<v1::VerifyLedgerResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let verdict = self.control.verify_ledger(&caller).await?;
        Ok(Response::new(convert::verdict(verdict)))
    }
}
