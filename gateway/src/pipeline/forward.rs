//! Sends a request upstream, and to the next deployment if one fails before its answer begins.

mod attempt;
mod hedge;

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};

use self::attempt::{Attempt, NextAttempt, Sender, UpstreamAnswer};
use self::hedge::HedgedEnd;
use super::admit::AdmittedRequest;
use super::forwarded_request::{ForwardedRequest, failed_attempt_note};
use super::propagation::AttemptContext;
use super::{AppState, Fault, rate_limit_headers};
use crate::route::{self, AttemptOrder};
use crate::upstream::{AnswerBody, SendStatus, TriedCredentials, UpstreamClient, UpstreamError};
use domain::model::{Deployment, Model};
use domain::record::ServedBy;
use domain::refusal::Refusal;
use domain::upstream::Upstream;
use domain::wire::conversation::ConversationKey;
use domain::wire::splice::{self, Edit};
use translate::report::{self, Loss, LossReport};

/// Bodies below this length are copied before they are sent, with their edits applied, in bytes; see
/// [`Outgoing::compact`].
const MAX_COMPACTED_BYTES: usize = 4 * 1024;

/// The request for one deployment: a body and the edits to it.
pub struct Outgoing {
    /// The body.
    pub body: Bytes,
    /// The edits, in order and not overlapping.
    pub edits: Vec<Edit>,
}

impl Outgoing {
    /// Applies the edits to a small body at once. A small body of a client must be copied anyway, or it would
    /// keep the connection's whole read buffer alive for as long as the answer takes; and it is then sent in
    /// one piece.
    fn compact(self) -> Self {
        let is_our_own = self.edits.is_empty() && self.body.is_unique();
        if is_our_own || self.body.len() >= MAX_COMPACTED_BYTES {
            return self;
        }
        Self { body: splice::join(&self.body, &self.edits), edits: Vec::new() }
    }
}

/// An answer that has begun.
pub struct BegunAnswer {
    /// The request.
    pub request: Box<ForwardedRequest>,
    /// The headers that the client gets.
    pub headers: HeaderMap,
    /// The body to read.
    pub body: AnswerBody,
    /// The client of the upstream that answers.
    pub upstream_client: Arc<UpstreamClient>,
}

/// A request that no upstream answered.
pub struct ForwardError {
    /// The reason.
    pub fault: Fault,
    /// The request.
    pub request: Box<ForwardedRequest>,
}

/// The deployments of a model in the order in which to try them.
pub struct Route<'a> {
    targets: Vec<&'a Deployment>,
    /// The wait for an answer after which the next deployment gets the request, too; `None` to wait for one alone.
    hedge_after: Option<Duration>,
}

/// The deployments that are left to try, and what builds the request for each.
struct Targets<'a, A, O> {
    app: &'a AppState,
    order: AttemptOrder<'a, A>,
    outgoing: O,
}

/// A deployment, and the request for it.
struct Prepared<'a> {
    target: &'a Deployment,
    upstream: Arc<Upstream>,
    outgoing: Outgoing,
}

/// A request that is being forwarded.
struct Forwarding<'a> {
    sender: &'a Sender<'a>,
    request: &'a mut ForwardedRequest,
    /// The note about the last attempt if it failed and no other one has begun.
    failed: Option<String>,
    /// See [`Route`]; `None` once another attempt has begun beside a slow one.
    hedge_after: Option<Duration>,
}

/// Returns the route for `model`. `conversation` is called only if the model's routing depends on it.
pub fn route<'a>(
    app: &AppState,
    model: &'a Model,
    conversation: impl FnOnce() -> Option<ConversationKey>,
) -> Route<'a> {
    let load = |target: &Deployment| {
        let catalogue = app.directory.catalogue();
        let upstream = catalogue.upstreams.get(&target.upstream);
        let load = |upstream| app.upstream_clients.load(upstream, app.clock.monotonic());
        upstream.map(load).unwrap_or_default()
    };
    let targets = route::order(model, load, conversation, app.entropy.as_ref());
    let hedge_after = model.hedge_after.filter(|_| targets.len() > 1);
    Route { targets, hedge_after }
}

/// Tries the deployments of `route` in order until one answers. `outgoing` builds the request for each, or returns why
/// it cannot serve it.
///
/// # Errors
/// The error of the last target that was tried; it is the first one whose error does not justify a failover,
/// if there is one. If none was tried, the reason why the last target cannot be used. [`Refusal::RequestCancelled`] if the
/// request is a stream and is cancelled, [`Refusal::ShuttingDown`] if a shutdown ends it.
pub async fn forward(
    app: &AppState,
    route: &Route<'_>,
    stream: bool,
    admitted: AdmittedRequest,
    outgoing: impl FnMut(&Upstream, &Deployment) -> Result<Outgoing, Refusal>,
) -> Result<BegunAnswer, ForwardError> {
    let lowered_cap = admitted.output_cap();
    let mut request = ForwardedRequest::new(admitted);
    // The first attempt is still prepared in the poll that is offloaded.
    request.open.end_offload();
    let (account, id_header) = (request.open.account(), request.open.id_header());
    let (id, capture) = (request.id(), request.open.capture().cloned());
    let sender = Sender { app, stream, account, id_header, capture };
    let is_available = |target: &Deployment| {
        let catalogue = app.directory.catalogue();
        let upstream = catalogue.upstreams.get(&target.upstream);
        upstream.is_none_or(|it| app.upstream_clients.permits(it, app.clock.monotonic()))
    };
    let order = AttemptOrder::new(&route.targets, is_available);
    let mut forwarding = Forwarding {
        sender: &sender,
        request: &mut request,
        failed: None,
        hedge_after: route.hedge_after,
    };
    let tried = {
        let mut trying = pin!(forwarding.try_targets(Targets { app, order, outgoing }));
        poll_fn(|context| {
            // Returns the request instead of being dropped, so that the last event of a Responses stream can report the
            // usage that is charged.
            if stream && app.cancellations.is_cancelled(id) {
                return Poll::Ready(Err(Refusal::RequestCancelled.into()));
            }
            let tried = trying.as_mut().poll(context);
            if stream && tried.is_pending() && app.cut_off.is_cancelled() {
                return Poll::Ready(Err(Refusal::ShuttingDown.into()));
            }
            tried
        })
        .await
    };
    let answer = match tried {
        Ok(answer) => answer,
        Err(fault) => return Err(ForwardError { fault, request }),
    };
    let UpstreamAnswer { mut headers, body, upstream_client, in_flight } = answer;
    request.answered_by(upstream_client.clone(), in_flight);
    rate_limit_headers::insert(&mut headers, request.limit_status());
    let mut begun = BegunAnswer { request, headers, body, upstream_client };
    if let Some(cap) = lowered_cap {
        let mut report = LossReport::default();
        report.add(Loss::OutputCapLowered, cap.to_string());
        begun.report(&report);
    }
    Ok(begun)
}

// === impl Targets ===

impl<'a, A, O> Targets<'a, A, O>
where
    A: Fn(&Deployment) -> bool,
    O: FnMut(&Upstream, &Deployment) -> Result<Outgoing, Refusal>,
{
    /// Builds the request for a deployment.
    ///
    /// # Errors
    /// The deployment cannot serve the request.
    fn prepare(&mut self, target: &'a Deployment) -> Result<Prepared<'a>, Fault> {
        let found = self.app.directory.catalogue().upstreams.get(&target.upstream).cloned();
        let upstream = found.ok_or_else(|| Fault::from(misconfigured("it was removed")))?;
        let outgoing = (self.outgoing)(&upstream, target)?.compact();
        Ok(Prepared { target, upstream, outgoing })
    }

    /// Returns an attempt to make beside a slow one, at the next deployment that is available and can serve the request.
    fn hedge(&mut self) -> Option<(NextAttempt<'a>, Outgoing)> {
        let app = self.app;
        loop {
            let target = self.order.next_available()?;
            let Ok(Prepared { upstream, outgoing, .. }) = self.prepare(target) else { continue };
            let Ok(upstream_client) = upstream_client(app, &upstream) else { continue };
            let credential = upstream_client.choose_credential(app.clock.monotonic());
            return Some((NextAttempt { target, upstream_client, credential }, outgoing));
        }
    }
}

// === impl Forwarding ===

impl Forwarding<'_> {
    async fn try_targets<A, O>(
        &mut self,
        mut targets: Targets<'_, A, O>,
    ) -> Result<UpstreamAnswer, Fault>
    where
        A: Fn(&Deployment) -> bool,
        O: FnMut(&Upstream, &Deployment) -> Result<Outgoing, Refusal>,
    {
        let mut fault = misconfigured("the model has no deployment").into();
        let mut tried = false;
        while let Some(target) = targets.order.next() {
            let prepared = match targets.prepare(target) {
                Ok(prepared) => prepared,
                Err(unusable) => {
                    // The error of a tried target says more than that of one that cannot be used.
                    if !tried {
                        fault = unusable;
                    }
                    continue;
                }
            };
            tried = true;
            match self.try_target(&prepared, &mut targets).await {
                Ok(answer) => return Ok(answer),
                Err(Fault::Upstream(error)) if error.is_retryable() => fault = error.into(),
                Err(last) => return Err(last),
            }
        }
        Err(fault)
    }

    /// Tries one target, and again with other credentials of its upstream if one is refused. If it is slow, the next of
    /// the other `targets` is tried beside it.
    ///
    /// # Errors
    /// The error of the upstream, or a refusal if the request was not sent.
    async fn try_target<'t, A, O>(
        &mut self,
        prepared: &Prepared<'t>,
        targets: &mut Targets<'t, A, O>,
    ) -> Result<UpstreamAnswer, Fault>
    where
        A: Fn(&Deployment) -> bool,
        O: FnMut(&Upstream, &Deployment) -> Result<Outgoing, Refusal>,
    {
        let app = self.sender.app;
        let Prepared { target, upstream, outgoing } = prepared;
        let upstream_client = match upstream_client(app, upstream) {
            Ok(upstream_client) => upstream_client,
            Err(error) => {
                let context = self.record_begin(target, None, outgoing).await?;
                self.record_failure(target, None, &error, Duration::ZERO);
                self.end_traced_attempt(context.as_deref(), None, error.label());
                return Err(error.into());
            }
        };
        let mut credential = upstream_client.choose_credential(app.clock.monotonic());
        let mut tried = TriedCredentials::default();
        loop {
            let next = NextAttempt { target, upstream_client: upstream_client.clone(), credential };
            let attempt = self.begin_attempt(next, outgoing).await?;
            let (attempt, answer) = match self.hedge_after {
                None => {
                    let answer = attempt.run(self.sender, outgoing).await;
                    (attempt, answer)
                }
                Some(after) => {
                    upstream_client.hedge_budget().earn();
                    let hedge = || {
                        if !upstream_client.hedge_budget().take() {
                            return None;
                        }
                        let hedge = targets.hedge();
                        if hedge.is_none() {
                            upstream_client.hedge_budget().give_back();
                        }
                        hedge
                    };
                    // Boxed because it is rare: the future of every request would have to hold it.
                    match Box::pin(self.run_hedged(attempt, outgoing, after, hedge)).await {
                        HedgedEnd::Decided(attempt, answer) => (attempt, *answer),
                        HedgedEnd::BothFailed(both) => {
                            return Box::pin(self.retry_both(*both, tried, outgoing)).await;
                        }
                    }
                }
            };
            self.end_attempt(&attempt, &answer);
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if !std::ptr::eq(attempt.target, *target) {
                // The second attempt decided: the first had failed with an error that justifies a failover, or was
                // cancelled.
                return Err(error.into());
            }
            tried.insert(credential);
            match upstream_client.choose_next_credential(tried, &error, app.clock.monotonic()) {
                Some(next) => credential = next,
                None => return Err(error.into()),
            }
        }
    }

    /// Records that an attempt begins, and returns it. It can be run once the journal is synced.
    async fn begin_attempt<'t>(
        &mut self,
        next: NextAttempt<'t>,
        outgoing: &Outgoing,
    ) -> Result<Attempt<'t>, Refusal> {
        let number = next.upstream_client.credential_number(next.credential);
        let context = self.record_begin(next.target, number, outgoing).await?;
        Ok(Attempt::new(self.sender.app, next, self.request.send_status.clone(), context))
    }

    /// Records an attempt that is about to begin, and the one that failed before it. The rest of the record describes the
    /// last attempt. Returns the trace context that the attempt sends to its upstream.
    async fn record_begin(
        &mut self,
        target: &Deployment,
        credential: Option<u32>,
        outgoing: &Outgoing,
    ) -> Result<Option<Box<AttemptContext>>, Refusal> {
        self.request.open.add_notes(self.failed.take());
        self.request.record_attempt(target, credential, &outgoing.body)?;
        let context = self.request.open.begin_traced_attempt();
        self.sender.app.ledger.sync_journal().await.map_err(|_| Refusal::RecorderBehind)?;
        Ok(context)
    }

    /// Records how an attempt has ended that decides about the request or about its next attempt.
    fn end_attempt(
        &mut self,
        attempt: &Attempt<'_>,
        answer: &Result<UpstreamAnswer, UpstreamError>,
    ) {
        self.request.note_lost_attempts();
        match answer {
            Ok(_) => {
                if let Some(traced) = self.request.open.traced_attempt(attempt.context()) {
                    traced.queued_for = attempt.send_status.queued_for();
                }
            }
            Err(error) => self.fail_attempt(attempt, error),
        }
    }

    /// Records that an attempt failed.
    fn fail_attempt(&mut self, attempt: &Attempt<'_>, error: &UpstreamError) {
        let took = attempt.elapsed(self.sender.app);
        self.record_failure(attempt.target, attempt.credential_number(), error, took);
        self.end_traced_attempt(attempt.context(), Some(&attempt.send_status), error.label());
    }

    /// Records in the trace that an attempt ends without an answer for the client, for the reason `label`.
    fn end_traced_attempt(
        &mut self,
        context: Option<&AttemptContext>,
        send_status: Option<&SendStatus>,
        label: Cow<'static, str>,
    ) {
        let now = self.sender.app.clock.monotonic();
        if let Some(traced) = self.request.open.traced_attempt(context) {
            traced.ended_at = Some(now);
            traced.queued_for = send_status.and_then(SendStatus::queued_for);
            traced.error = Some(label);
        }
    }

    /// Logs an attempt that failed, and keeps the note about it.
    fn record_failure(
        &mut self,
        target: &Deployment,
        credential: Option<u32>,
        error: &UpstreamError,
        took: Duration,
    ) {
        let (request_id, upstream) = (self.request.id(), &target.upstream);
        let source = std::error::Error::source(error);
        tracing::warn!(event = "attempt_failed", %request_id, %upstream, credential, %error, source, "a request got no answer from an upstream");
        let target = ServedBy::from(target);
        self.failed = Some(failed_attempt_note(&target, credential, &error.label(), took));
    }
}

impl BegunAnswer {
    /// Reports losses in translation to the client in a header, and on the record.
    pub(super) fn report(&mut self, report: &LossReport) {
        self.request.open.add_notes(report.notes().iter().map(ToString::to_string));
        report_in(&mut self.headers, report);
    }
}

/// Adds the header that lists losses in translation.
pub(super) fn report_in(headers: &mut HeaderMap, report: &LossReport) {
    if let Some(value) = report.header().and_then(|text| HeaderValue::try_from(text).ok()) {
        headers.append(report::HEADER, value);
    }
}

/// Returns the client for an upstream, with its credentials.
fn upstream_client(
    app: &AppState,
    upstream: &Arc<Upstream>,
) -> Result<Arc<UpstreamClient>, UpstreamError> {
    app.upstream_clients.upstream_client(upstream, || app.credentials.resolved(upstream))
}

fn misconfigured(what: &str) -> UpstreamError {
    UpstreamError::Misconfigured(what.to_owned())
}
