//! A gateway of canned answers that notes what it was asked and with which token.

mod accounts;
mod books;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use proto::v1::account_service_server::AccountServiceServer;
use proto::v1::audit_service_server::{AuditService, AuditServiceServer};
use proto::v1::key_service_server::{KeyService, KeyServiceServer};
use proto::v1::ledger_service_server::LedgerServiceServer;
use proto::v1::maintenance_service_server::MaintenanceServiceServer;
use proto::v1::model_service_server::{ModelService, ModelServiceServer};
use proto::v1::plan_service_server::{PlanService, PlanServiceServer};
use proto::v1::upstream_service_server::{UpstreamService, UpstreamServiceServer};
use proto::v1::usage_service_server::{UsageService, UsageServiceServer};
use proto::v1::*;
use tokio::net::TcpListener;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status};

/// A running fake; it stops with the test's runtime.
#[derive(Clone)]
pub(crate) struct Fake {
    /// Its admin address.
    pub(crate) server: String,
    state: Arc<Mutex<State>>,
}

/// One call as it came in.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The method.
    pub(crate) method: &'static str,
    /// The token, if one was sent.
    pub(crate) token: Option<String>,
    /// The message, as `Debug` prints it.
    pub(crate) message: String,
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    refusals: BTreeMap<&'static str, (Code, String)>,
    tail_ends: bool,
    damaged: bool,
    backups_break: bool,
}

// === impl Fake ===

impl Fake {
    /// Starts one on a free port.
    #[expect(clippy::disallowed_methods, reason = "the test's runtime ends it")]
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let fake = Self { server, state: Arc::default() };
        let router = tonic::transport::Server::builder()
            .add_service(AccountServiceServer::new(fake.clone()))
            .add_service(AuditServiceServer::new(fake.clone()))
            .add_service(KeyServiceServer::new(fake.clone()))
            .add_service(LedgerServiceServer::new(fake.clone()))
            .add_service(MaintenanceServiceServer::new(fake.clone()))
            .add_service(ModelServiceServer::new(fake.clone()))
            .add_service(PlanServiceServer::new(fake.clone()))
            .add_service(UpstreamServiceServer::new(fake.clone()))
            .add_service(UsageServiceServer::new(fake.clone()));
        tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
        fake
    }

    /// Answers every call of `method` with an error from now on.
    pub(crate) fn refuse(&self, method: &'static str, code: Code, message: &str) {
        self.state.lock().unwrap().refusals.insert(method, (code, message.to_owned()));
    }

    /// Ends a tail after its history, as a gateway that goes does.
    pub(crate) fn end_tails(&self) {
        self.state.lock().unwrap().tail_ends = true;
    }

    /// Lets the ledger not add up from now on.
    pub(crate) fn damage(&self) {
        self.state.lock().unwrap().damaged = true;
    }

    /// Ends backups before they are whole from now on.
    pub(crate) fn break_backups(&self) {
        self.state.lock().unwrap().backups_break = true;
    }

    /// Returns all calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.state.lock().unwrap().calls.clone()
    }

    /// Returns the last call.
    pub(crate) fn last(&self) -> Call {
        self.calls().pop().expect("a call came in")
    }

    fn note<M: std::fmt::Debug>(
        &self,
        method: &'static str,
        request: Request<M>,
    ) -> Result<M, Status> {
        let token = request.metadata().get("authorization").map(|value| {
            value.to_str().unwrap().strip_prefix("Bearer ").expect("a bearer token").to_owned()
        });
        let message = request.into_inner();
        let call = Call { method, token: token.clone(), message: format!("{message:?}") };
        let mut state = self.state.lock().unwrap();
        state.calls.push(call);
        if token.as_deref() == Some("stale") {
            return Err(Status::unauthenticated("the session has ended"));
        }
        match state.refusals.get(method) {
            Some((code, message)) => Err(Status::new(*code, message.clone())),
            None => Ok(message),
        }
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[expect(clippy::unnecessary_wraps, reason = "methods return it")]
fn answer<T>(message: T) -> Answer<T> {
    Ok(Response::new(message))
}

#[expect(clippy::unnecessary_wraps, reason = "messages hold it")]
fn at(seconds: i64, nanos: i32) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp { seconds: 1_795_176_000 + seconds, nanos })
}

#[expect(clippy::unnecessary_wraps, reason = "messages hold it")]
fn account(name: &str) -> Option<Account> {
    Some(Account {
        id: "019a9f0e-0000-7000-8000-000000000001".to_owned(),
        name: name.to_owned(),
        role: Role::Member.into(),
        status: AccountStatus::Active.into(),
        plan: "free".to_owned(),
        balance_usd: "4.999000001".to_owned(),
        created_at: at(0, 0),
    })
}

fn key(id: &str, label: &str) -> Key {
    Key {
        id: id.to_owned(),
        account: "alice".to_owned(),
        label: label.to_owned(),
        limits: Some(Limits { rpm: Some(60), ..Limits::default() }),
        models: vec!["sim-fast".to_owned(), "sim-slow".to_owned()],
        created_at: at(0, 0),
        last_used_at: None,
        expires_at: at(86_400, 0),
        revoked_at: None,
        translation: Translation::Lenient.into(),
        spend_cap_usd: "2.5".to_owned(),
        successor: String::new(),
    }
}

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
        aliases: vec!["fast".to_owned()],
        deployments: vec![Deployment {
            upstream: "sim".to_owned(),
            upstream_model: "fast:v1".to_owned(),
            weight: 1,
            priority: 0,
        }],
        created_at: at(0, 0),
    }
}

fn plan(name: &str) -> Plan {
    Plan {
        name: name.to_owned(),
        trial_credit_usd: "5".to_owned(),
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
        profile: Profile::Openai.into(),
        deadlines: None,
        created_at: at(0, 0),
        problem: "environment variable `EXAMPLE_KEY` is not set".to_owned(),
    }
}

/// Three records: a whole one, one of which nothing is known, a refused one.
pub(crate) fn records() -> Vec<RequestRecord> {
    let whole = RequestRecord {
        id: "019a9f0e-0000-7000-8000-00000000000a".to_owned(),
        account: "alice".to_owned(),
        key: "9f2c41d0".to_owned(),
        endpoint: "chat.completions".to_owned(),
        model: Some("sim-fast".to_owned()),
        deployment: Some("sim/fast:v1".to_owned()),
        stream: true,
        status: RequestStatus::Completed.into(),
        http_status: Some(200),
        error_code: None,
        tokens: Some(TokenCounts {
            input: Some(120),
            cached: Some(0),
            output: Some(34),
            reasoning: None,
        }),
        usage_basis: UsageBasis::Upstream.into(),
        cost_usd: Some("0.000098".to_owned()),
        price_version: Some(3),
        started_at: at(1, 250_000_000),
        duration_ms: Some(412.5),
        ttft_ms: Some(38.062_5),
        notes: vec!["grammar not enforced".to_owned()],
    };
    let unknown = RequestRecord {
        id: "019a9f0e-0000-7000-8000-00000000000b".to_owned(),
        account: "alice".to_owned(),
        key: "9f2c41d0".to_owned(),
        endpoint: "responses".to_owned(),
        status: RequestStatus::Interrupted.into(),
        started_at: at(2, 0),
        duration_ms: None,
        ..RequestRecord::default()
    };
    let refused = RequestRecord {
        id: "019a9f0e-0000-7000-8000-00000000000c".to_owned(),
        model: Some("evil\u{1b}[2J,\"model\"".to_owned()),
        status: RequestStatus::Rejected.into(),
        http_status: Some(404),
        error_code: Some("model_not_found".to_owned()),
        tokens: Some(TokenCounts::default()),
        usage_basis: UsageBasis::None.into(),
        cost_usd: Some("0".to_owned()),
        price_version: None,
        started_at: at(3, 0),
        duration_ms: Some(1.25),
        ttft_ms: None,
        deployment: None,
        notes: vec![],
        ..whole.clone()
    };
    vec![whole, unknown, refused]
}

#[tonic::async_trait]
impl KeyService for Fake {
    async fn create_key(&self, request: Request<CreateKeyRequest>) -> Answer<CreateKeyResponse> {
        let input = self.note("CreateKey", request)?;
        answer(CreateKeyResponse {
            key: Some(key("9f2c41d0", &input.label)),
            secret: "sk-tg-9f2c41d0-secret".to_owned(),
        })
    }

    async fn list_keys(&self, request: Request<ListKeysRequest>) -> Answer<ListKeysResponse> {
        self.note("ListKeys", request)?;
        answer(ListKeysResponse { keys: vec![key("9f2c41d0", "ci"), key("11aa22bb", "laptop")] })
    }

    async fn rotate_key(&self, request: Request<RotateKeyRequest>) -> Answer<RotateKeyResponse> {
        self.note("RotateKey", request)?;
        answer(RotateKeyResponse {
            key: Some(key("33cc44dd", "ci")),
            secret: "sk-tg-33cc44dd-secret".to_owned(),
        })
    }

    async fn revoke_key(&self, request: Request<RevokeKeyRequest>) -> Answer<RevokeKeyResponse> {
        let input = self.note("RevokeKey", request)?;
        answer(RevokeKeyResponse {
            key: Some(Key { revoked_at: at(60, 0), ..key(&input.id, "ci") }),
        })
    }
}

#[tonic::async_trait]
impl AuditService for Fake {
    /// Two entries, each on a page of its own.
    async fn list_audit(&self, request: Request<ListAuditRequest>) -> Answer<ListAuditResponse> {
        let input = self.note("ListAudit", request)?;
        let suspended = AuditEntry {
            id: 8,
            at: at(60, 0),
            actor: "operator".to_owned(),
            action: "account.suspend".to_owned(),
            object: "alice".to_owned(),
            account: "alice".to_owned(),
            details: "invoice 17 is overdue".to_owned(),
        };
        let added = AuditEntry {
            id: 7,
            at: at(0, 0),
            action: "model.add".to_owned(),
            object: "sim-fast".to_owned(),
            account: String::new(),
            details: String::new(),
            ..suspended.clone()
        };
        let (entry, next) =
            if input.page_token.is_empty() { (suspended, "8") } else { (added, "") };
        answer(ListAuditResponse { entries: vec![entry], next_page_token: next.to_owned() })
    }
}

#[tonic::async_trait]
impl ModelService for Fake {
    async fn list_models(&self, request: Request<ListModelsRequest>) -> Answer<ListModelsResponse> {
        self.note("ListModels", request)?;
        answer(ListModelsResponse { models: vec![model("sim-fast"), model("sim-slow")] })
    }

    async fn get_model(&self, request: Request<GetModelRequest>) -> Answer<GetModelResponse> {
        let input = self.note("GetModel", request)?;
        answer(GetModelResponse { model: Some(model(&input.id)) })
    }

    async fn add_model(&self, request: Request<AddModelRequest>) -> Answer<AddModelResponse> {
        let input = self.note("AddModel", request)?;
        answer(AddModelResponse { model: input.model })
    }

    async fn update_model(
        &self,
        request: Request<UpdateModelRequest>,
    ) -> Answer<UpdateModelResponse> {
        let input = self.note("UpdateModel", request)?;
        answer(UpdateModelResponse { model: Some(model(&input.id)) })
    }

    async fn remove_model(
        &self,
        request: Request<RemoveModelRequest>,
    ) -> Answer<RemoveModelResponse> {
        self.note("RemoveModel", request)?;
        answer(RemoveModelResponse {})
    }
}

#[tonic::async_trait]
impl PlanService for Fake {
    async fn list_plans(&self, request: Request<ListPlansRequest>) -> Answer<ListPlansResponse> {
        self.note("ListPlans", request)?;
        answer(ListPlansResponse { plans: vec![plan("free")] })
    }

    async fn get_plan(&self, request: Request<GetPlanRequest>) -> Answer<GetPlanResponse> {
        let input = self.note("GetPlan", request)?;
        answer(GetPlanResponse { plan: Some(plan(&input.name)) })
    }

    async fn put_plan(&self, request: Request<PutPlanRequest>) -> Answer<PutPlanResponse> {
        let input = self.note("PutPlan", request)?;
        answer(PutPlanResponse { plan: input.plan })
    }
}

#[tonic::async_trait]
impl UpstreamService for Fake {
    async fn list_upstreams(
        &self,
        request: Request<ListUpstreamsRequest>,
    ) -> Answer<ListUpstreamsResponse> {
        self.note("ListUpstreams", request)?;
        answer(ListUpstreamsResponse { upstreams: vec![upstream("example")] })
    }

    async fn add_upstream(
        &self,
        request: Request<AddUpstreamRequest>,
    ) -> Answer<AddUpstreamResponse> {
        let input = self.note("AddUpstream", request)?;
        answer(AddUpstreamResponse { upstream: input.upstream })
    }

    async fn update_upstream(
        &self,
        request: Request<UpdateUpstreamRequest>,
    ) -> Answer<UpdateUpstreamResponse> {
        let input = self.note("UpdateUpstream", request)?;
        answer(UpdateUpstreamResponse { upstream: Some(upstream(&input.name)) })
    }

    async fn remove_upstream(
        &self,
        request: Request<RemoveUpstreamRequest>,
    ) -> Answer<RemoveUpstreamResponse> {
        self.note("RemoveUpstream", request)?;
        answer(RemoveUpstreamResponse {})
    }
}

#[tonic::async_trait]
impl UsageService for Fake {
    /// Three records in pages of at most two.
    async fn list_requests(
        &self,
        request: Request<ListRequestsRequest>,
    ) -> Answer<ListRequestsResponse> {
        let input = self.note("ListRequests", request)?;
        let from: usize = input.page_token.parse().unwrap_or_default();
        let size = usize::try_from(input.page_size).unwrap().clamp(1, 2);
        let requests: Vec<_> = records().into_iter().skip(from).take(size).collect();
        let next = from + requests.len();
        let next_page_token = if next < 3 { next.to_string() } else { String::new() };
        answer(ListRequestsResponse { requests, next_page_token })
    }

    async fn get_request(&self, request: Request<GetRequestRequest>) -> Answer<GetRequestResponse> {
        self.note("GetRequest", request)?;
        answer(GetRequestResponse { request: records().into_iter().next() })
    }

    type TailRequestsStream =
        std::pin::Pin<Box<dyn Stream<Item = Result<TailRequestsResponse, Status>> + Send>>;

    /// Two batches; then the end, or nothing any more.
    async fn tail_requests(
        &self,
        request: Request<TailRequestsRequest>,
    ) -> Answer<Self::TailRequestsStream> {
        self.note("TailRequests", request)?;
        let (first, second) = {
            let mut first = records();
            let second = first.split_off(1);
            (first, second)
        };
        let batch = |requests, cursor: &str, dropped, live| {
            Ok(TailRequestsResponse { requests, cursor: cursor.to_owned(), dropped, live })
        };
        let history = tokio_stream::iter([
            batch(first, "c1", 0, true),
            batch(vec![], "c1", 0, true),
            batch(second, "c2", 7, true),
        ]);
        if self.state.lock().unwrap().tail_ends {
            return answer(Box::pin(history));
        }
        let (quiet, news) = tokio::sync::mpsc::channel(1);
        let open = ReceiverStream::new(news).map(move |item| {
            let _held = &quiet;
            item
        });
        answer(Box::pin(history.chain(open)))
    }

    type ExportRequestsStream =
        std::pin::Pin<Box<dyn Stream<Item = Result<ExportRequestsResponse, Status>> + Send>>;

    /// Two pages.
    async fn export_requests(
        &self,
        request: Request<ExportRequestsRequest>,
    ) -> Answer<Self::ExportRequestsStream> {
        self.note("ExportRequests", request)?;
        let mut first = records();
        let second = first.split_off(2);
        let page = |requests| Ok(ExportRequestsResponse { requests });
        answer(Box::pin(tokio_stream::iter([page(first), page(second)])))
    }

    async fn summarize_usage(
        &self,
        request: Request<SummarizeUsageRequest>,
    ) -> Answer<SummarizeUsageResponse> {
        self.note("SummarizeUsage", request)?;
        let totals = || {
            Some(UsageTotals {
                requests: 3,
                errors: 1,
                tokens: Some(TokenCounts {
                    input: Some(120),
                    cached: Some(0),
                    output: Some(34),
                    reasoning: None,
                }),
                cost_usd: "0.000098".to_owned(),
            })
        };
        answer(SummarizeUsageResponse {
            totals: totals(),
            by_model: vec![ModelUsage { model: "sim-fast".to_owned(), totals: totals() }],
            by_day: vec![DayUsage { day: "2026-11-20".to_owned(), totals: totals() }],
            by_key: Vec::new(),
        })
    }
}
