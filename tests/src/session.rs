//! A client of the admin plane.

use proto::client::Connection;
use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::audit_service_client::AuditServiceClient;
use proto::v1::catalogue_service_client::CatalogueServiceClient;
use proto::v1::diagnostics_service_client::DiagnosticsServiceClient;
use proto::v1::key_service_client::KeyServiceClient;
use proto::v1::ledger_service_client::LedgerServiceClient;
use proto::v1::maintenance_service_client::MaintenanceServiceClient;
use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::node_service_client::NodeServiceClient;
use proto::v1::people_service_client::PeopleServiceClient;
use proto::v1::plan_service_client::PlanServiceClient;
use proto::v1::traffic_service_client::TrafficServiceClient;
use proto::v1::upstream_service_client::UpstreamServiceClient;
use proto::v1::usage_service_client::UsageServiceClient;
use proto::v1::{self, RequestRecord};

use crate::product::{password_of, priced_model};
use crate::tls::Certificate;
use crate::with_timeout;

/// Returns how many requests the records represent. A record without a count, from an older
/// gateway, represents one.
pub fn requests_of<'a>(records: impl IntoIterator<Item = &'a RequestRecord>) -> usize {
    records.into_iter().map(|record| record.count.max(1) as usize).sum()
}

/// A client of the admin plane, signed in or not. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Session {
    /// The account's name.
    pub name: String,
    /// The session token; empty if not signed in.
    pub token: String,
    /// The connection, which sends the token with every call.
    pub connection: Connection,
}

/// A key as returned by its creation.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Its public id.
    pub id: String,
    /// Its full text.
    pub secret: String,
}

impl Session {
    /// Connects without a session.
    ///
    /// # Panics
    /// If the gateway cannot be reached.
    pub async fn anonymous(admin: &str) -> Self {
        let connection = proto::client::connect(admin, None).await.unwrap();
        Self { name: String::new(), token: String::new(), connection }
    }

    /// Connects with an existing session token.
    ///
    /// # Panics
    /// If the gateway cannot be reached.
    pub async fn with_token(admin: &str, name: &str, token: &str) -> Self {
        let connection = proto::client::connect(admin, Some(&token.into())).await.unwrap();
        Self { name: name.to_owned(), token: token.to_owned(), connection }
    }

    /// Registers an account and signs it in.
    ///
    /// # Panics
    /// If the gateway refuses.
    pub async fn register(admin: &str, name: &str, password: &str) -> Self {
        let request = v1::RegisterRequest {
            name: name.to_owned(),
            password: password.to_owned(),
            invite_code: String::new(),
        };
        Self::anonymous(admin).await.accounts().register(request).await.unwrap();
        Self::sign_in(admin, name).await
    }

    /// Signs in an account that the harness registered.
    ///
    /// # Panics
    /// If the gateway refuses.
    pub async fn sign_in(admin: &str, name: &str) -> Self {
        let request = v1::SignInRequest { name: name.to_owned(), password: password_of(name) };
        let anonymous = Self::anonymous(admin).await;
        let token = anonymous.accounts().sign_in(request).await.unwrap().into_inner().token;
        Self::with_token(admin, name, &token).await
    }

    /// Calls `AccountService`.
    pub fn accounts(&self) -> AccountServiceClient<Connection> {
        AccountServiceClient::new(self.connection.clone())
    }

    /// Calls `AuditService`.
    pub fn audit(&self) -> AuditServiceClient<Connection> {
        AuditServiceClient::new(self.connection.clone())
    }

    /// Calls `KeyService`.
    pub fn keys(&self) -> KeyServiceClient<Connection> {
        KeyServiceClient::new(self.connection.clone())
    }

    /// Calls `NodeService`.
    pub fn nodes(&self) -> NodeServiceClient<Connection> {
        NodeServiceClient::new(self.connection.clone())
    }

    /// Calls `PeopleService`.
    pub fn people(&self) -> PeopleServiceClient<Connection> {
        PeopleServiceClient::new(self.connection.clone())
    }

    /// Calls `PlanService`.
    pub fn plans(&self) -> PlanServiceClient<Connection> {
        PlanServiceClient::new(self.connection.clone())
    }

    /// Calls `ModelService`.
    pub fn models(&self) -> ModelServiceClient<Connection> {
        ModelServiceClient::new(self.connection.clone())
    }

    /// Calls `CatalogueService`.
    pub fn catalogue(&self) -> CatalogueServiceClient<Connection> {
        CatalogueServiceClient::new(self.connection.clone())
    }

    /// Calls `UpstreamService`.
    pub fn upstreams(&self) -> UpstreamServiceClient<Connection> {
        UpstreamServiceClient::new(self.connection.clone())
    }

    /// Calls `UsageService`.
    pub fn usage(&self) -> UsageServiceClient<Connection> {
        UsageServiceClient::new(self.connection.clone())
    }

    /// Calls `LedgerService`.
    pub fn ledger(&self) -> LedgerServiceClient<Connection> {
        LedgerServiceClient::new(self.connection.clone())
    }

    /// Calls `MaintenanceService`.
    pub fn maintenance(&self) -> MaintenanceServiceClient<Connection> {
        MaintenanceServiceClient::new(self.connection.clone())
    }

    /// Calls `TrafficService`.
    pub fn traffic(&self) -> TrafficServiceClient<Connection> {
        TrafficServiceClient::new(self.connection.clone())
    }

    /// Calls `DiagnosticsService`.
    pub fn diagnostics(&self) -> DiagnosticsServiceClient<Connection> {
        DiagnosticsServiceClient::new(self.connection.clone())
    }

    /// Adds a person to the account, who sets a password and signs in at `admin`.
    ///
    /// # Panics
    /// If the gateway refuses.
    pub async fn person(&self, admin: &str, name: &str, role: v1::PersonRole) -> Self {
        let (account, name, role) = (String::new(), name.to_owned(), role.into());
        let request = v1::AddPersonRequest { account, name: name.clone(), role };
        let added = self.people().add_person(request).await.unwrap().into_inner();
        let new_password = password_of(&name);
        let request =
            v1::ResetPasswordRequest { name: name.clone(), code: added.code, new_password };
        Self::anonymous(admin).await.accounts().reset_password(request).await.unwrap();
        Self::sign_in(admin, &name).await
    }

    /// Creates a key with all rights of the account.
    pub async fn key(&self) -> NewKey {
        self.key_with(|_| {}).await
    }

    /// Creates a key.
    ///
    /// # Panics
    /// If the gateway refuses.
    pub async fn key_with(&self, change: impl FnOnce(&mut v1::CreateKeyRequest)) -> NewKey {
        let mut request = v1::CreateKeyRequest { label: "test".to_owned(), ..Default::default() };
        change(&mut request);
        let made = self.keys().create_key(request).await.unwrap().into_inner();
        NewKey { id: made.key.unwrap().id, secret: made.secret }
    }

    /// Returns the account.
    ///
    /// # Panics
    /// If the gateway refuses.
    pub async fn account(&self) -> v1::Account {
        let answer = self.accounts().who_am_i(v1::WhoAmIRequest {}).await.unwrap();
        answer.into_inner().account.unwrap()
    }

    /// Waits for records of `count` requests visible to the session, and returns all records,
    /// oldest first.
    ///
    /// # Panics
    /// If they do not arrive in time.
    pub async fn records(&self, count: usize) -> Vec<RequestRecord> {
        let request = v1::TailRequestsRequest { history: 1_000, ..Default::default() };
        let mut tail = self.usage().tail_requests(request).await.unwrap().into_inner();
        let mut records = Vec::new();
        let gather = async {
            loop {
                let update = tail.message().await.unwrap().unwrap();
                records.extend(update.requests);
                // the history is complete once the tail is live; later records are new requests
                if update.live && requests_of(&records) >= count {
                    return;
                }
            }
        };
        with_timeout("a record", gather).await;
        records
    }

    /// Waits for the only record and returns it.
    ///
    /// # Panics
    /// If there are more.
    pub async fn record(&self) -> RequestRecord {
        let mut records = self.records(1).await;
        assert_eq!(records.len(), 1, "{records:#?}");
        records.remove(0)
    }

    /// Sets the limits of the plan of new accounts.
    ///
    /// # Panics
    /// If the gateway refuses.
    pub async fn limit_plan(&self, limits: v1::Limits) {
        let mut plans = self.plans();
        let named = v1::GetPlanRequest { name: "free".to_owned() };
        let plan = plans.get_plan(named).await.unwrap().into_inner().plan.unwrap();
        let plan = v1::Plan { limits: Some(limits), ..plan };
        plans.put_plan(v1::PutPlanRequest { plan: Some(plan) }).await.unwrap();
    }

    /// Adds an upstream. One with TLS and without `ca_certificates` is trusted with the certificate of the process.
    ///
    /// # Panics
    /// If the gateway refuses.
    pub async fn add_upstream(&self, mut upstream: v1::Upstream) -> v1::Upstream {
        if upstream.url.starts_with("https:") && upstream.ca_certificates.is_empty() {
            upstream.ca_certificates.clone_from(&Certificate::of_process().pem);
        }
        let request = v1::AddUpstreamRequest { upstream: Some(upstream) };
        let answer = self.upstreams().add_upstream(request).await.unwrap();
        answer.into_inner().upstream.unwrap()
    }

    /// Adds a model.
    ///
    /// # Panics
    /// If the gateway refuses.
    pub async fn add_model(&self, model: v1::Model) {
        self.models().add_model(v1::AddModelRequest { model: Some(model) }).await.unwrap();
    }

    /// Adds an upstream for each URL, and a model with a deployment on each, in order of falling
    /// priority.
    pub async fn add_model_on(&self, id: &str, urls: &[&str]) {
        let names: Vec<_> = (0..urls.len()).map(|index| format!("up-{id}-{index}")).collect();
        for (name, url) in names.iter().zip(urls) {
            let (name, url) = (name.clone(), (*url).to_owned());
            self.add_upstream(v1::Upstream { name, url, ..Default::default() }).await;
        }
        let deployments: Vec<_> =
            names.iter().map(|name| (name.as_str(), "upstream-model")).collect();
        self.add_model(priced_model(id, &deployments)).await;
    }

    /// Credits an account, or debits it if the amount is negative.
    ///
    /// # Panics
    /// If the gateway refuses.
    pub async fn credit(&self, account: &str, amount_usd: &str) {
        let request = v1::CreditAccountRequest {
            account: account.to_owned(),
            amount_usd: amount_usd.to_owned(),
            reason: "a test".to_owned(),
        };
        self.accounts().credit_account(request).await.unwrap();
    }
}
