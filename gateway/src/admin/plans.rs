//! `PlanService`.

use std::sync::Arc;

use proto::v1::{self, plan_service_server::PlanService};
use tonic::{Request, Response, async_trait};

use super::status::invalid;
use super::{RpcResult, auth, convert};
use crate::control::Control;

pub(super) struct Plans {
    pub(super) control: Arc<Control>,
}

#[async_trait]
impl PlanService for Plans {
    async fn list_plans(
        &self,
        request: Request<v1::ListPlansRequest>,
    ) -> RpcResult<v1::ListPlansResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let plans = self.control.list_plans(&caller)?;
        let plans = plans.iter().map(|plan| convert::plan(plan)).collect();
        Ok(Response::new(v1::ListPlansResponse { plans }))
    }

    async fn get_plan(
        &self,
        request: Request<v1::GetPlanRequest>,
    ) -> RpcResult<v1::GetPlanResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let plan = self.control.get_plan(&caller, &request.into_inner().name)?;
        Ok(Response::new(v1::GetPlanResponse { plan: Some(convert::plan(&plan)) }))
    }

    async fn put_plan(
        &self,
        request: Request<v1::PutPlanRequest>,
    ) -> RpcResult<v1::PutPlanResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let new_plan = convert::new_plan(request.into_inner().plan).map_err(invalid)?;
        let plan = self.control.put_plan(&caller, new_plan).await?;
        Ok(Response::new(v1::PutPlanResponse { plan: Some(convert::plan(&plan)) }))
    }
}
