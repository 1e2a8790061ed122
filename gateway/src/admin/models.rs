//! `ModelService`.

use std::sync::Arc;

use proto::v1::{self, model_service_server::ModelService};
use tonic::{Request, Response, async_trait};

use super::status::invalid;
use super::{RpcResult, auth, convert};
use crate::control::Control;

pub(super) struct Models {
    pub(super) control: Arc<Control>,
}

#[async_trait]
impl ModelService for Models {
    async fn list_models(
        &self,
        request: Request<v1::ListModelsRequest>,
    ) -> RpcResult<v1::ListModelsResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let models = self.control.list_models(&caller)?;
        let models = models.iter().map(|model| convert::model(model)).collect();
        Ok(Response::new(v1::ListModelsResponse { models }))
    }

    async fn get_model(
        &self,
        request: Request<v1::GetModelRequest>,
    ) -> RpcResult<v1::GetModelResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let model = self.control.get_model(&caller, &request.into_inner().id)?;
        Ok(Response::new(v1::GetModelResponse { model: Some(convert::model(&model)) }))
    }

    async fn add_model(
        &self,
        request: Request<v1::AddModelRequest>,
    ) -> RpcResult<v1::AddModelResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let (id, change) = convert::new_model(request.into_inner().model).map_err(invalid)?;
        let model = self.control.add_model(&caller, id, change).await?;
        Ok(Response::new(v1::AddModelResponse { model: Some(convert::model(&model)) }))
    }

    async fn update_model(
        &self,
        request: Request<v1::UpdateModelRequest>,
    ) -> RpcResult<v1::UpdateModelResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let (id, change) = convert::model_change(request.into_inner()).map_err(invalid)?;
        let model = self.control.update_model(&caller, id, change).await?;
        Ok(Response::new(v1::UpdateModelResponse { model: Some(convert::model(&model)) }))
    }

    async fn remove_model(
        &self,
        request: Request<v1::RemoveModelRequest>,
    ) -> RpcResult<v1::RemoveModelResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        self.control.remove_model(&caller, request.into_inner().id).await?;
        Ok(Response::new(v1::RemoveModelResponse {}))
    }

    async fn explain_route(
        &self,
        request: Request<v1::ExplainRouteRequest>,
    ) -> RpcResult<v1::ExplainRouteResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let v1::ExplainRouteRequest { model, prompt_cache_key } = request.into_inner();
        let explained = self.control.explain_route(&caller, &model, prompt_cache_key.as_deref())?;
        Ok(Response::new(convert::route(explained)))
    }
}
