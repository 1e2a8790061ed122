//! `KeyService`.

use std::sync::Arc;
use std::time::Duration;

use proto::v1::{self, key_service_server::KeyService};
use tonic::{Request, Response, async_trait};

use super::status::invalid;
use super::{RpcResult, auth, convert};
use crate::control::Control;
use crate::control::keys::KeyScope;

pub(super) struct Keys {
    pub(super) control: Arc<Control>,
}

#[async_trait]
impl KeyService for Keys {
    async fn create_key(
        &self,
        request: Request<v1::CreateKeyRequest>,
    ) -> RpcResult<v1::CreateKeyResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let new_key = convert::new_key(request.into_inner()).map_err(invalid)?;
        let (key, secret) = self.control.create_key(&caller, new_key).await?;
        Ok(Response::new(v1::CreateKeyResponse {
            key: Some(convert::key(key)),
            secret: convert::expose_secret(&secret),
        }))
    }

    async fn list_keys(
        &self,
        request: Request<v1::ListKeysRequest>,
    ) -> RpcResult<v1::ListKeysResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let of = match request.get_ref().account.as_str() {
            "" => KeyScope::Caller,
            "*" => KeyScope::All,
            account => KeyScope::Account(account),
        };
        let keys = self.control.list_keys(&caller, of).await?;
        let keys = keys.into_iter().map(convert::key).collect();
        Ok(Response::new(v1::ListKeysResponse { keys }))
    }

    async fn update_key(
        &self,
        request: Request<v1::UpdateKeyRequest>,
    ) -> RpcResult<v1::UpdateKeyResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let (id, change) = convert::key_change(request.into_inner()).map_err(invalid)?;
        let key = self.control.update_key(&caller, &id, change).await?;
        Ok(Response::new(v1::UpdateKeyResponse { key: Some(convert::key(key)) }))
    }

    async fn rotate_key(
        &self,
        request: Request<v1::RotateKeyRequest>,
    ) -> RpcResult<v1::RotateKeyResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let v1::RotateKeyRequest { id, overlap_seconds } = request.into_inner();
        let overlap = Duration::from_secs(overlap_seconds);
        let (key, secret) = self.control.rotate_key(&caller, &id, overlap).await?;
        Ok(Response::new(v1::RotateKeyResponse {
            key: Some(convert::key(key)),
            secret: convert::expose_secret(&secret),
        }))
    }

    async fn revoke_key(
        &self,
        request: Request<v1::RevokeKeyRequest>,
    ) -> RpcResult<v1::RevokeKeyResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let key = self.control.revoke_key(&caller, &request.into_inner().id).await?;
        Ok(Response::new(v1::RevokeKeyResponse { key: Some(convert::key(key)) }))
    }
}
