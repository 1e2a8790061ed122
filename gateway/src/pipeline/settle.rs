//! The end of a request: usage, cost, record, exactly once.
//!
//! A guard is booked when it is closed or dropped: a client that hangs up, a panic and a shutdown that
//! cannot wait end in the drop.

use super::believed::BelievedUsage;
use super::count::Counting;
use super::outcome::RequestOutcome;
use super::request_guard::RequestGuard;
use super::{AppState, Fault};
use crate::ledger::Hold;
use crate::limits::Permit;
use domain::id::ModelId;
use domain::price::Price;
use domain::record::{RequestRecord, RequestStatus};
use domain::usage::{Usage, UsageBasis};

/// A record that lacks its token counts and cost.
struct Uncounted {
    record: Box<RequestRecord>,
    price: Price,
    permit: Option<Permit>,
    hold: Option<Hold>,
    counting: Counting,
    /// What need not be counted.
    believed: BelievedUsage,
    /// What is charged if the count fails.
    bound: Usage,
}

impl RequestGuard {
    /// Books the request.
    pub fn close(mut self, end: RequestOutcome) {
        self.book(end);
    }

    /// Books the request as one that got no whole answer, and tells who was to give it.
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
            end = end.unseen();
        }
        let http_status = end.http_status.or_else(|| self.http_status());
        let believed = self.believed();
        let Some(mut record) = self.record.take() else { return };
        if let Some(upstream_client) = &self.upstream_client {
            if is_whole {
                upstream_client.set_reports_usage(believed.report.is_complete());
            }
            if let Some(complaint) = believed.complaint() {
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
        let is_owed = self.is_owed(&record);
        let counted_input = believed.counted_input().filter(|_| self.media_tokens() == 0);
        if let (Some(model), Some(input)) = (&record.model, counted_input) {
            self.app.ledger.learn(model, self.input_bytes(), input);
        }
        believed.note(&mut record);
        record.overrun = believed.loss(&self.price);
        let (price, permit, hold) = (self.price, self.permit.take(), self.hold.take());
        if !is_owed {
            deliver(&self.app, record, permit, hold);
        } else if let Some(used) = believed.complete() {
            charge(&mut record, &used.usage, UsageBasis::Upstream, &price);
            deliver(&self.app, record, permit, hold);
        } else if let Some((counted, basis)) = self.counted {
            charge(&mut record, &believed.or_counted(&counted).usage, basis, &price);
            deliver(&self.app, record, permit, hold);
        } else {
            let counting = self.count_rest();
            let (known, output_bytes) = (RequestRecord::clone(&record), self.output_bytes);
            self.app.ledger.update(record.id, |open| {
                open.record = known;
                open.output_bytes = output_bytes;
            });
            let bound = self.bound();
            let app = self.app.clone();
            let uncounted = Uncounted { record, price, permit, hold, counting, believed, bound };
            self.app.tasks.spawn(async move { uncounted.settle(&app).await });
        }
        if is_drained {
            flush(&self.app);
        }
    }

    /// Whether the request is charged: an upstream gave something, or was at work when the client left it
    /// alone. One that failed is charged only if there was something of an answer, whatever was reported.
    fn is_owed(&self, record: &RequestRecord) -> bool {
        match record.status {
            RequestStatus::Rejected => false,
            RequestStatus::Failed => self.meter.produced_bytes() > 0,
            RequestStatus::Cancelled | RequestStatus::Interrupted => record.deployment.is_some(),
            RequestStatus::Completed | RequestStatus::Incomplete => self.begun,
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

impl Uncounted {
    /// Waits for the count, and books the record with it.
    async fn settle(mut self, app: &AppState) {
        let (counted, basis) = if let Some(counted) = self.counting.await.ok().flatten() {
            (counted, UsageBasis::Counted)
        } else {
            tracing::error!(request_id = %self.record.id, "a request could not be counted");
            (self.bound, UsageBasis::Bounded)
        };
        charge(&mut self.record, &self.believed.or_counted(&counted).usage, basis, &self.price);
        deliver(app, self.record, self.permit, self.hold);
        flush(app);
    }
}

/// Puts on a record what was used, and what that costs.
fn charge(record: &mut RequestRecord, usage: &Usage, basis: UsageBasis, price: &Price) {
    record.usage = Some(*usage);
    record.basis = basis;
    record.cost = Some(price.cost(usage));
}

/// Hands a record that is complete to the ledger.
fn deliver(app: &AppState, record: Box<RequestRecord>, permit: Option<Permit>, hold: Option<Hold>) {
    if let (Some(permit), Some(usage)) = (permit, &record.usage) {
        permit.settle(usage.total().0, || app.clock.monotonic());
    }
    app.ledger.settle(record, hold);
}

/// Writes down an end that no message tells, before which that would be done. If it cannot be written, that
/// is logged, and tried again.
fn flush(app: &AppState) {
    _ = app.ledger.flush();
}
