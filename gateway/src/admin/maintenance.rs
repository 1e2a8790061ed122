//! `MaintenanceService`.

use std::sync::Arc;

use futures_util::stream::{BoxStream, StreamExt, try_unfold};
use proto::v1::{self, maintenance_service_server::MaintenanceService};
use tokio::io::AsyncReadExt;
use tonic::{Request, Response, Status, async_trait};

use super::{RpcResult, auth};
use crate::control::Control;
use crate::control::seal_rotation::SealRotation;

/// The maximum size of the data in a message of the stream.
const CHUNK_BYTES: u64 = 256 * 1024;

pub(super) struct Maintenance {
    pub(super) control: Arc<Control>,
}

#[async_trait]
impl MaintenanceService for Maintenance {
    type BackupStream = BoxStream<'static, Result<v1::BackupResponse, Status>>;

    async fn backup(&self, request: Request<v1::BackupRequest>) -> RpcResult<Self::BackupStream> {
        let caller = auth::caller(&self.control, &request).await?;
        let copy = self.control.backup(&caller).await?;
        let size_bytes = copy.bytes;
        let file = tokio::fs::File::from_std(copy.file);
        let chunks = try_unfold((file, size_bytes), move |(mut file, left)| async move {
            if left == 0 {
                return Ok(None);
            }
            let mut data = Vec::new();
            let mut chunk = (&mut file).take(CHUNK_BYTES.min(left));
            let read = chunk.read_to_end(&mut data).await.map_err(|error| unreadable(&error))?;
            if read == 0 {
                return Err(unreadable(&std::io::ErrorKind::UnexpectedEof.into()));
            }
            let left = left.saturating_sub(read as u64);
            Ok(Some((v1::BackupResponse { data, size_bytes }, (file, left))))
        });
        Ok(Response::new(chunks.boxed()))
    }

    async fn rotate_operator_token(
        &self,
        request: Request<v1::RotateOperatorTokenRequest>,
    ) -> RpcResult<v1::RotateOperatorTokenResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let path = self.control.rotate_operator_token(&caller).await?.display().to_string();
        Ok(Response::new(v1::RotateOperatorTokenResponse { path }))
    }

    async fn disable_operator_token(
        &self,
        request: Request<v1::DisableOperatorTokenRequest>,
    ) -> RpcResult<v1::DisableOperatorTokenResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let path = self.control.disable_operator_token(&caller).await?.display().to_string();
        Ok(Response::new(v1::DisableOperatorTokenResponse { path }))
    }

    async fn enable_operator_token(
        &self,
        request: Request<v1::EnableOperatorTokenRequest>,
    ) -> RpcResult<v1::EnableOperatorTokenResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let path = self.control.enable_operator_token(&caller).await?.display().to_string();
        Ok(Response::new(v1::EnableOperatorTokenResponse { path }))
    }

    async fn test_webhooks(
        &self,
        request: Request<v1::TestWebhooksRequest>,
    ) -> RpcResult<v1::TestWebhooksResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let results = self.control.test_webhooks(&caller).await?;
        let results = results.into_iter().map(|result| v1::WebhookTestResult {
            endpoint: result.endpoint,
            failure: result.failure.unwrap_or_default(),
            elapsed_ms: result.elapsed.as_secs_f64() * 1e3,
        });
        Ok(Response::new(v1::TestWebhooksResponse { results: results.collect() }))
    }

    async fn get_version(
        &self,
        request: Request<v1::GetVersionRequest>,
    ) -> RpcResult<v1::GetVersionResponse> {
        auth::caller(&self.control, &request).await?;
        let schema = self.control.schema();
        Ok(Response::new(v1::GetVersionResponse {
            version: version::VERSION.to_owned(),
            commit: version::COMMIT.unwrap_or_default().to_owned(),
            backend: schema.backend.to_owned(),
            schema_version: schema.version,
        }))
    }

    async fn rotate_seal_key(
        &self,
        request: Request<v1::RotateSealKeyRequest>,
    ) -> RpcResult<v1::RotateSealKeyResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let SealRotation { resealed, source, former_removed } =
            self.control.rotate_seal_key(&caller).await?;
        Ok(Response::new(v1::RotateSealKeyResponse { resealed, source, former_removed }))
    }

    async fn reload(&self, request: Request<v1::ReloadRequest>) -> RpcResult<v1::ReloadResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let reloaded = self.control.reload(&caller).await?;
        let rotated = reloaded.rotated.iter().map(|name| name.as_str().to_owned());
        Ok(Response::new(v1::ReloadResponse {
            certificate_changed: reloaded.certificate_changed,
            rotated_upstreams: rotated.collect(),
            need_restart: reloaded.need_restart,
            applied: reloaded.applied,
        }))
    }
}

fn unreadable(error: &std::io::Error) -> Status {
    let cause: &dyn std::error::Error = error;
    tracing::error!(error = cause, "cannot read the copy of a backup");
    Status::unavailable("the copy of the database cannot be read; try again")
}
