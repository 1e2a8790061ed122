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
    assert!(rpcs.len() >= 27, "{rpcs:?}");
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
    Victim { session, id, key, request }
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
            for private in [&victim.id, &victim.key.id, &victim.key.secret, &victim.request] {
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
