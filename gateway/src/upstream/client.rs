//! The HTTP client of one upstream.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::http::uri::Scheme;
use hyper::{Method, Request, Response, Uri};
use jiff::Timestamp;
use tokio::time::Instant;

use super::answer_body::AnswerBody;
use super::answer_head::{check_encoding, check_status, refusal};
use super::connect::{Protocol, SimulatorDialer, TcpConnector};
use super::credential::{Credential, REQUEST_ID};
use super::credential_states::TriedCredentials;
use super::environment_proxies::EnvironmentProxies;
use super::error::UpstreamError;
use super::hedge_budget::HedgeBudget;
use super::outbound::{Outbound, SendStatus};
use super::pool::Pool;
use super::slots::Slots;
use super::stats::{InFlight, UpstreamStats};
use super::stats_table::StatsTable;
use super::target::{Target, host};
use crate::journal_barrier::{FlushJournal, JournalBarrier};
use crate::secrets::UpstreamSecrets;
use domain::health::CheckState;
use domain::id::{AccountId, UpstreamName};
use domain::upstream::{CredentialIndex, Profile, Upstream};
use domain::wire::splice::Payload;

/// The versions of HTTP that are offered to an upstream with TLS, the preferred one first.
const PROTOCOLS: [Protocol; 2] = [Protocol::Http2, Protocol::Http1];

/// A pooled client for one upstream, with its credentials.
pub struct UpstreamClient {
    upstream: Arc<Upstream>,
    chat_completions: Target,
    pub(super) models: Target,
    /// In the order of the catalogue entry; one without a secret if the upstream requires none. `None` if it could
    /// not be resolved; [`CredentialStates`](super::credential_states::CredentialStates) never chooses it.
    credentials: Vec<Option<Credential>>,
    pool: Pool,
    flush_journal: FlushJournal,
    stats: Arc<UpstreamStats>,
}

impl UpstreamClient {
    pub(super) fn new(
        upstream: Arc<Upstream>,
        secrets: &UpstreamSecrets,
        simulator: &SimulatorDialer,
        proxies: Option<&EnvironmentProxies>,
        journal_barrier: &JournalBarrier,
        stats: Arc<UpstreamStats>,
        slots: Option<Arc<Slots>>,
    ) -> Result<Self, UpstreamError> {
        let is_simulator = upstream.url.starts_with("sim:");
        let base = if is_simulator { "http://simulator.invalid/v1" } else { &upstream.url };
        let below = |path: &str| {
            let address = format!("{}{path}", base.trim_end_matches('/')).parse::<Uri>();
            address.map_err(|error| UpstreamError::Misconfigured(format!("its URL: {error}")))
        };
        let (chat_completions, models) = (below("/chat/completions")?, below("/models")?);
        let credentials = Credential::all(&secrets.credentials, &host(&chat_completions)?, &stats)?;
        let connect_timeout = upstream.deadlines.connect();
        let pool = |connector| {
            let pool_stats = stats.pool().clone();
            Pool::new(connector, connect_timeout, journal_barrier.clone(), slots, pool_stats)
        };
        let proxy = || {
            let proxy = super::proxy(&upstream, secrets, proxies, &chat_completions);
            proxy.map_err(UpstreamError::Misconfigured)
        };
        let pool = if is_simulator {
            pool(Box::new(simulator.clone()))
        } else if chat_completions.scheme() == Some(&Scheme::HTTPS) {
            let trust = super::trust(&upstream).map_err(UpstreamError::Misconfigured)?;
            let identity = super::identity(&upstream, secrets);
            let identity = identity.map_err(UpstreamError::Misconfigured)?;
            let connector = TcpConnector::tls(
                &chat_completions,
                proxy()?,
                &trust,
                identity.as_ref(),
                &PROTOCOLS,
            );
            pool(Box::new(connector.map_err(UpstreamError::Misconfigured)?))
        } else {
            let connector = TcpConnector::plain(&chat_completions, proxy()?);
            pool(Box::new(connector.map_err(UpstreamError::Misconfigured)?))
        };
        Ok(Self {
            upstream,
            chat_completions: Target::new(Method::POST, chat_completions),
            models: Target::new(Method::GET, models),
            credentials,
            pool,
            flush_journal: journal_barrier.flush_journal(),
            stats,
        })
    }

    /// Returns whether this client was made from exactly this catalogue entry and has its statistics in `table`.
    /// A request with an outdated entry may have replaced them for a moment.
    pub(super) fn is_client_of(&self, upstream: &Arc<Upstream>, table: &StatsTable) -> bool {
        self.is_of(upstream)
            && table.read(upstream, |stats| Arc::ptr_eq(stats, &self.stats)) == Some(true)
    }

    /// Returns whether this client was made from exactly this catalogue entry.
    pub(super) fn is_of(&self, upstream: &Arc<Upstream>) -> bool {
        Arc::ptr_eq(&self.upstream, upstream)
    }

    /// Returns the credentials that could be resolved, with their secrets.
    pub(super) fn credentials(&self) -> impl Iterator<Item = &Credential> {
        self.credentials.iter().flatten()
    }

    /// Returns the numbers of the credentials that could be resolved; one if the upstream requires none.
    pub fn usable_credentials(&self) -> impl Iterator<Item = CredentialIndex> {
        let credentials = (0..).map(CredentialIndex).zip(&self.credentials);
        credentials.filter_map(|(index, credential)| credential.as_ref().map(|_| index))
    }

    /// Returns the name of the upstream.
    pub fn name(&self) -> &UpstreamName {
        &self.upstream.name
    }

    /// Returns the profile of the upstream.
    pub fn profile(&self) -> Profile {
        self.upstream.profile
    }

    /// The longest wait for the head of an answer.
    pub(super) fn first_byte_deadline(&self) -> Duration {
        self.upstream.deadlines.first_byte()
    }

    /// The longest wait between two reads of an answer.
    pub fn idle_deadline(&self) -> Duration {
        self.upstream.deadlines.idle()
    }

    /// Returns whether the last complete answer reported its usage.
    pub fn reports_usage(&self) -> bool {
        self.stats.reports_usage()
    }

    /// Records whether a complete answer reported its usage.
    pub fn set_reports_usage(&self, reports_usage: bool) {
        self.stats.set_reports_usage(reports_usage);
    }

    /// Counts a request that is in flight until the guard is dropped.
    pub fn begin_request(&self) -> InFlight {
        self.stats.begin()
    }

    /// Returns the credential for a request at `now`, the monotonic time.
    pub fn choose_credential(&self, now: Duration) -> CredentialIndex {
        self.stats.credentials().choose(now)
    }

    /// Returns the credential with which a request is repeated after `error`, if another one than those that were
    /// `tried` may help; `now` is the monotonic time.
    pub fn choose_next_credential(
        &self,
        tried: TriedCredentials,
        error: &UpstreamError,
        now: Duration,
    ) -> Option<CredentialIndex> {
        self.stats.credentials().choose_next(tried, error, now)
    }

    /// Returns the number of a credential; `None` if the upstream has no other one.
    pub fn credential_number(&self, index: CredentialIndex) -> Option<u32> {
        (self.credentials.len() > 1).then(|| index.number())
    }

    /// Records that the head of an answer to `request`, with `credential`, arrived after `latency`; `now` is the
    /// monotonic time.
    pub fn record_answer(
        &self,
        request: &InFlight,
        credential: CredentialIndex,
        latency: Duration,
        now: Duration,
    ) {
        self.stats.credentials().record_accepted(credential);
        if self.stats.record_answer(request.generation(), latency, now) {
            let upstream = &self.upstream.name;
            tracing::info!(event = "upstream_recovered", %upstream, "an upstream answers again");
        }
    }

    /// Records that a request was cancelled after `latency`, because another upstream has answered it; `now` is the
    /// monotonic time.
    pub fn record_cancelled(&self, latency: Duration, now: Duration) {
        self.stats.record_cancelled(latency, now);
    }

    /// Returns the bound on the requests that are also sent to another upstream because this one is slow.
    pub fn hedge_budget(&self) -> &HedgeBudget {
        self.stats.hedge_budget()
    }

    /// Records a failure of `request`, with `credential`, before its answer began; `now` is the monotonic time.
    pub fn record_failure(
        &self,
        request: &InFlight,
        credential: CredentialIndex,
        error: &UpstreamError,
        at: Timestamp,
        now: Duration,
    ) {
        let generation = request.generation();
        if !self.stats.record_credential_failure(generation, credential, error, now) {
            self.opened(self.stats.record_failure(generation, error, at, now));
            return;
        }
        let (upstream, number) = (&self.upstream.name, credential.number());
        let text = format!("credential {number}: {}", error.for_operators());
        tracing::warn!(event = "credential_refused", %upstream, credential = number, %error, "a credential is refused; others are used");
        self.stats.set_last_error(text, at);
    }

    /// Records whether the upstream answered a background probe with `credential`; `now` is the monotonic time.
    pub(super) fn record_probe(
        &self,
        credential: CredentialIndex,
        result: Result<(), UpstreamError>,
        now: Duration,
    ) {
        let (upstream, result) = (&self.upstream.name, result.map_err(|error| self.redact(error)));
        let is_refused_credential =
            |error: &UpstreamError| self.stats.credentials().pause_after(credential, error, now);
        // The trial uses another credential.
        let result =
            result.or_else(|error| if is_refused_credential(&error) { Ok(()) } else { Err(error) });
        let pause = self.stats.record_probe(result.is_ok(), now);
        if let (Some(pause), Err(error)) = (pause, result) {
            let pause_s = pause.as_secs();
            tracing::debug!(%upstream, pause_s, error = error.for_operators(), "a probe failed");
        }
    }

    /// Records the result of a health check with `credential` at the time `at`; `now` is the monotonic time. Returns
    /// whether it failed, but not the one before it.
    pub(super) fn record_check(
        &self,
        credential: CredentialIndex,
        result: Result<(), UpstreamError>,
        at: Timestamp,
        now: Duration,
    ) -> bool {
        let result = result.map_err(|error| self.redact(error));
        match &result {
            // The gateway's own bound says nothing about the upstream.
            Err(UpstreamError::Overloaded) => return false,
            // The next check uses another credential.
            Err(error) if self.stats.credentials().pause_after(credential, error, now) => {
                return false;
            }
            Ok(()) | Err(_) => {}
        }
        let (upstream, state) = (&self.upstream.name, self.stats.record_check(result.is_ok()));
        if let Err(error) = result {
            let text = format!("health check: {}", error.for_operators());
            if state == Some(CheckState::Failing) {
                tracing::warn!(event = "upstream_check_failing", %upstream, error = text, "an upstream fails its health check; requests go elsewhere where they can");
            }
            self.stats.set_last_error(text, at);
        } else if state == Some(CheckState::Passing) {
            tracing::info!(event = "upstream_check_passing", %upstream, "an upstream passes its health check");
        }
        self.stats.has_check_just_failed()
    }

    /// Returns the target of a GET request for `path` at the origin of the upstream's URL.
    pub(super) fn target_at_origin(&self, path: &str) -> Result<Target, UpstreamError> {
        self.models.at_path(path)
    }

    /// Records that the upstream broke off the answer to `request`; `now` is the monotonic time.
    pub fn record_broken_answer(
        &self,
        request: &InFlight,
        error: &UpstreamError,
        at: Timestamp,
        now: Duration,
    ) {
        self.opened(self.stats.record_broken_answer(request.generation(), error, at, now));
    }

    /// Records an answer with implausible usage; `now` is the monotonic time.
    pub fn record_implausible_usage(&self, complaint: String, at: Timestamp, now: Duration) {
        self.stats.record_implausible_usage(complaint, at, now);
    }

    fn opened(&self, pause: Option<Duration>) {
        if let Some(pause) = pause {
            let (upstream, pause_s) = (&self.upstream.name, pause.as_secs());
            tracing::warn!(event = "upstream_failing", %upstream, pause_s, "an upstream fails; requests go elsewhere where they can");
        }
    }

    /// Sends a chat request of `account` with a credential and waits for the head of a successful answer. `body_and_id` is evaluated
    /// again if a connection closes before it accepts the request, and may add headers. `send_status` reports whether the request
    /// has left.
    ///
    /// # Cancel safety
    /// Dropping the future, or the returned body, cancels the request on its connection.
    ///
    /// # Errors
    /// Anything but a head with status 200 in time is an error.
    pub fn send(
        &self,
        account: Option<AccountId>,
        credential: CredentialIndex,
        body_and_id: impl Fn(&mut HeaderMap) -> (Payload, HeaderValue),
        send_status: &SendStatus,
    ) -> impl Future<Output = Result<Response<AnswerBody>, UpstreamError>> {
        let (target, first_byte) = (&self.chat_completions, self.first_byte_deadline());
        let sent = self.request(target, account, credential, body_and_id, send_status, first_byte);
        sent.map(|sent| sent.and_then(check_status))
    }

    /// Sends any request like [`send`](Self::send), and waits for a head with status 2xx up to `first_byte` once it has a
    /// connection slot.
    pub(super) async fn request(
        &self,
        target: &Target,
        account: Option<AccountId>,
        credential: CredentialIndex,
        body_and_id: impl Fn(&mut HeaderMap) -> (Payload, HeaderValue),
        send_status: &SendStatus,
        first_byte: Duration,
    ) -> Result<Response<AnswerBody>, UpstreamError> {
        let Some(Some(credential)) = self.credentials.get(usize::from(credential.0)) else {
            return Err(UpstreamError::Misconfigured("a credential is not available".to_owned()));
        };
        let request = |protocol| {
            let mut headers = credential.headers.clone();
            let (body, request_id) = body_and_id(&mut headers);
            let body = Outbound::new(body, self.flush_journal.clone(), send_status.clone());
            let mut request = Request::new(body);
            *request.method_mut() = target.method.clone();
            *request.uri_mut() = target.uri(protocol).clone();
            if protocol == Protocol::Http2 {
                headers.remove(HOST);
            }
            *request.headers_mut() = headers;
            request.headers_mut().insert(REQUEST_ID, request_id);
            request
        };
        // The deadline of the upstream begins once it may get the request.
        let slot = self.pool.slot(account, send_status).await?;
        let now = Instant::now();
        let deadline = self.upstream.deadlines.total.map(|total| now + total);
        let sent = self.pool.send(&request, send_status, now + first_byte).await;
        let response = sent
            .map_err(|error| match error {
                // HTTP/2 does not report why a body was not sent.
                UpstreamError::Unreachable(error) if send_status.is_kept_back() => {
                    UpstreamError::JournalUnavailable(error)
                }
                error => error,
            })?
            .map(|body| body.with_slot(slot).with_deadline(deadline));
        if response.status().is_success() {
            check_encoding(response.headers())?;
            return Ok(response);
        }
        // Boxed because it is rare: the future of every request would have to hold it.
        Err(Box::pin(refusal(response, self.idle_deadline())).await)
    }
}

#[cfg(test)]
mod tests;
