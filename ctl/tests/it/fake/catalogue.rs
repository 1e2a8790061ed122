//! Canned plans, upstreams and models. Changes are recorded and answered, but have no effect.

use proto::v1::catalogue_service_server::CatalogueService;
use proto::v1::model_service_server::ModelService;
use proto::v1::plan_service_server::PlanService;
use proto::v1::upstream_service_server::UpstreamService;
use proto::v1::*;
use tonic::Request;

use super::{Answer, FakeGateway, answer, at};

fn model(id: &str) -> Model {
    Model {
        id: id.to_owned(),
        display_name: "Simulated, fast".to_owned(),
        description: String::new(),
        context_window: Some(8_192),
        max_output_tokens: None,
        limits: Some(Limits { tpm: Some(90_000), ..Limits::default() }),
        price: Some(Price {
            input_usd: "0.25".to_owned(),
            cached_usd: "0.025".to_owned(),
            output_usd: "2".to_owned(),
            version: 3,
        }),
        abilities: vec![Ability::Tools.into(), Ability::StructuredOutput.into()],
        inputs: Vec::new(),
        aliases: vec!["fast".to_owned()],
        deployments: vec![Deployment {
            upstream: "sim".to_owned(),
            upstream_model: "fast:v1".to_owned(),
            weight: 1,
            priority: 0,
        }],
        routing: Routing::Weighted.into(),
        hedge_after_ms: None,
        created_at: at(0, 0),
    }
}

fn plan(name: &str) -> Plan {
    Plan {
        name: name.to_owned(),
        trial_credit_usd: "5".to_owned(),
        max_keys: Some(100),
        limits: Some(Limits { rpm: Some(60), tpm: Some(100_000), ..Limits::default() }),
        models: vec![],
    }
}

fn upstream(name: &str) -> Upstream {
    Upstream {
        name: name.to_owned(),
        url: "https://api.example/v1".to_owned(),
        credential: Some(Credential {
            source: Some(credential::Source::Env("EXAMPLE_KEY".to_owned())),
        }),
        credentials: vec![Credential {
            source: Some(credential::Source::Env("EXAMPLE_KEY".to_owned())),
        }],
        profile: Profile::Openai.into(),
        deadlines: None,
        created_at: at(0, 0),
        problem: "environment variable `EXAMPLE_KEY` is not set".to_owned(),
        proxy: String::new(),
        proxy_login: None,
        ca_certificates: String::new(),
        client_certificate: None,
        max_connections: None,
        max_waiting: None,
        health_check: String::new(),
        health_check_interval_ms: None,
    }
}

#[tonic::async_trait]
impl CatalogueService for FakeGateway {
    async fn apply_changes(
        &self,
        request: Request<ApplyChangesRequest>,
    ) -> Answer<ApplyChangesResponse> {
        self.record("ApplyChanges", request)?;
        answer(ApplyChangesResponse {})
    }
}

#[tonic::async_trait]
impl ModelService for FakeGateway {
    async fn list_models(&self, request: Request<ListModelsRequest>) -> Answer<ListModelsResponse> {
        self.record("ListModels", request)?;
        answer(ListModelsResponse { models: vec![model("sim-fast"), model("sim-slow")] })
    }

    async fn get_model(&self, request: Request<GetModelRequest>) -> Answer<GetModelResponse> {
        let input = self.record("GetModel", request)?;
        answer(GetModelResponse { model: Some(model(&input.id)) })
    }

    async fn add_model(&self, request: Request<AddModelRequest>) -> Answer<AddModelResponse> {
        let input = self.record("AddModel", request)?;
        answer(AddModelResponse { model: input.model })
    }

    async fn update_model(
        &self,
        request: Request<UpdateModelRequest>,
    ) -> Answer<UpdateModelResponse> {
        let input = self.record("UpdateModel", request)?;
        answer(UpdateModelResponse { model: Some(model(&input.id)) })
    }

    async fn remove_model(
        &self,
        request: Request<RemoveModelRequest>,
    ) -> Answer<RemoveModelResponse> {
        self.record("RemoveModel", request)?;
        answer(RemoveModelResponse {})
    }

    async fn explain_route(
        &self,
        request: Request<ExplainRouteRequest>,
    ) -> Answer<ExplainRouteResponse> {
        let input = self.record("ExplainRoute", request)?;
        let step = |upstream: &str, first_percent, reason: &str| RouteStep {
            deployment: Some(Deployment {
                upstream: upstream.to_owned(),
                upstream_model: "fast:v1".to_owned(),
                weight: 1,
                priority: 0,
            }),
            first_percent: Some(first_percent),
            in_flight: 3,
            latency_ms: Some(41.25),
            reason: reason.to_owned(),
        };
        let steps = vec![
            step("near", 100.0, "available, with the lowest priority number"),
            step("far", 0.0, "tried last: its breaker is open for 4 s"),
        ];
        let routing = Routing::PrefixAffinity.into();
        answer(ExplainRouteResponse {
            model: input.model,
            routing,
            steps,
            hedge_after_ms: Some(250),
        })
    }
}

#[tonic::async_trait]
impl PlanService for FakeGateway {
    async fn list_plans(&self, request: Request<ListPlansRequest>) -> Answer<ListPlansResponse> {
        self.record("ListPlans", request)?;
        answer(ListPlansResponse { plans: vec![plan("free")] })
    }

    async fn get_plan(&self, request: Request<GetPlanRequest>) -> Answer<GetPlanResponse> {
        let input = self.record("GetPlan", request)?;
        answer(GetPlanResponse { plan: Some(plan(&input.name)) })
    }

    async fn put_plan(&self, request: Request<PutPlanRequest>) -> Answer<PutPlanResponse> {
        let input = self.record("PutPlan", request)?;
        answer(PutPlanResponse { plan: input.plan })
    }
}

#[tonic::async_trait]
impl UpstreamService for FakeGateway {
    async fn list_upstreams(
        &self,
        request: Request<ListUpstreamsRequest>,
    ) -> Answer<ListUpstreamsResponse> {
        self.record("ListUpstreams", request)?;
        answer(ListUpstreamsResponse { upstreams: vec![upstream("example")] })
    }

    async fn add_upstream(
        &self,
        request: Request<AddUpstreamRequest>,
    ) -> Answer<AddUpstreamResponse> {
        let input = self.record("AddUpstream", request)?;
        answer(AddUpstreamResponse { upstream: input.upstream })
    }

    async fn update_upstream(
        &self,
        request: Request<UpdateUpstreamRequest>,
    ) -> Answer<UpdateUpstreamResponse> {
        let input = self.record("UpdateUpstream", request)?;
        answer(UpdateUpstreamResponse { upstream: Some(upstream(&input.name)) })
    }

    async fn remove_upstream(
        &self,
        request: Request<RemoveUpstreamRequest>,
    ) -> Answer<RemoveUpstreamResponse> {
        self.record("RemoveUpstream", request)?;
        answer(RemoveUpstreamResponse {})
    }

    async fn reset_upstream(
        &self,
        request: Request<ResetUpstreamRequest>,
    ) -> Answer<ResetUpstreamResponse> {
        self.record("ResetUpstream", request)?;
        answer(ResetUpstreamResponse {})
    }
}
