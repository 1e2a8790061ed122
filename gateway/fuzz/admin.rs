//! Fuzzes the admin plane: calls with any messages, through gRPC, the conversions and the checks of the control plane,
//! into the store. Invariants: nothing panics, no call fails with an internal error, and what is returned as an object
//! is accepted as the same object.
//!
//! An input is a sequence of calls: the method, the length of the message in two bytes, the message.
#![no_main]

use std::sync::LazyLock;

use fuzz::process::Gateway;
use libfuzzer_sys::fuzz_target;
use prost::Message;
use proto::v1;
use proto::v1::audit_service_client::AuditServiceClient;
use proto::v1::catalogue_service_client::CatalogueServiceClient;
use proto::v1::key_service_client::KeyServiceClient;
use proto::v1::ledger_service_client::LedgerServiceClient;
use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::plan_service_client::PlanServiceClient;
use proto::v1::upstream_service_client::UpstreamServiceClient;
use proto::v1::usage_service_client::UsageServiceClient;
use tokio::runtime::Runtime;
use tonic::{Code, Status};

/// The most calls of one input.
const MAX_CALLS: usize = 8;

static RIG: LazyLock<(Runtime, Gateway)> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("a runtime");
    let gateway = runtime.block_on(Gateway::start());
    (runtime, gateway)
});

fuzz_target!(|input: &[u8]| {
    let (runtime, gateway) = &*RIG;
    runtime.block_on(async {
        let (mut rest, mut calls) = (input, 0);
        while calls < MAX_CALLS
            && let Some((&[method, high, low], after)) = rest.split_first_chunk()
        {
            let length = usize::from(u16::from_be_bytes([high, low])).min(after.len());
            let (message, after) = after.split_at(length);
            call(gateway, method, message).await;
            (rest, calls) = (after, calls + 1);
        }
        clear(gateway).await;
    });
});

/// Decodes the message of a call; a message that is none ends the call.
macro_rules! decode {
    ($message:expr) => {
        match Message::decode($message) {
            Ok(request) => request,
            Err(_) => return,
        }
    };
}

/// Makes one call. A created object is created again from what was returned.
async fn call(gateway: &Gateway, method: u8, message: &[u8]) {
    let operator = || gateway.operator.clone();
    match method % 14 {
        0 => {
            let request: v1::AddModelRequest = decode!(message);
            let mut models = ModelServiceClient::new(operator());
            let Some(added) = answered(models.add_model(request).await) else { return };
            let model = added.model.expect("it was added");
            let named = v1::GetModelRequest { id: model.id.clone() };
            let got = answered(models.get_model(named).await).expect("it was added");
            assert_eq!(got.model.as_ref(), Some(&model));
            let named = v1::RemoveModelRequest { id: model.id.clone() };
            models.remove_model(named).await.expect("it was added");
            let request = v1::AddModelRequest { model: Some(model.clone()) };
            let again = models.add_model(request).await.expect("it was accepted before");
            let again = again.into_inner().model.expect("it was added");
            assert_eq!(v1::Model { created_at: model.created_at, ..again }, model);
        }
        1 => {
            let request: v1::AddUpstreamRequest = decode!(message);
            let mut upstreams = UpstreamServiceClient::new(operator());
            let Some(added) = answered(upstreams.add_upstream(request).await) else { return };
            let upstream = added.upstream.expect("it was added");
            let password = upstream.proxy_login.as_ref().and_then(|login| login.password.as_ref());
            let is_secret = |credential: &v1::Credential| {
                matches!(credential.source, Some(v1::credential::Source::Secret(_)))
            };
            let has_secret = upstream.credentials.iter().chain(password).any(is_secret);
            if has_secret || upstream.client_certificate.is_some() {
                // What is returned has no secrets.
                return;
            }
            let named = v1::RemoveUpstreamRequest { name: upstream.name.clone() };
            upstreams.remove_upstream(named).await.expect("it was added");
            let request = v1::AddUpstreamRequest { upstream: Some(upstream.clone()) };
            let again = upstreams.add_upstream(request).await.expect("it was accepted before");
            let again = again.into_inner().upstream.expect("it was added");
            assert_eq!(v1::Upstream { created_at: upstream.created_at, ..again }, upstream);
        }
        2 => {
            let request: v1::PutPlanRequest = decode!(message);
            let mut plans = PlanServiceClient::new(operator());
            let Some(put) = answered(plans.put_plan(request).await) else { return };
            let again = v1::PutPlanRequest { plan: put.plan.clone() };
            let again = plans.put_plan(again).await.expect("it was accepted before");
            assert_eq!(again.into_inner().plan, put.plan);
        }
        3 => {
            let request: v1::CreateKeyRequest = decode!(message);
            let mut keys = KeyServiceClient::new(operator());
            let Some(made) = answered(keys.create_key(request).await) else { return };
            let key = made.key.expect("it was created");
            let request = v1::CreateKeyRequest {
                label: key.label.clone(),
                limits: key.limits,
                models: key.models.clone(),
                spend_cap_usd: key.spend_cap_usd.clone(),
                translation: key.translation,
                client_gone: key.client_gone,
                drain_seconds: key.drain_seconds,
                expires_at: key.expires_at,
                ..v1::CreateKeyRequest::default()
            };
            let again = keys.create_key(request).await.expect("it was accepted before");
            let again = again.into_inner().key.expect("it was created");
            for id in [&key.id, &again.id] {
                let named = v1::RevokeKeyRequest { id: id.clone() };
                keys.revoke_key(named).await.expect("it was created");
            }
            assert_eq!(v1::Key { id: key.id.clone(), created_at: key.created_at, ..again }, key);
        }
        4 => {
            let request: v1::UpdateModelRequest = decode!(message);
            answered(ModelServiceClient::new(operator()).update_model(request).await);
        }
        5 => {
            let request: v1::UpdateUpstreamRequest = decode!(message);
            answered(UpstreamServiceClient::new(operator()).update_upstream(request).await);
        }
        6 => {
            let request: v1::ApplyChangesRequest = decode!(message);
            answered(CatalogueServiceClient::new(operator()).apply_changes(request).await);
        }
        7 => {
            let request: v1::ListRequestsRequest = decode!(message);
            answered(UsageServiceClient::new(operator()).list_requests(request).await);
        }
        8 => {
            let request: v1::SummarizeUsageRequest = decode!(message);
            answered(UsageServiceClient::new(operator()).summarize_usage(request).await);
        }
        9 => {
            let request: v1::ListAuditRequest = decode!(message);
            answered(AuditServiceClient::new(operator()).list_audit(request).await);
        }
        10 => {
            let request: v1::ExplainRouteRequest = decode!(message);
            answered(ModelServiceClient::new(operator()).explain_route(request).await);
        }
        11 => {
            let request: v1::ListEntriesRequest = decode!(message);
            answered(LedgerServiceClient::new(operator()).list_entries(request).await);
        }
        12 => {
            let request: v1::RemoveModelRequest = decode!(message);
            answered(ModelServiceClient::new(operator()).remove_model(request).await);
        }
        _ => {
            let request: v1::RemoveUpstreamRequest = decode!(message);
            answered(UpstreamServiceClient::new(operator()).remove_upstream(request).await);
        }
    }
}

/// Returns the answer to a call; `None` if it was refused.
fn answered<T>(answer: Result<tonic::Response<T>, Status>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer.into_inner()),
        Err(status) => {
            let code = status.code();
            let is_refusal = !matches!(code, Code::Internal | Code::Unknown | Code::Unavailable);
            assert!(is_refusal, "{status:?}");
            None
        }
    }
}

/// Removes all models and upstreams, so that the next input finds none.
async fn clear(gateway: &Gateway) {
    let mut models = ModelServiceClient::new(gateway.operator.clone());
    let listed = models.list_models(v1::ListModelsRequest {}).await.expect("it is allowed");
    for model in listed.into_inner().models {
        let named = v1::RemoveModelRequest { id: model.id };
        models.remove_model(named).await.expect("it was listed");
    }
    let mut upstreams = UpstreamServiceClient::new(gateway.operator.clone());
    let listed = upstreams.list_upstreams(v1::ListUpstreamsRequest {}).await;
    for upstream in listed.expect("it is allowed").into_inner().upstreams {
        let named = v1::RemoveUpstreamRequest { name: upstream.name };
        upstreams.remove_upstream(named).await.expect("nothing uses it");
    }
}
