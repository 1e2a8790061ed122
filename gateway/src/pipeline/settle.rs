//! Settlement: the usage, cost and record of a request, exactly once.
//!
//! A guard is settled when it is closed or dropped. A client disconnect, a panic, and a shutdown that stops
//! waiting drop it.

use super::count::Counting;
use super::outcome::RequestOutcome;
use super::plausible_usage::PlausibleUsage;
use super::request_guard::RequestGuard;
use super::{AppState, Fault};
use crate::ledger::Hold;
use crate::limits::Permit;
use domain::id::ModelId;
use domain::price::Price;
use domain::record::{RequestRecord, RequestStatus};
use domain::usage::{Usage, UsageBasis};

/// A record without token counts and cost.
struct UncountedRequest {
    record: Box<RequestRecord>,
    price: Price,
    permit: Option<Permit>,
    hold: Option<Hold>,
    counting: Counting,
    /// The part of the usage that need not be counted.
    plausible_usage: PlausibleUsage,
    /// The usage that is charged if the count fails.
    bound: Usage,
}

impl RequestGuard {
    /// Settles the request.
    pub fn close(mut self, end: RequestOutcome) {
        self.book(end);
    }

    /// Settles a request without a complete answer, and reports the fault to the upstream's statistics.
    pub fn fail(self, fault: &Fault, end: RequestOutcome) {
        if let (Some(upstream_client), Fault::Upstream(error)) = (&self.upstream_client, fault)
            && error.is_upstream_fault()
        {
            upstream_client.record_broken_answer(
                error,
                self.app.clock.now(),
                self.app.clock.monotonic(),
            );
        }
        self.close(end);
    }

    fn book(&mut self, mut end: RequestOutcome) {
        let is_whole = matches!(end.status, RequestStatus::Completed | RequestStatus::Incomplete);
        let is_drained = self.is_abandoned() && end.status != RequestStatus::Cancelled;
        if is_drained {
            end = end.after_disconnect();
        }
        let http_status = end.http_status.or_else(|| self.http_status());
        let plausible_usage = self.plausible_usage();
        let Some(mut record) = self.record.take() else { return };
        if let Some(upstream_client) = &self.upstream_client {
            if is_whole {
                upstream_client.set_reports_usage(plausible_usage.report.is_complete());
            }
            if let Some(complaint) = plausible_usage.complaint() {
                let (at, now) = (self.app.clock.now(), self.app.clock.monotonic());
                tracing::warn!(request_id = %record.id, deployment = ?record.deployment, %complaint, "an upstream's usage cannot be true");
                upstream_client.record_implausible_usage(complaint, at, now);
            }
        }
        record.duration = self.elapsed();
        record.idempotency = record.idempotency.filter(|_| is_whole);
        if record.deployment.is_some() && (is_drained || end.status == RequestStatus::Cancelled) {
            let done = if is_drained { "drained" } else { "cancelled" };
            record.notes.push(format!("client_gone:{done}"));
        }
        record.status = end.status;
        record.http_status = http_status;
        record.error_code = end.error_code;
        tracing::debug!(
            request_id = %record.id,
            model = record.model.as_ref().map(ModelId::as_str),
            status = ?record.status,
            http_status = record.http_status,
            error_code = record.error_code,
            duration_us = record.duration.as_micros(),
            "request ended"
        );
        let is_charged = self.is_charged(&record);
        let counted_input = plausible_usage.counted_input().filter(|_| self.media_tokens() == 0);
        if let (Some(model), Some(input)) = (&record.model, counted_input) {
            self.app.ledger.learn(model, self.input_bytes(), input);
        }
        plausible_usage.note(&mut record);
        record.overrun = plausible_usage.loss(&self.price);
        let (price, permit, hold) = (self.price, self.permit.take(), self.hold.take());
        if !is_charged {
            pass_to_ledger(&self.app, record, permit, hold);
        } else if let Some(used) = plausible_usage.complete() {
            charge(&mut record, &used.usage, UsageBasis::Upstream, &price);
            pass_to_ledger(&self.app, record, permit, hold);
        } else if let Some((counted, basis)) = self.counted {
            charge(&mut record, &plausible_usage.or_counted(&counted).usage, basis, &price);
            pass_to_ledger(&self.app, record, permit, hold);
        } else {
            let counting = self.count_rest();
            let (known, output_bytes) = (RequestRecord::clone(&record), self.output_bytes);
            self.app.ledger.update(record.id, |open| {
                open.record = known;
                open.output_bytes = output_bytes;
            });
            let bound = self.bound();
            let app = self.app.clone();
            let uncounted =
                UncountedRequest { record, price, permit, hold, counting, plausible_usage, bound };
            self.app.tasks.spawn(async move { uncounted.settle(&app).await });
        }
        if is_drained {
            flush(&self.app);
        }
    }

    /// Returns whether the request is charged: an upstream answered, or was working when the client
    /// disconnected. A failed request is charged only if there was some answer, whatever was reported.
    fn is_charged(&self, record: &RequestRecord) -> bool {
        match record.status {
            RequestStatus::Rejected => false,
            RequestStatus::Failed => self.meter.produced_bytes() > 0,
            RequestStatus::Cancelled | RequestStatus::Interrupted => record.deployment.is_some(),
            RequestStatus::Completed | RequestStatus::Incomplete => self.answer_begun,
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if self.record.is_none() {
            return;
        }
        let end = if std::thread::panicking() {
            RequestOutcome {
                status: RequestStatus::Failed,
                http_status: Some(500),
                error_code: Some("internal_error".to_owned()),
            }
        } else {
            let cut_off = self.app.cut_off.is_cancelled() && !self.is_abandoned();
            let status =
                if cut_off { RequestStatus::Interrupted } else { RequestStatus::Cancelled };
            RequestOutcome { status, http_status: None, error_code: None }
        };
        self.book(end);
        flush(&self.app);
    }
}

impl UncountedRequest {
    /// Waits for the count and settles the record with it.
    async fn settle(mut self, app: &AppState) {
        let (counted, basis) = if let Some(counted) = self.counting.await.ok().flatten() {
            (counted, UsageBasis::Counted)
        } else {
            tracing::error!(request_id = %self.record.id, "a request could not be counted");
            (self.bound, UsageBasis::Bounded)
        };
        charge(
            &mut self.record,
            &self.plausible_usage.or_counted(&counted).usage,
            basis,
            &self.price,
        );
        pass_to_ledger(app, self.record, self.permit, self.hold);
        flush(app);
    }
}

/// Sets the usage of a record and its cost.
fn charge(record: &mut RequestRecord, usage: &Usage, basis: UsageBasis, price: &Price) {
    record.usage = Some(*usage);
    record.basis = basis;
    record.cost = Some(price.cost(usage));
}

/// Passes a complete record to the ledger.
fn pass_to_ledger(
    app: &AppState,
    record: Box<RequestRecord>,
    permit: Option<Permit>,
    hold: Option<Hold>,
) {
    if let (Some(permit), Some(usage)) = (permit, &record.usage) {
        permit.settle(usage.total().0, || app.clock.monotonic());
    }
    app.ledger.settle(record, hold);
}

/// Flushes the journal after an end without a message, before which it would be flushed. A failure is logged
/// and retried.
fn flush(app: &AppState) {
    _ = app.ledger.flush();
}
