//! `CatalogueService`.

use std::sync::Arc;

use proto::v1::{self, catalogue_service_server::CatalogueService};
use tonic::{Request, Response, async_trait};

use super::status::invalid;
use super::{RpcResult, auth, convert};
use crate::control::Control;
use crate::control::catalogue::Apply;

pub(super) struct Catalogue {
    pub(super) control: Arc<Control>,
}

#[async_trait]
impl CatalogueService for Catalogue {
    async fn apply_changes(
        &self,
        request: Request<v1::ApplyChangesRequest>,
    ) -> RpcResult<v1::ApplyChangesResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let v1::ApplyChangesRequest { changes, dry_run } = request.into_inner();
        let changes = changes.into_iter().map(convert::catalogue_change);
        let changes = changes.collect::<Result<Vec<_>, _>>().map_err(invalid)?;
        let apply = if dry_run { Apply::DryRun } else { Apply::Commit };
        self.control.apply_changes(&caller, changes, apply).await?;
        Ok(Response::new(v1::ApplyChangesResponse {}))
    }
}
