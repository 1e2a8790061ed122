//! The catalogue, called by a member with read access only.

use proto::v1;
use tests::Session;

use super::Rule;
use super::attempt::{Case, shown};

pub(super) async fn attempt(rpc: &str, caller: &Session) -> Option<Case> {
    let mut all = Vec::new();
    let rule = match rpc {
        "PlanService/ListPlans" => {
            all.push(shown(caller.plans().list_plans(v1::ListPlansRequest {}).await));
            Rule::Own
        }
        "PlanService/GetPlan" => {
            let request = v1::GetPlanRequest { name: "free".to_owned() };
            all.push(shown(caller.plans().get_plan(request).await));
            Rule::Own
        }
        "PlanService/PutPlan" => {
            let plan = v1::Plan {
                name: "free".to_owned(),
                trial_credit_usd: "9".to_owned(),
                ..Default::default()
            };
            let request = v1::PutPlanRequest { plan: Some(plan) };
            all.push(shown(caller.plans().put_plan(request).await));
            Rule::Operator
        }
        "ModelService/ListModels" => {
            all.push(shown(caller.models().list_models(v1::ListModelsRequest {}).await));
            Rule::Own
        }
        "ModelService/GetModel" => {
            let request = v1::GetModelRequest { id: "sim-chat".to_owned() };
            all.push(shown(caller.models().get_model(request).await));
            Rule::Own
        }
        "ModelService/AddModel" => {
            let model = v1::Model { id: "evil".to_owned(), ..Default::default() };
            let request = v1::AddModelRequest { model: Some(model) };
            all.push(shown(caller.models().add_model(request).await));
            Rule::Operator
        }
        "ModelService/UpdateModel" => {
            let input_usd = Some("0".to_owned());
            let request = v1::UpdateModelRequest {
                id: "sim-chat".to_owned(),
                input_usd,
                ..Default::default()
            };
            all.push(shown(caller.models().update_model(request).await));
            Rule::Operator
        }
        "ModelService/ExplainRoute" => {
            let model = "sim-chat".to_owned();
            let request = v1::ExplainRouteRequest { model, prompt_cache_key: None };
            all.push(shown(caller.models().explain_route(request).await));
            Rule::Support
        }
        "ModelService/RemoveModel" => {
            let request = v1::RemoveModelRequest { id: "sim-chat".to_owned() };
            all.push(shown(caller.models().remove_model(request).await));
            Rule::Operator
        }
        "UpstreamService/ListUpstreams" => {
            let request = v1::ListUpstreamsRequest::default();
            all.push(shown(caller.upstreams().list_upstreams(request).await));
            Rule::Support
        }
        "UpstreamService/AddUpstream" => {
            let (name, url) = ("evil".to_owned(), "sim:".to_owned());
            let upstream = v1::Upstream { name, url, ..Default::default() };
            let request = v1::AddUpstreamRequest { upstream: Some(upstream) };
            all.push(shown(caller.upstreams().add_upstream(request).await));
            Rule::Operator
        }
        "UpstreamService/UpdateUpstream" => {
            let url = Some("http://evil.invalid".to_owned());
            let request = v1::UpdateUpstreamRequest {
                name: "simulator".to_owned(),
                url,
                ..Default::default()
            };
            all.push(shown(caller.upstreams().update_upstream(request).await));
            Rule::Operator
        }
        "UpstreamService/RemoveUpstream" => {
            let request = v1::RemoveUpstreamRequest { name: "simulator".to_owned() };
            all.push(shown(caller.upstreams().remove_upstream(request).await));
            Rule::Operator
        }
        "UpstreamService/ResetUpstream" => {
            let request = v1::ResetUpstreamRequest { name: "simulator".to_owned() };
            all.push(shown(caller.upstreams().reset_upstream(request).await));
            Rule::Operator
        }
        "CatalogueService/ApplyChanges" => {
            let (name, url) = ("evil".to_owned(), "sim:".to_owned());
            let upstream = Some(v1::Upstream { name, url, ..Default::default() });
            let add =
                v1::catalogue_change::Change::AddUpstream(v1::AddUpstreamRequest { upstream });
            for dry_run in [true, false] {
                let changes = vec![v1::CatalogueChange { change: Some(add.clone()) }];
                let request = v1::ApplyChangesRequest { changes, dry_run };
                all.push(shown(caller.catalogue().apply_changes(request).await));
            }
            Rule::Operator
        }
        _ => return None,
    };
    Some(Case { rule, attempts: all, foreign: Vec::new() })
}
