//! `DiagnosticsService`.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use proto::v1::{self, diagnostics_service_server::DiagnosticsService};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, async_trait};

use super::{RpcResult, auth, convert};
use crate::control::Control;

pub(super) struct Diagnostics {
    pub(super) control: Arc<Control>,
    /// Aborts running diagnoses.
    pub(super) shutdown: CancellationToken,
}

#[async_trait]
impl DiagnosticsService for Diagnostics {
    type DiagnoseStream = BoxStream<'static, Result<v1::DiagnoseResponse, Status>>;

    async fn diagnose(
        &self,
        request: Request<v1::DiagnoseRequest>,
    ) -> RpcResult<Self::DiagnoseStream> {
        let caller = auth::caller(&self.control, &request).await?;
        let findings = self.control.diagnose(&caller, request.into_inner().send_requests)?;
        let findings = findings.take_until(self.shutdown.clone().cancelled_owned());
        Ok(Response::new(findings.map(|view| Ok(convert::finding(view))).boxed()))
    }
}
