//! `DiagnosticsService`.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use proto::v1::{self, diagnostics_service_server::DiagnosticsService};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, async_trait};

use super::{Answer, auth, convert};
use crate::control::Control;

pub(super) struct Diagnostics {
    pub(super) control: Arc<Control>,
    /// Ends an examination before its end.
    pub(super) shutdown: CancellationToken,
}

#[async_trait]
impl DiagnosticsService for Diagnostics {
    type DiagnoseStream = BoxStream<'static, Result<v1::DiagnoseResponse, Status>>;

    async fn diagnose(
        &self,
        request: Request<v1::DiagnoseRequest>,
    ) -> Answer<Self::DiagnoseStream> {
        let caller = auth::caller(&self.control, &request).await?;
        let found = self.control.diagnose(&caller, request.into_inner().send_requests)?;
        let found = found.take_until(self.shutdown.clone().cancelled_owned());
        Ok(Response::new(found.map(|view| Ok(convert::finding(view))).boxed()))
    }
}
