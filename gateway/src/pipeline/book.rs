//! The last step of every request: its record with what it used and cost, to the ledger.

use tokio::task::JoinHandle;

use super::Gate;
use crate::domain::price::Price;
use crate::domain::record::RequestRecord;
use crate::domain::usage::{Usage, UsageBasis};
use crate::ledger::Cover;
use crate::limits::Permit;

/// A record that lacks its token counts and cost.
pub(super) struct Uncounted {
    pub(super) record: Box<RequestRecord>,
    pub(super) price: Price,
    pub(super) permit: Option<Permit>,
    pub(super) cover: Option<Cover>,
    pub(super) counting: JoinHandle<Option<Usage>>,
    /// What is charged if the count fails.
    pub(super) bound: Usage,
}

impl Uncounted {
    /// Waits for the count, and books the record with it.
    pub(super) async fn settle(mut self, gate: &Gate) {
        if let Some(usage) = self.counting.await.ok().flatten() {
            charge(&mut self.record, &usage, UsageBasis::Counted, &self.price);
        } else {
            tracing::error!(request_id = %self.record.id, "a request could not be counted");
            charge(&mut self.record, &self.bound, UsageBasis::Bounded, &self.price);
        }
        deliver(gate, *self.record, self.permit, self.cover);
    }
}

/// Puts on a record what was used, and what that costs.
pub(super) fn charge(record: &mut RequestRecord, usage: &Usage, basis: UsageBasis, price: &Price) {
    record.usage = Some(*usage);
    record.basis = basis;
    record.cost = Some(price.cost(usage));
}

/// Hands a record that is complete to the ledger.
pub(super) fn deliver(
    gate: &Gate,
    record: RequestRecord,
    permit: Option<Permit>,
    cover: Option<Cover>,
) {
    if let (Some(permit), Some(usage)) = (permit, &record.usage) {
        permit.settle(usage.total().0, || gate.clock.monotonic());
    }
    gate.ledger.settle(record, cover);
}
