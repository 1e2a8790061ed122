//! The model, plan, upstream and audit services.

use proto::v1::audit_service_server::AuditService;
use proto::v1::model_service_server::ModelService;
use proto::v1::plan_service_server::PlanService;
use proto::v1::upstream_service_server::UpstreamService;
use proto::v1::{
    AddModelRequest, AddModelResponse, AddUpstreamRequest, AddUpstreamResponse, AuditEntry,
    ExplainRouteRequest, ExplainRouteResponse, GetModelRequest, GetModelResponse, GetPlanRequest,
    GetPlanResponse, Limits, ListAuditRequest, ListAuditResponse, ListModelsRequest,
    ListModelsResponse, ListPlansRequest, ListPlansResponse, ListUpstreamsRequest,
    ListUpstreamsResponse, Model, Plan, Price, PutPlanRequest, PutPlanResponse, RemoveModelRequest,
    RemoveModelResponse, RemoveUpstreamRequest, RemoveUpstreamResponse, ResetUpstreamRequest,
    ResetUpstreamResponse, UpdateModelRequest, UpdateModelResponse, UpdateUpstreamRequest,
    UpdateUpstreamResponse,
};
use tonic::{Request, Response, Status};

use super::{Backend, authorize};

fn plan(name: &str) -> Plan {
    let limits = Limits { rpm: Some(60), concurrency: Some(4), ..Limits::default() };
    let trial_credit_usd = "5".to_owned();
    let (name, limits, max_keys) = (name.to_owned(), Some(limits), Some(100));
    Plan { name, limits, trial_credit_usd, max_keys, models: Vec::new() }
}

#[tonic::async_trait]
impl ModelService for Backend {
    async fn list_models(
        &self,
        request: Request<ListModelsRequest>,
    ) -> Result<Response<ListModelsResponse>, Status> {
        authorize(&request)?;
        let price = Price { output_usd: "0.40".to_owned(), ..Price::default() };
        let model = Model { id: "gpt-sim".to_owned(), price: Some(price), ..Model::default() };
        Ok(Response::new(ListModelsResponse { models: vec![model] }))
    }

    async fn get_model(
        &self,
        _: Request<GetModelRequest>,
    ) -> Result<Response<GetModelResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn add_model(
        &self,
        _: Request<AddModelRequest>,
    ) -> Result<Response<AddModelResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn update_model(
        &self,
        _: Request<UpdateModelRequest>,
    ) -> Result<Response<UpdateModelResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn explain_route(
        &self,
        _: Request<ExplainRouteRequest>,
    ) -> Result<Response<ExplainRouteResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn remove_model(
        &self,
        _: Request<RemoveModelRequest>,
    ) -> Result<Response<RemoveModelResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }
}

#[tonic::async_trait]
impl PlanService for Backend {
    async fn get_plan(
        &self,
        request: Request<GetPlanRequest>,
    ) -> Result<Response<GetPlanResponse>, Status> {
        authorize(&request)?;
        let name = request.into_inner().name;
        Ok(Response::new(GetPlanResponse { plan: Some(plan(&name)) }))
    }

    async fn list_plans(
        &self,
        request: Request<ListPlansRequest>,
    ) -> Result<Response<ListPlansResponse>, Status> {
        authorize(&request)?;
        Ok(Response::new(ListPlansResponse { plans: vec![plan("free")] }))
    }

    async fn put_plan(
        &self,
        request: Request<PutPlanRequest>,
    ) -> Result<Response<PutPlanResponse>, Status> {
        authorize(&request)?;
        Ok(Response::new(PutPlanResponse { plan: request.into_inner().plan }))
    }
}

#[tonic::async_trait]
impl UpstreamService for Backend {
    async fn list_upstreams(
        &self,
        request: Request<ListUpstreamsRequest>,
    ) -> Result<Response<ListUpstreamsResponse>, Status> {
        authorize(&request)?;
        let upstreams = self.read(|state| state.upstreams.clone());
        Ok(Response::new(ListUpstreamsResponse { upstreams }))
    }

    async fn add_upstream(
        &self,
        request: Request<AddUpstreamRequest>,
    ) -> Result<Response<AddUpstreamResponse>, Status> {
        authorize(&request)?;
        let upstream = request.into_inner().upstream.unwrap();
        self.change(|state| state.upstreams.push(upstream.clone()));
        Ok(Response::new(AddUpstreamResponse { upstream: Some(upstream) }))
    }

    async fn update_upstream(
        &self,
        _: Request<UpdateUpstreamRequest>,
    ) -> Result<Response<UpdateUpstreamResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn reset_upstream(
        &self,
        _: Request<ResetUpstreamRequest>,
    ) -> Result<Response<ResetUpstreamResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn remove_upstream(
        &self,
        _: Request<RemoveUpstreamRequest>,
    ) -> Result<Response<RemoveUpstreamResponse>, Status> {
        Err(Status::failed_precondition("`gpt-sim` is deployed on `local`"))
    }
}

#[tonic::async_trait]
impl AuditService for Backend {
    async fn list_audit(
        &self,
        request: Request<ListAuditRequest>,
    ) -> Result<Response<ListAuditResponse>, Status> {
        authorize(&request)?;
        let entry = |id, action: &str, details: &str| AuditEntry {
            id,
            action: action.to_owned(),
            details: details.to_owned(),
            ..AuditEntry::default()
        };
        let entries = vec![entry(2, "key.create", ""), entry(1, "account.suspend", "unpaid")];
        Ok(Response::new(ListAuditResponse { entries, next_page_token: String::new() }))
    }
}
