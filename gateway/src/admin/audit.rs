//! `AuditService`.

use std::sync::Arc;

use proto::v1::{self, audit_service_server::AuditService};
use tonic::{Request, Response, async_trait};

use super::status::invalid;
use super::{RpcResult, auth, convert, page_size};
use crate::control::Control;

pub(super) struct Audit {
    pub(super) control: Arc<Control>,
}

#[async_trait]
impl AuditService for Audit {
    async fn list_audit(
        &self,
        request: Request<v1::ListAuditRequest>,
    ) -> RpcResult<v1::ListAuditResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let v1::ListAuditRequest { account, since, until, page_size: requested, page_token } =
            request.into_inner();
        let filter = convert::audit_filter(account, since, until).map_err(invalid)?;
        let size = page_size(requested, 100);
        let page = self.control.list_audit(&caller, filter, size, &page_token).await?;
        Ok(Response::new(v1::ListAuditResponse {
            entries: page.items.into_iter().map(convert::audit_entry).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }
}
