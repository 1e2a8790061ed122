//! Settlement: the usage, cost and record of a request, exactly once.
//!
//! A request is settled when it is closed or dropped. A client disconnect, a panic, and a shutdown that stops
//! waiting drop it. If its usage must still be counted then, a background task completes the record
//! ([`UncountedRequest`]); a shutdown waits for it. If the process ends before that, the journal entry is
//! settled at the next start.

use super::count::Counting;
use super::forwarded_request::ForwardedRequest;
use super::open_request::EndedRecord;
use super::outcome::RequestOutcome;
use super::plausible_usage::PlausibleUsage;
use super::{AppState, Fault};
use crate::ledger::Hold;
use crate::limits::Permit;
use domain::price::Price;
use domain::record::{RequestRecord, RequestStatus};
use domain::usage::{Usage, UsageBasis};

/// A record without token counts and cost, completed by a background task.
struct UncountedRequest {
    record: Box<RequestRecord>,
    price: Price,
    permit: Option<Permit>,
    hold: Option<Hold>,
    counting: Counting,
    /// The part of the usage that need not be counted.
    plausible_usage: PlausibleUsage,
    /// The usage that is charged if the count fails.
    max_usage: Usage,
}

impl ForwardedRequest {
    /// Settles the request.
    pub(super) fn close(mut self: Box<Self>, outcome: RequestOutcome) {
        self.settle(outcome);
    }

    /// Settles a request without a complete answer, and reports the fault to the upstream's statistics.
    pub fn fail(self: Box<Self>, fault: &Fault, outcome: RequestOutcome) {
        if let Some((upstream_client, request)) =
            self.upstream_client.as_ref().zip(self.in_flight.as_ref())
            && let Fault::Upstream(error) = fault
            && error.is_upstream_fault()
        {
            let clock = &self.open.app.clock;
            upstream_client.record_broken_answer(request, error, clock.now(), clock.monotonic());
        }
        self.close(outcome);
    }

    fn settle(&mut self, outcome: RequestOutcome) {
        self.note_lost_attempts();
        let Some(EndedRecord { mut record, is_whole, is_drained }) = self.open.take_record(outcome)
        else {
            return;
        };
        let app = self.open.app.clone();
        let plausible_usage = self.plausible_usage();
        if let Some(upstream_client) = &self.upstream_client {
            let shown = plausible_usage.shows_reporting().filter(|_| is_whole);
            if let Some(reports_usage) = shown {
                upstream_client.set_reports_usage(reports_usage);
            }
            if let Some(complaint) = plausible_usage.complaint() {
                let (at, now) = (app.clock.now(), app.clock.monotonic());
                tracing::warn!(event = "usage_implausible", request_id = %record.id, deployment = ?record.deployment, %complaint, "an upstream's usage cannot be true");
                upstream_client.record_implausible_usage(complaint, at, now);
            }
        }
        let is_charged = self.stop_and_check_charge(record.status);
        let has_media = self.coverage.media_tokens() > 0;
        let reported_input = plausible_usage.reported_input().filter(|_| !has_media);
        if let (Some(model), Some(input)) = (&record.model, reported_input) {
            app.ledger.calibrate(model, self.input_bytes, input);
        }
        plausible_usage.note(&mut record);
        record.overrun = plausible_usage.loss(&self.price);
        let (permit, hold) = self.coverage.take();
        let price = self.price;
        if !is_charged {
            pass_to_ledger(&app, record, permit, hold);
        } else if let Some(used) = plausible_usage.complete() {
            set_usage(&mut record, &used.usage, UsageBasis::Upstream, &price);
            pass_to_ledger(&app, record, permit, hold);
        } else if let Some((counted, basis)) = self.counted {
            set_usage(&mut record, &plausible_usage.or_counted(&counted).usage, basis, &price);
            pass_to_ledger(&app, record, permit, hold);
        } else {
            let counting = self.coverage.count_rest();
            let (known, output_bytes) = (RequestRecord::clone(&record), self.output_bytes());
            app.ledger.update(record.id, |open| {
                open.record = known;
                open.output_bytes = output_bytes;
            });
            let max_usage = self.max_usage();
            let uncounted = UncountedRequest {
                record,
                price,
                permit,
                hold,
                counting,
                plausible_usage,
                max_usage,
            };
            let counted_by = app.clone();
            app.tasks.spawn(async move { uncounted.settle(&counted_by).await });
        }
        if is_drained {
            app.flush();
        }
    }

    /// Returns whether the request is charged: an upstream answered, or was possibly working on it when the
    /// client disconnected or the gateway ended the request. A failed request, streamed or plain, is charged if
    /// the upstream produced text, even if the client got an error instead; whether it reported usage does not
    /// matter. A cancelled or interrupted request is not sent after this call, and not charged if it was not
    /// sent before.
    pub(super) fn stop_and_check_charge(&self, status: RequestStatus) -> bool {
        match status {
            RequestStatus::Rejected => false,
            RequestStatus::Failed => self.output_bytes() > 0,
            RequestStatus::Cancelled | RequestStatus::Interrupted => self.stop_sending(),
            RequestStatus::Completed | RequestStatus::Incomplete => self.answer_begun,
        }
    }
}

impl Drop for ForwardedRequest {
    fn drop(&mut self) {
        if let Some(outcome) = self.open.outcome_on_drop() {
            self.settle(outcome);
            self.open.app.flush();
        }
    }
}

impl UncountedRequest {
    /// Waits for the count and settles the record with it.
    async fn settle(mut self, app: &AppState) {
        let (counted, basis) = if let Some(counted) = self.counting.await.ok().flatten() {
            (counted, UsageBasis::Counted)
        } else {
            tracing::error!(request_id = %self.record.id, "a request could not be counted");
            (self.max_usage, UsageBasis::Bounded)
        };
        set_usage(
            &mut self.record,
            &self.plausible_usage.or_counted(&counted).usage,
            basis,
            &self.price,
        );
        pass_to_ledger(app, self.record, self.permit, self.hold);
        app.flush();
    }
}

/// Sets the usage of a record and its cost.
fn set_usage(record: &mut RequestRecord, usage: &Usage, basis: UsageBasis, price: &Price) {
    record.usage = Some(*usage);
    record.basis = basis;
    record.cost = Some(price.cost(usage));
}

/// Passes a complete record to the ledger.
fn pass_to_ledger(
    app: &AppState,
    mut record: Box<RequestRecord>,
    permit: Option<Permit>,
    hold: Option<Hold>,
) {
    if let (Some(permit), Some(usage)) = (permit, &record.usage) {
        permit.settle(usage.total().0, || app.clock.monotonic());
    }
    app.set_settled(&mut record);
    app.ledger.settle(record, hold);
}
