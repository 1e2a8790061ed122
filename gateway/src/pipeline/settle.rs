//! The end of a request: usage, cost, record, exactly once.
//!
//! A tally is booked when it is closed or dropped: a client that hangs up, a panic and a shutdown that
//! cannot wait end in the drop.

use super::believed::BelievedUsage;
use super::count::Counting;
use super::end::End;
use super::tally::Tally;
use super::{Fault, Gate};
use crate::ledger::Cover;
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
    cover: Option<Cover>,
    counting: Counting,
    /// What need not be counted.
    believed: BelievedUsage,
    /// What is charged if the count fails.
    bound: Usage,
}

impl Tally {
    /// Books the request.
    pub fn close(mut self, end: End) {
        self.book(end);
    }

    /// Books the request as one that got no whole answer, and tells who was to give it.
    pub fn fail(self, fault: &Fault, end: End) {
        if let (Some(remote), Fault::Upstream(error)) = (&self.remote, fault)
            && error.is_its_fault()
        {
            remote.broke(error, self.gate.clock.now(), self.gate.clock.monotonic());
        }
        self.close(end);
    }

    fn book(&mut self, mut end: End) {
        let is_whole = matches!(end.status, RequestStatus::Completed | RequestStatus::Incomplete);
        let is_drained = self.is_abandoned() && end.status != RequestStatus::Cancelled;
        if is_drained {
            end = end.unseen();
        }
        let http_status = end.http_status.or_else(|| self.http_status());
        let believed = self.believed();
        let Some(mut record) = self.record.take() else { return };
        if let Some(remote) = &self.remote {
            if is_whole {
                remote.learn_whether_it_reports(believed.report.is_complete());
            }
            if let Some(complaint) = believed.complaint() {
                let (at, now) = (self.gate.clock.now(), self.gate.clock.monotonic());
                tracing::warn!(request_id = %record.id, deployment = ?record.deployment, %complaint, "an upstream's usage cannot be true");
                remote.miscounted(complaint, at, now);
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
            self.gate.ledger.learn(model, self.input_bytes(), input);
        }
        believed.note(&mut record);
        record.overrun = believed.loss(&self.price);
        let (price, permit, cover) = (self.price, self.permit.take(), self.cover.take());
        if !is_owed {
            deliver(&self.gate, record, permit, cover);
        } else if let Some(used) = believed.complete() {
            charge(&mut record, &used.usage, UsageBasis::Upstream, &price);
            deliver(&self.gate, record, permit, cover);
        } else if let Some((counted, basis)) = self.counted {
            charge(&mut record, &believed.or_counted(&counted).usage, basis, &price);
            deliver(&self.gate, record, permit, cover);
        } else {
            let counting = self.count_rest();
            let (known, output_bytes) = (RequestRecord::clone(&record), self.output_bytes);
            self.gate.ledger.update(record.id, |open| {
                open.record = known;
                open.output_bytes = output_bytes;
            });
            let bound = self.bound();
            let gate = self.gate.clone();
            let uncounted = Uncounted { record, price, permit, cover, counting, believed, bound };
            self.gate.tasks.spawn(async move { uncounted.settle(&gate).await });
        }
        if is_drained {
            write_down(&self.gate);
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

impl Drop for Tally {
    fn drop(&mut self) {
        if self.record.is_none() {
            return;
        }
        let end = if std::thread::panicking() {
            End {
                status: RequestStatus::Failed,
                http_status: Some(500),
                error_code: Some("internal_error".to_owned()),
            }
        } else {
            let cut_off = self.gate.cut_off.is_cancelled() && !self.is_abandoned();
            let status =
                if cut_off { RequestStatus::Interrupted } else { RequestStatus::Cancelled };
            End { status, http_status: None, error_code: None }
        };
        self.book(end);
        write_down(&self.gate);
    }
}

impl Uncounted {
    /// Waits for the count, and books the record with it.
    async fn settle(mut self, gate: &Gate) {
        let (counted, basis) = if let Some(counted) = self.counting.await.ok().flatten() {
            (counted, UsageBasis::Counted)
        } else {
            tracing::error!(request_id = %self.record.id, "a request could not be counted");
            (self.bound, UsageBasis::Bounded)
        };
        charge(&mut self.record, &self.believed.or_counted(&counted).usage, basis, &self.price);
        deliver(gate, self.record, self.permit, self.cover);
        write_down(gate);
    }
}

/// Puts on a record what was used, and what that costs.
fn charge(record: &mut RequestRecord, usage: &Usage, basis: UsageBasis, price: &Price) {
    record.usage = Some(*usage);
    record.basis = basis;
    record.cost = Some(price.cost(usage));
}

/// Hands a record that is complete to the ledger.
fn deliver(gate: &Gate, record: Box<RequestRecord>, permit: Option<Permit>, cover: Option<Cover>) {
    if let (Some(permit), Some(usage)) = (permit, &record.usage) {
        permit.settle(usage.total().0, || gate.clock.monotonic());
    }
    gate.ledger.settle(record, cover);
}

/// Writes down an end that no message tells, before which that would be done. If it cannot be written, that
/// is logged, and tried again.
fn write_down(gate: &Gate) {
    _ = gate.ledger.write_down();
}
