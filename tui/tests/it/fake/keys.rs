//! The key service.

use proto::v1::key_service_server::KeyService;
use proto::v1::{
    CreateKeyRequest, CreateKeyResponse, Key, ListKeysRequest, ListKeysResponse, RevokeKeyRequest,
    RevokeKeyResponse, RotateKeyRequest, RotateKeyResponse,
};
use tonic::{Request, Response, Status};

use super::{Backend, SECRET, authorize};

#[tonic::async_trait]
impl KeyService for Backend {
    async fn create_key(
        &self,
        request: Request<CreateKeyRequest>,
    ) -> Result<Response<CreateKeyResponse>, Status> {
        authorize(&request)?;
        let CreateKeyRequest { label, limits, models, .. } = request.into_inner();
        if models.iter().any(|model| model == "nope") {
            return Err(Status::invalid_argument("there is no model `nope`"));
        }
        let key = self.add(Key { label, limits, models, ..Key::default() });
        let secret = format!("{SECRET}{}", key.id);
        Ok(Response::new(CreateKeyResponse { key: Some(key), secret }))
    }

    async fn list_keys(
        &self,
        request: Request<ListKeysRequest>,
    ) -> Result<Response<ListKeysResponse>, Status> {
        authorize(&request)?;
        Ok(Response::new(ListKeysResponse { keys: self.read(|state| state.keys.clone()) }))
    }

    async fn update_key(
        &self,
        _: Request<proto::v1::UpdateKeyRequest>,
    ) -> Result<Response<proto::v1::UpdateKeyResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn rotate_key(
        &self,
        request: Request<RotateKeyRequest>,
    ) -> Result<Response<RotateKeyResponse>, Status> {
        authorize(&request)?;
        let id = request.into_inner().id;
        let old = self.read(|state| state.keys.iter().find(|key| key.id == id).cloned());
        let old = old.ok_or_else(|| Status::not_found("no such key"))?;
        let key = self.add(Key { label: old.label, ..Key::default() });
        let secret = format!("{SECRET}{}", key.id);
        Ok(Response::new(RotateKeyResponse { key: Some(key), secret }))
    }

    async fn revoke_key(
        &self,
        request: Request<RevokeKeyRequest>,
    ) -> Result<Response<RevokeKeyResponse>, Status> {
        authorize(&request)?;
        let id = request.into_inner().id;
        let time = Some(prost_types::Timestamp { seconds: 1_795_000_000, nanos: 0 });
        let key = self.change(|state| {
            let key = state.keys.iter_mut().find(|key| key.id == id);
            key.map(|key| {
                key.revoked_at = time;
                key.clone()
            })
        });
        let key = key.ok_or_else(|| Status::not_found("no such key"))?;
        Ok(Response::new(RevokeKeyResponse { key: Some(key) }))
    }
}

impl Backend {
    fn add(&self, key: Key) -> Key {
        self.change(|state| {
            let key = Key { id: format!("id{}", state.keys.len()), ..key };
            state.keys.insert(0, key.clone());
            key
        })
    }
}
