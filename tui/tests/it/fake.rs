//! A gateway's admin plane that keeps its records in memory and can be stopped and started again.

use futures_util::stream::{BoxStream, StreamExt, unfold};
use proto::v1::account_service_server::{AccountService, AccountServiceServer};
use proto::v1::plan_service_server::{PlanService, PlanServiceServer};
use proto::v1::usage_service_server::{UsageService, UsageServiceServer};
use proto::v1::{
    Account, GetPlanRequest, GetPlanResponse, Limits, ModelUsage, Plan, RequestRecord,
    RequestStatus, Role, SignInRequest, SignInResponse, SummarizeUsageRequest,
    SummarizeUsageResponse, TailRequestsRequest, TailRequestsResponse, TokenCounts, UsageTotals,
    WhoAmIRequest, WhoAmIResponse,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const TOKEN: &str = "token-of-ada";
pub(crate) const PASSWORD: &str = "correct horse";

/// The gateway's disk: it outlives a [`Gateway`].
#[derive(Clone)]
pub(crate) struct Disk(Arc<watch::Sender<Vec<RequestRecord>>>);

/// A gateway that runs until it is stopped.
pub(crate) struct Gateway {
    runtime: Runtime,
    address: SocketAddr,
}

// === impl Disk ===

impl Disk {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }

    /// Records a completed request for `model`.
    pub(crate) fn record(&self, model: &str) {
        self.0.send_modify(|records| {
            records.push(RequestRecord {
                id: records.len().to_string(),
                model: Some(model.to_owned()),
                status: RequestStatus::Completed.into(),
                tokens: Some(TokenCounts { input: Some(12), ..TokenCounts::default() }),
                cost_usd: Some("0.000012".to_owned()),
                duration_ms: Some(34.0),
                started_at: Some(prost_types::Timestamp { seconds: 1_795_000_000, nanos: 0 }),
                ..RequestRecord::default()
            });
        });
    }

    /// Forgets everything, as a new data directory would.
    pub(crate) fn wipe(&self) {
        self.0.send_modify(Vec::clear);
    }
}

// === impl Gateway ===

impl Gateway {
    /// Starts on any free port.
    pub(crate) fn start(disk: &Disk) -> Self {
        Self::start_at(disk, ([127, 0, 0, 1], 0).into())
    }

    /// Starts on that port.
    pub(crate) fn start_at(disk: &Disk, address: SocketAddr) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let disk = disk.clone();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let router = Server::builder()
                .add_service(AccountServiceServer::new(disk.clone()))
                .add_service(PlanServiceServer::new(disk.clone()))
                .add_service(UsageServiceServer::new(disk));
            router.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        });
        Self { runtime, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops at once, cutting every connection; returns where it was.
    pub(crate) fn stop(self) -> SocketAddr {
        self.runtime.shutdown_timeout(Duration::from_secs(5));
        self.address
    }
}

fn authorize<T>(request: &Request<T>) -> Result<(), Status> {
    match request.metadata().get("authorization") {
        Some(value) if value == format!("Bearer {TOKEN}").as_str() => Ok(()),
        _ => Err(Status::unauthenticated("who are you")),
    }
}

#[tonic::async_trait]
impl UsageService for Disk {
    type TailRequestsStream = BoxStream<'static, Result<TailRequestsResponse, Status>>;

    async fn tail_requests(
        &self,
        request: Request<TailRequestsRequest>,
    ) -> Result<Response<Self::TailRequestsStream>, Status> {
        authorize(&request)?;
        let TailRequestsRequest { cursor, history, .. } = request.into_inner();
        let length = self.0.borrow().len();
        let start = match cursor.as_str() {
            "" => length.saturating_sub(history.try_into().unwrap()),
            cursor => cursor.parse().unwrap(),
        };
        if start > length {
            return Err(Status::out_of_range("no such cursor"));
        }
        let news = self.0.subscribe();
        let stream = unfold((news, start, true), |(mut news, start, first)| async move {
            if !first {
                news.wait_for(|records| records.len() != start).await.ok()?;
            }
            let requests = news.borrow_and_update().get(start..)?.to_vec();
            let end = start + requests.len();
            let cursor = end.to_string();
            let answer = TailRequestsResponse { requests, cursor, dropped: 0, live: true };
            Some((Ok(answer), (news, end, false)))
        });
        Ok(Response::new(stream.boxed()))
    }

    async fn summarize_usage(
        &self,
        request: Request<SummarizeUsageRequest>,
    ) -> Result<Response<SummarizeUsageResponse>, Status> {
        authorize(&request)?;
        let requests = self.0.borrow().len() as u64;
        let tokens =
            TokenCounts { input: Some(12 * requests), output: Some(3), ..TokenCounts::default() };
        let cost_usd = "0.000100".to_owned();
        let totals = Some(UsageTotals { requests, errors: 0, tokens: Some(tokens), cost_usd });
        let by_model = vec![ModelUsage { model: "gpt-sim".to_owned(), totals: totals.clone() }];
        let by_day = Vec::new();
        let by_key = Vec::new();
        Ok(Response::new(SummarizeUsageResponse { totals, by_model, by_day, by_key }))
    }

    async fn list_requests(
        &self,
        _: Request<proto::v1::ListRequestsRequest>,
    ) -> Result<Response<proto::v1::ListRequestsResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    type ExportRequestsStream =
        BoxStream<'static, Result<proto::v1::ExportRequestsResponse, Status>>;

    async fn export_requests(
        &self,
        _: Request<proto::v1::ExportRequestsRequest>,
    ) -> Result<Response<Self::ExportRequestsStream>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn get_request(
        &self,
        _: Request<proto::v1::GetRequestRequest>,
    ) -> Result<Response<proto::v1::GetRequestResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }
}

fn ada() -> Account {
    Account {
        name: "ada".to_owned(),
        role: Role::Member.into(),
        plan: "free".to_owned(),
        balance_usd: "4.999900".to_owned(),
        ..Account::default()
    }
}

#[tonic::async_trait]
impl AccountService for Disk {
    async fn sign_in(
        &self,
        request: Request<SignInRequest>,
    ) -> Result<Response<SignInResponse>, Status> {
        let request = request.into_inner();
        if (request.name.as_str(), request.password.as_str()) != ("ada", PASSWORD) {
            return Err(Status::unauthenticated("wrong name or password"));
        }
        let token = TOKEN.to_owned();
        Ok(Response::new(SignInResponse { token, account: Some(ada()), expires_at: None }))
    }

    async fn who_am_i(
        &self,
        request: Request<WhoAmIRequest>,
    ) -> Result<Response<WhoAmIResponse>, Status> {
        authorize(&request)?;
        Ok(Response::new(WhoAmIResponse { account: Some(ada()) }))
    }

    async fn register(
        &self,
        _: Request<proto::v1::RegisterRequest>,
    ) -> Result<Response<proto::v1::RegisterResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn sign_out(
        &self,
        _: Request<proto::v1::SignOutRequest>,
    ) -> Result<Response<proto::v1::SignOutResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn list_accounts(
        &self,
        _: Request<proto::v1::ListAccountsRequest>,
    ) -> Result<Response<proto::v1::ListAccountsResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn get_account(
        &self,
        _: Request<proto::v1::GetAccountRequest>,
    ) -> Result<Response<proto::v1::GetAccountResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn credit_account(
        &self,
        _: Request<proto::v1::CreditAccountRequest>,
    ) -> Result<Response<proto::v1::CreditAccountResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn suspend_account(
        &self,
        _: Request<proto::v1::SuspendAccountRequest>,
    ) -> Result<Response<proto::v1::SuspendAccountResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn resume_account(
        &self,
        _: Request<proto::v1::ResumeAccountRequest>,
    ) -> Result<Response<proto::v1::ResumeAccountResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn set_plan(
        &self,
        _: Request<proto::v1::SetPlanRequest>,
    ) -> Result<Response<proto::v1::SetPlanResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn change_password(
        &self,
        _: Request<proto::v1::ChangePasswordRequest>,
    ) -> Result<Response<proto::v1::ChangePasswordResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn list_sessions(
        &self,
        _: Request<proto::v1::ListSessionsRequest>,
    ) -> Result<Response<proto::v1::ListSessionsResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn revoke_session(
        &self,
        _: Request<proto::v1::RevokeSessionRequest>,
    ) -> Result<Response<proto::v1::RevokeSessionResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn revoke_other_sessions(
        &self,
        _: Request<proto::v1::RevokeOtherSessionsRequest>,
    ) -> Result<Response<proto::v1::RevokeOtherSessionsResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn create_invite(
        &self,
        _: Request<proto::v1::CreateInviteRequest>,
    ) -> Result<Response<proto::v1::CreateInviteResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }
}

#[tonic::async_trait]
impl PlanService for Disk {
    async fn get_plan(
        &self,
        request: Request<GetPlanRequest>,
    ) -> Result<Response<GetPlanResponse>, Status> {
        authorize(&request)?;
        let limits = Limits { rpm: Some(60), concurrency: Some(4), ..Limits::default() };
        let name = request.into_inner().name;
        let plan = Plan { name, limits: Some(limits), ..Plan::default() };
        Ok(Response::new(GetPlanResponse { plan: Some(plan) }))
    }

    async fn list_plans(
        &self,
        _: Request<proto::v1::ListPlansRequest>,
    ) -> Result<Response<proto::v1::ListPlansResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn put_plan(
        &self,
        _: Request<proto::v1::PutPlanRequest>,
    ) -> Result<Response<proto::v1::PutPlanResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }
}
