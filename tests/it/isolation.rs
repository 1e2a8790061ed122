//! No member reads or changes what is another's, by any RPC.
//!
//! The RPCs are taken from the descriptors: a new one fails these tests until it has a case.

use std::fmt::{Debug, Write as _};

use prost::Message;
use proto::v1;
use tests::{Product, Session, question};
use tonic::{Code, Response, Status};

/// What an RPC may answer to a member who asks for another's things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Anybody may call it.
    Open,
    /// It answers with what is the caller's own, and nothing else.
    Own,
    /// It answers as if there were no such thing.
    Hidden,
    /// It is for operators.
    Operator,
}

/// What belongs to the victim.
struct Victim {
    session: Session,
    id: String,
    session_id: String,
    key: tests::NewKey,
    request: String,
}

type Attempt = Result<String, Status>;

fn shown<T: Debug>(answer: Result<Response<T>, Status>) -> Attempt {
    answer.map(|answer| format!("{:?}", answer.into_inner()))
}

/// Has `who` call `rpc` for what is the victim's, in every way that its request allows.
async fn attempt(rpc: &str, who: &Session, victim: &Victim) -> (Rule, Vec<Attempt>) {
    let names = [victim.session.name.clone(), victim.id.clone()];
    let filters = || {
        let of_account =
            names.clone().map(|account| v1::RequestFilter { account, ..Default::default() });
        of_account.to_vec()
    };
    let of_key = || v1::RequestFilter { key: victim.key.id.clone(), ..Default::default() };
    let model = v1::Model { id: "evil".to_owned(), ..Default::default() };
    let upstream =
        v1::Upstream { name: "evil".to_owned(), url: "sim:".to_owned(), ..Default::default() };
    let plan = v1::Plan {
        name: "free".to_owned(),
        trial_credit_usd: "9".to_owned(),
        ..Default::default()
    };
    let mut all = Vec::new();
    let rule = match rpc {
        "AccountService/Register" => {
            let name = format!("{}-friend", who.name);
            let password = "long enough".to_owned();
            let request = v1::RegisterRequest { name, password, invite_code: String::new() };
            all.push(shown(who.accounts().register(request).await));
            Rule::Open
        }
        "AccountService/SignIn" => {
            // the right answer to a wrong password is no member's secret
            let name = victim.session.name.clone();
            let request = v1::SignInRequest { name, password: "wrong password".to_owned() };
            let refused = who.accounts().sign_in(request).await.unwrap_err();
            assert_eq!(refused.code(), Code::Unauthenticated);
            Rule::Open
        }
        "AccountService/SignOut" => {
            // its own session is needed for the other calls, and another's cannot be named
            Rule::Own
        }
        "AccountService/WhoAmI" => {
            all.push(shown(who.accounts().who_am_i(v1::WhoAmIRequest {}).await));
            Rule::Own
        }
        "AccountService/ListAccounts" => {
            let request = v1::ListAccountsRequest::default();
            all.push(shown(who.accounts().list_accounts(request).await));
            Rule::Operator
        }
        "AccountService/GetAccount" => {
            for account in names {
                let request = v1::GetAccountRequest { account };
                all.push(shown(who.accounts().get_account(request).await));
            }
            Rule::Hidden
        }
        "AccountService/CreditAccount" => {
            for account in names {
                let request = v1::CreditAccountRequest {
                    account,
                    amount_usd: "-1".to_owned(),
                    reason: "theft".to_owned(),
                };
                all.push(shown(who.accounts().credit_account(request).await));
            }
            Rule::Operator
        }
        "AccountService/CreateInvite" => {
            let request = v1::CreateInviteRequest::default();
            all.push(shown(who.accounts().create_invite(request).await));
            Rule::Operator
        }
        "AccountService/SuspendAccount" => {
            for account in names {
                let reason = "envy".to_owned();
                let request = v1::SuspendAccountRequest { account, reason };
                all.push(shown(who.accounts().suspend_account(request).await));
            }
            Rule::Operator
        }
        "AccountService/ResumeAccount" => {
            for account in names {
                let request = v1::ResumeAccountRequest { account };
                all.push(shown(who.accounts().resume_account(request).await));
            }
            Rule::Operator
        }
        "AccountService/SetPlan" => {
            for account in names {
                let request = v1::SetPlanRequest { account, plan: "free".to_owned() };
                all.push(shown(who.accounts().set_plan(request).await));
            }
            Rule::Operator
        }
        "AccountService/ChangePassword" => {
            // it names no account: whose password is changed is the caller's
            let request = v1::ChangePasswordRequest {
                old_password: format!("correct horse battery {}", who.name),
                new_password: "another long one".to_owned(),
            };
            all.push(shown(who.accounts().change_password(request).await));
            Rule::Own
        }
        "AccountService/ListSessions" => {
            all.push(shown(who.accounts().list_sessions(v1::ListSessionsRequest {}).await));
            Rule::Own
        }
        "AccountService/RevokeSession" => {
            let request = v1::RevokeSessionRequest { id: victim.session_id.clone() };
            all.push(shown(who.accounts().revoke_session(request).await));
            Rule::Hidden
        }
        "AccountService/RevokeOtherSessions" => {
            let request = v1::RevokeOtherSessionsRequest {};
            all.push(shown(who.accounts().revoke_other_sessions(request).await));
            Rule::Own
        }
        "AuditService/ListAudit" => {
            for account in names {
                let request = v1::ListAuditRequest { account, ..Default::default() };
                let refused = who.audit().list_audit(request).await.unwrap_err();
                assert!(matches!(refused.code(), Code::NotFound | Code::Unauthenticated));
            }
            all.push(shown(who.audit().list_audit(v1::ListAuditRequest::default()).await));
            Rule::Own
        }
        "KeyService/CreateKey" => {
            let request = v1::CreateKeyRequest { label: "mine".to_owned(), ..Default::default() };
            all.push(shown(who.keys().create_key(request).await));
            Rule::Own
        }
        "KeyService/ListKeys" => {
            for account in names {
                let refused = who.keys().list_keys(v1::ListKeysRequest { account }).await;
                assert!(matches!(
                    refused.unwrap_err().code(),
                    Code::NotFound | Code::Unauthenticated
                ));
            }
            let every = v1::ListKeysRequest { account: "*".to_owned() };
            let refused = who.keys().list_keys(every).await.unwrap_err();
            assert!(matches!(refused.code(), Code::PermissionDenied | Code::Unauthenticated));
            all.push(shown(who.keys().list_keys(v1::ListKeysRequest::default()).await));
            Rule::Own
        }
        "KeyService/RotateKey" => {
            let id = victim.key.id.clone();
            let request = v1::RotateKeyRequest { id, overlap_seconds: 0 };
            all.push(shown(who.keys().rotate_key(request).await));
            Rule::Hidden
        }
        "KeyService/RevokeKey" => {
            let request = v1::RevokeKeyRequest { id: victim.key.id.clone() };
            all.push(shown(who.keys().revoke_key(request).await));
            Rule::Hidden
        }
        "PlanService/ListPlans" => {
            all.push(shown(who.plans().list_plans(v1::ListPlansRequest {}).await));
            Rule::Own
        }
        "PlanService/GetPlan" => {
            let request = v1::GetPlanRequest { name: "free".to_owned() };
            all.push(shown(who.plans().get_plan(request).await));
            Rule::Own
        }
        "PlanService/PutPlan" => {
            let request = v1::PutPlanRequest { plan: Some(plan) };
            all.push(shown(who.plans().put_plan(request).await));
            Rule::Operator
        }
        "ModelService/ListModels" => {
            all.push(shown(who.models().list_models(v1::ListModelsRequest {}).await));
            Rule::Own
        }
        "ModelService/GetModel" => {
            let request = v1::GetModelRequest { id: "sim-chat".to_owned() };
            all.push(shown(who.models().get_model(request).await));
            Rule::Own
        }
        "ModelService/AddModel" => {
            let request = v1::AddModelRequest { model: Some(model) };
            all.push(shown(who.models().add_model(request).await));
            Rule::Operator
        }
        "ModelService/UpdateModel" => {
            let input_usd = Some("0".to_owned());
            let request = v1::UpdateModelRequest {
                id: "sim-chat".to_owned(),
                input_usd,
                ..Default::default()
            };
            all.push(shown(who.models().update_model(request).await));
            Rule::Operator
        }
        "ModelService/RemoveModel" => {
            let request = v1::RemoveModelRequest { id: "sim-chat".to_owned() };
            all.push(shown(who.models().remove_model(request).await));
            Rule::Operator
        }
        "UpstreamService/ListUpstreams" => {
            let request = v1::ListUpstreamsRequest::default();
            all.push(shown(who.upstreams().list_upstreams(request).await));
            Rule::Operator
        }
        "UpstreamService/AddUpstream" => {
            let request = v1::AddUpstreamRequest { upstream: Some(upstream) };
            all.push(shown(who.upstreams().add_upstream(request).await));
            Rule::Operator
        }
        "UpstreamService/UpdateUpstream" => {
            let url = Some("http://evil.invalid".to_owned());
            let request = v1::UpdateUpstreamRequest {
                name: "simulator".to_owned(),
                url,
                ..Default::default()
            };
            all.push(shown(who.upstreams().update_upstream(request).await));
            Rule::Operator
        }
        "UpstreamService/RemoveUpstream" => {
            let request = v1::RemoveUpstreamRequest { name: "simulator".to_owned() };
            all.push(shown(who.upstreams().remove_upstream(request).await));
            Rule::Operator
        }
        "UsageService/GetRequest" => {
            let request = v1::GetRequestRequest { id: victim.request.clone() };
            all.push(shown(who.usage().get_request(request).await));
            Rule::Hidden
        }
        "UsageService/ListRequests" => {
            for filter in filters() {
                let request =
                    v1::ListRequestsRequest { filter: Some(filter), ..Default::default() };
                let refused = who.usage().list_requests(request).await.unwrap_err();
                assert!(matches!(refused.code(), Code::NotFound | Code::Unauthenticated));
            }
            for filter in [None, Some(of_key())] {
                let request = v1::ListRequestsRequest { filter, ..Default::default() };
                all.push(shown(who.usage().list_requests(request).await));
            }
            Rule::Own
        }
        "UsageService/TailRequests" => {
            for filter in filters() {
                let request =
                    v1::TailRequestsRequest { filter: Some(filter), ..Default::default() };
                let refused = who.usage().tail_requests(request).await.unwrap_err();
                assert!(matches!(refused.code(), Code::NotFound | Code::Unauthenticated));
            }
            for filter in [None, Some(of_key())] {
                let request =
                    v1::TailRequestsRequest { filter, history: 1_000, ..Default::default() };
                all.push(tail(who, request).await);
            }
            Rule::Own
        }
        "UsageService/SummarizeUsage" => {
            for filter in filters() {
                let request = v1::SummarizeUsageRequest { filter: Some(filter) };
                let refused = who.usage().summarize_usage(request).await.unwrap_err();
                assert!(matches!(refused.code(), Code::NotFound | Code::Unauthenticated));
            }
            for filter in [None, Some(of_key())] {
                let request = v1::SummarizeUsageRequest { filter };
                let answer = who.usage().summarize_usage(request).await;
                if let Ok(answer) = &answer {
                    let totals = answer.get_ref().totals.clone().unwrap_or_default();
                    assert_eq!(totals.requests, 0, "{answer:?}");
                }
                all.push(shown(answer));
            }
            Rule::Own
        }
        "UsageService/ExportRequests" => {
            for filter in filters() {
                let request = v1::ExportRequestsRequest { filter: Some(filter) };
                let refused = who.usage().export_requests(request).await.unwrap_err();
                assert!(matches!(refused.code(), Code::NotFound | Code::Unauthenticated));
            }
            for filter in [None, Some(of_key())] {
                all.push(export(who, v1::ExportRequestsRequest { filter }).await);
            }
            Rule::Own
        }
        "LedgerService/ListEntries" => {
            for account in names {
                let request = v1::ListEntriesRequest { account, ..Default::default() };
                let refused = who.ledger().list_entries(request).await.unwrap_err();
                assert!(matches!(refused.code(), Code::NotFound | Code::Unauthenticated));
            }
            all.push(shown(who.ledger().list_entries(v1::ListEntriesRequest::default()).await));
            Rule::Own
        }
        "LedgerService/VerifyLedger" => {
            all.push(shown(who.ledger().verify_ledger(v1::VerifyLedgerRequest {}).await));
            Rule::Operator
        }
        "TrafficService/WatchTraffic" => {
            for account in names {
                let request = v1::WatchTrafficRequest { account, interval_ms: 0 };
                let refused = who.traffic().watch_traffic(request).await.unwrap_err();
                assert!(matches!(refused.code(), Code::NotFound | Code::Unauthenticated));
            }
            let every = v1::WatchTrafficRequest { account: "*".to_owned(), interval_ms: 0 };
            let refused = who.traffic().watch_traffic(every).await.unwrap_err();
            assert!(matches!(refused.code(), Code::PermissionDenied | Code::Unauthenticated));
            all.push(watch(who).await);
            Rule::Own
        }
        "TrafficService/ListLimitUse" => {
            for account in names {
                let refused =
                    who.traffic().list_limit_use(v1::ListLimitUseRequest { account }).await;
                assert!(matches!(
                    refused.unwrap_err().code(),
                    Code::NotFound | Code::Unauthenticated
                ));
            }
            let request = v1::ListLimitUseRequest::default();
            all.push(shown(who.traffic().list_limit_use(request).await));
            Rule::Own
        }
        "TrafficService/ListUpstreamHealth" => {
            let request = v1::ListUpstreamHealthRequest {};
            all.push(shown(who.traffic().list_upstream_health(request).await));
            Rule::Operator
        }
        "DiagnosticsService/Diagnose" => {
            let request = v1::DiagnoseRequest { send_requests: true };
            all.push(shown(who.diagnostics().diagnose(request).await));
            Rule::Operator
        }
        "MaintenanceService/Backup" => {
            all.push(shown(who.maintenance().backup(v1::BackupRequest {}).await));
            Rule::Operator
        }
        other => panic!("`{other}` has no case here: say what a member may get from it"),
    };
    (rule, all)
}

/// Reads a tail up to its news.
async fn tail(who: &Session, request: v1::TailRequestsRequest) -> Attempt {
    let mut tail = who.usage().tail_requests(request).await?.into_inner();
    let mut seen = String::new();
    loop {
        let news = tests::soon("the end of history", tail.message()).await?.unwrap();
        _ = write!(seen, "{:?}", news.requests);
        if news.live {
            return Ok(seen);
        }
    }
}

/// Reads an export to its end.
async fn export(who: &Session, request: v1::ExportRequestsRequest) -> Attempt {
    let mut pages = who.usage().export_requests(request).await?.into_inner();
    let mut seen = String::new();
    while let Some(page) = pages.message().await? {
        _ = write!(seen, "{page:?}");
    }
    Ok(seen)
}

/// Watches its own traffic, which is none although others have some.
async fn watch(who: &Session) -> Attempt {
    let request = v1::WatchTrafficRequest::default();
    let mut pictures = who.traffic().watch_traffic(request).await?.into_inner();
    let picture = pictures.message().await?.unwrap();
    assert!(picture.minutes.iter().all(|minute| minute.requests == 0), "{picture:?}");
    Ok(format!("{picture:?}"))
}

fn every_rpc() -> Vec<String> {
    let files = prost_types::FileDescriptorSet::decode(proto::DESCRIPTOR).unwrap().file;
    let services = files.into_iter().filter(|file| file.package() == "tollgate.admin.v1");
    let rpcs: Vec<_> = services
        .flat_map(|file| file.service)
        .flat_map(|service| {
            let name = service.name().to_owned();
            service.method.into_iter().map(move |method| format!("{name}/{}", method.name()))
        })
        .collect();
    assert!(rpcs.len() >= 40, "{rpcs:?}");
    rpcs
}

/// An account with a key, a request and a balance that nobody else has.
async fn victim(product: &Product) -> Victim {
    let session = product.member("alice").await;
    product.operator().await.credit("alice", "1234.567").await;
    let key = session.key_with(|key| key.label = "private-label".into()).await;
    product.chat(&key.secret, &question("sim-chat", "hi")).answer().await;
    let request = session.record().await.id;
    let id = session.account().await.id;
    let sessions = session.accounts().list_sessions(v1::ListSessionsRequest {}).await.unwrap();
    let session_id = sessions.into_inner().sessions.remove(0).id;
    Victim { session, id, session_id, key, request }
}

#[tokio::test]
async fn no_rpc_gives_a_member_what_is_anothers() {
    let product = Product::start().await;
    let victim = victim(&product).await;
    let bob = product.member("bob").await;
    let before = victim.session.account().await;
    for rpc in every_rpc() {
        let (rule, attempts) = attempt(&rpc, &bob, &victim).await;
        for attempt in attempts {
            let code = attempt.as_ref().map_or_else(Status::code, |_| Code::Ok);
            let expected = match rule {
                Rule::Open | Rule::Own => Code::Ok,
                Rule::Hidden => Code::NotFound,
                Rule::Operator => Code::PermissionDenied,
            };
            assert_eq!(code, expected, "{rpc}: {attempt:?}");
            let Ok(text) = attempt else { continue };
            let ids = [&victim.id, &victim.session_id, &victim.key.id, &victim.request];
            for private in ids.into_iter().chain([&victim.key.secret]) {
                assert!(!text.contains(&**private), "{rpc}: {text}");
            }
            for private in ["alice", "private-label", "1239.56"] {
                assert!(!text.contains(private), "{rpc}: {text}");
            }
        }
    }
    assert_eq!(victim.session.account().await, before, "nothing of the victim's has changed");
    let answer = product.chat(&victim.key.secret, &question("sim-chat", "hi")).answer().await;
    assert_eq!(answer.status, 200, "the key still works");
}

#[tokio::test]
async fn no_rpc_but_registration_and_sign_in_is_for_strangers() {
    let product = Product::start().await;
    let victim = victim(&product).await;
    let stranger = product.stranger().await;
    let forger = Session::with_token(&product.admin, "forger", "tgs-0123456789").await;
    for who in [stranger, forger] {
        for rpc in every_rpc() {
            let (rule, attempts) = attempt(&rpc, &who, &victim).await;
            for attempt in attempts.into_iter().filter(|_| rule != Rule::Open) {
                assert_eq!(attempt.unwrap_err().code(), Code::Unauthenticated, "{rpc}");
            }
        }
        let refused = who.accounts().sign_out(v1::SignOutRequest {}).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
}

#[tokio::test]
async fn a_key_opens_nothing_on_the_admin_plane() {
    let product = Product::start().await;
    let victim = victim(&product).await;
    let holder = Session::with_token(&product.admin, "holder", &victim.key.secret).await;
    let refused = holder.accounts().who_am_i(v1::WhoAmIRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
}
