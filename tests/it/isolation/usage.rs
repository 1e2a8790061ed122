//! Records, money and traffic, requested for another account.

use std::fmt::Write as _;

use proto::v1;
use tests::Session;
use tonic::Code;

use super::attempt::{Attempt, Case, shown};
use super::{Rule, Victim};

pub(super) async fn attempt(rpc: &str, caller: &Session, victim: &Victim) -> Option<Case> {
    let (mut all, mut foreign) = (Vec::new(), Vec::new());
    let rule = match rpc {
        "UsageService/GetRequest" => {
            let request = v1::GetRequestRequest { id: victim.request.clone() };
            all.push(shown(caller.usage().get_request(request).await));
            Rule::Hidden
        }
        "UsageService/CaptureRequests" => {
            let request = v1::CaptureRequestsRequest { key: victim.key.id.clone(), seconds: 60 };
            all.push(shown(caller.usage().capture_requests(request).await));
            Rule::Operator
        }
        "UsageService/GetRequestWire" => {
            let request = v1::GetRequestWireRequest { id: victim.request.clone() };
            all.push(shown(caller.usage().get_request_wire(request).await));
            Rule::Operator
        }
        "UsageService/ListRequests" => {
            for filter in of_account(victim) {
                let request =
                    v1::ListRequestsRequest { filter: Some(filter), ..Default::default() };
                foreign.push((shown(caller.usage().list_requests(request).await), Code::NotFound));
            }
            for filter in [None, Some(of_key(victim))] {
                let request = v1::ListRequestsRequest { filter, ..Default::default() };
                all.push(shown(caller.usage().list_requests(request).await));
            }
            Rule::Own
        }
        "UsageService/ListRequestsInFlight" => {
            for account in victim.names() {
                let request = v1::ListRequestsInFlightRequest { account };
                foreign.push((
                    shown(caller.usage().list_requests_in_flight(request).await),
                    Code::NotFound,
                ));
            }
            let request = v1::ListRequestsInFlightRequest::default();
            all.push(shown(caller.usage().list_requests_in_flight(request).await));
            Rule::Own
        }
        "UsageService/CancelRequest" => {
            let request = v1::CancelRequestRequest { id: victim.request.clone() };
            all.push(shown(caller.usage().cancel_request(request).await));
            Rule::Hidden
        }
        "UsageService/TailRequests" => {
            for filter in of_account(victim) {
                let request =
                    v1::TailRequestsRequest { filter: Some(filter), ..Default::default() };
                foreign.push((tail(caller, request).await, Code::NotFound));
            }
            for filter in [None, Some(of_key(victim))] {
                let request =
                    v1::TailRequestsRequest { filter, history: 1_000, ..Default::default() };
                all.push(tail(caller, request).await);
            }
            Rule::Own
        }
        "UsageService/SummarizeUsage" => {
            for filter in of_account(victim) {
                let request =
                    v1::SummarizeUsageRequest { filter: Some(filter), models_by_time: true };
                foreign
                    .push((shown(caller.usage().summarize_usage(request).await), Code::NotFound));
            }
            for filter in [None, Some(of_key(victim))] {
                let request = v1::SummarizeUsageRequest { filter, models_by_time: true };
                all.push(shown(caller.usage().summarize_usage(request).await));
            }
            Rule::Own
        }
        "UsageService/ExportRequests" => {
            for filter in of_account(victim) {
                let request = v1::ExportRequestsRequest { filter: Some(filter) };
                foreign.push((export(caller, request).await, Code::NotFound));
            }
            for filter in [None, Some(of_key(victim))] {
                all.push(export(caller, v1::ExportRequestsRequest { filter }).await);
            }
            Rule::Own
        }
        "UsageService/ExportResponses" => {
            for account in victim.names() {
                let request = v1::ExportResponsesRequest { account };
                foreign.push((export_responses(caller, request).await, Code::NotFound));
            }
            let request = v1::ExportResponsesRequest::default();
            all.push(export_responses(caller, request).await);
            Rule::Own
        }
        "LedgerService/ListEntries" => {
            for account in victim.names() {
                let request = v1::ListEntriesRequest { account, ..Default::default() };
                foreign.push((shown(caller.ledger().list_entries(request).await), Code::NotFound));
            }
            all.push(shown(caller.ledger().list_entries(v1::ListEntriesRequest::default()).await));
            Rule::Own
        }
        "LedgerService/VerifyLedger" => {
            all.push(shown(caller.ledger().verify_ledger(v1::VerifyLedgerRequest {}).await));
            Rule::Support
        }
        "TrafficService/WatchTraffic" => {
            for account in victim.names() {
                let request = v1::WatchTrafficRequest { account, interval_ms: 0 };
                foreign
                    .push((shown(caller.traffic().watch_traffic(request).await), Code::NotFound));
            }
            let every = v1::WatchTrafficRequest { account: "*".to_owned(), interval_ms: 0 };
            foreign
                .push((shown(caller.traffic().watch_traffic(every).await), Code::PermissionDenied));
            all.push(watch(caller).await);
            Rule::Own
        }
        "TrafficService/ListLimitUse" => {
            for account in victim.names() {
                foreign.push((
                    shown(
                        caller.traffic().list_limit_use(v1::ListLimitUseRequest { account }).await,
                    ),
                    Code::NotFound,
                ));
            }
            let request = v1::ListLimitUseRequest::default();
            all.push(shown(caller.traffic().list_limit_use(request).await));
            Rule::Own
        }
        "TrafficService/ListUpstreamHealth" => {
            let request = v1::ListUpstreamHealthRequest {};
            all.push(shown(caller.traffic().list_upstream_health(request).await));
            Rule::Support
        }
        "DiagnosticsService/Diagnose" => {
            let request = v1::DiagnoseRequest { send_requests: true };
            all.push(shown(caller.diagnostics().diagnose(request).await));
            Rule::Operator
        }
        "MaintenanceService/Backup" => {
            all.push(shown(caller.maintenance().backup(v1::BackupRequest {}).await));
            Rule::Operator
        }
        "MaintenanceService/RotateOperatorToken" => {
            let request = v1::RotateOperatorTokenRequest {};
            all.push(shown(caller.maintenance().rotate_operator_token(request).await));
            Rule::Owner
        }
        "MaintenanceService/DisableOperatorToken" => {
            let request = v1::DisableOperatorTokenRequest {};
            all.push(shown(caller.maintenance().disable_operator_token(request).await));
            Rule::Owner
        }
        "MaintenanceService/EnableOperatorToken" => {
            let request = v1::EnableOperatorTokenRequest {};
            all.push(shown(caller.maintenance().enable_operator_token(request).await));
            Rule::Owner
        }
        "MaintenanceService/Reload" => {
            all.push(shown(caller.maintenance().reload(v1::ReloadRequest {}).await));
            Rule::Operator
        }
        "MaintenanceService/TestWebhooks" => {
            let request = v1::TestWebhooksRequest {};
            all.push(shown(caller.maintenance().test_webhooks(request).await));
            Rule::Operator
        }
        "MaintenanceService/RotateSealKey" => {
            let request = v1::RotateSealKeyRequest {};
            all.push(shown(caller.maintenance().rotate_seal_key(request).await));
            Rule::Operator
        }
        "MaintenanceService/GetVersion" => {
            all.push(shown(caller.maintenance().get_version(v1::GetVersionRequest {}).await));
            Rule::Own
        }
        "NodeService/ListNodes" => {
            all.push(shown(caller.nodes().list_nodes(v1::ListNodesRequest {}).await));
            Rule::Support
        }
        "NodeService/DrainNode" => {
            let request = v1::DrainNodeRequest { name: "gate".to_owned(), draining: true };
            all.push(shown(caller.nodes().drain_node(request).await));
            Rule::Operator
        }
        "NodeService/RemoveNode" => {
            let request = v1::RemoveNodeRequest { name: "gate".to_owned(), lost: true };
            all.push(shown(caller.nodes().remove_node(request).await));
            Rule::Operator
        }
        _ => return None,
    };
    Some(Case { rule, attempts: all, foreign })
}

/// Returns filters for the victim's requests, one for each of its names.
fn of_account(victim: &Victim) -> [v1::RequestFilter; 2] {
    victim.names().map(|account| v1::RequestFilter { account, ..Default::default() })
}

/// Returns a filter for the requests of the victim's key.
fn of_key(victim: &Victim) -> v1::RequestFilter {
    v1::RequestFilter { key: victim.key.id.clone(), ..Default::default() }
}

/// Reads the history of a tail and its first live message.
async fn tail(caller: &Session, request: v1::TailRequestsRequest) -> Attempt {
    let mut tail = caller.usage().tail_requests(request).await?.into_inner();
    let mut seen = String::new();
    loop {
        let update = tests::with_timeout("the end of history", tail.message()).await?.unwrap();
        _ = write!(seen, "{:?}", update.requests);
        if update.live {
            return Ok(seen);
        }
    }
}

/// Reads an export to its end.
async fn export(caller: &Session, request: v1::ExportRequestsRequest) -> Attempt {
    let mut pages = caller.usage().export_requests(request).await?.into_inner();
    let mut seen = String::new();
    while let Some(page) = pages.message().await? {
        _ = write!(seen, "{page:?}");
    }
    Ok(seen)
}

async fn export_responses(caller: &Session, request: v1::ExportResponsesRequest) -> Attempt {
    let mut chunks = caller.usage().export_responses(request).await?.into_inner();
    let mut seen = String::new();
    while let Some(chunk) = chunks.message().await? {
        seen.push_str(&String::from_utf8_lossy(&chunk.data));
    }
    Ok(seen)
}

/// Watches the caller's traffic, which is zero although others have some.
async fn watch(caller: &Session) -> Attempt {
    let request = v1::WatchTrafficRequest::default();
    let mut snapshots = caller.traffic().watch_traffic(request).await?.into_inner();
    let snapshot = snapshots.message().await?.unwrap();
    assert!(snapshot.minutes.iter().all(|minute| minute.requests == 0), "{snapshot:?}");
    Ok(format!("{snapshot:?}"))
}
