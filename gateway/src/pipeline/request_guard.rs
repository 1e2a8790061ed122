//! What is noted of a request while it is served.
//!
//! A [`RequestGuard`] is opened for every request of a known key; `settle.rs` books it when it is closed or
//! dropped.

use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use jiff::Timestamp;

use super::AppState;
use super::admit::Admission;
use super::arrival::Arrival;
use super::authenticate::Principal;
use super::count;
use super::coverage::Counts;
use super::meter::{Meter, Produced};
use super::outcome::{Commitment, Presence};
use super::passthrough::ChatPassthrough;
use crate::ledger::journal::Open;
use crate::ledger::{DiskSync, Hold, UsageBound};
use crate::limits::Permit;
use crate::upstream::UpstreamClient;
use domain::endpoint::Endpoint;
use domain::id::{ModelId, RequestId};
use domain::idempotency::IdempotencyDigest;
use domain::limit::LimitStatus;
use domain::model::{Deployment, Model};
use domain::money::Nanos;
use domain::price::Price;
use domain::record::{RequestRecord, RequestStatus, ServedBy};
use domain::refusal::Refusal;
use domain::usage::{Usage, UsageBasis};
use domain::wire::usage::AnswerUsage;

/// As much of the name of a model that there is not stands on a record, in characters.
const MAX_NAME_BYTES: usize = 128;
/// How much more text an answer holds before the journal learns of it, in bytes: what a crash leaves
/// uncharged of a stream.
const JOURNALLED_STEP: u64 = 2 * 1024;

/// One request under way.
pub struct RequestGuard {
    /// What is seen of the answer.
    pub meter: Meter,
    pub(super) app: Arc<AppState>,
    pub(super) arrival: Arrival,
    /// Taken when the request is booked.
    pub(super) record: Option<Box<RequestRecord>>,
    pub(super) request_body: Bytes,
    pub(super) permit: Option<Permit>,
    standing: LimitStatus,
    pub(super) hold: Option<Hold>,
    pub(super) price: Price,
    /// An estimate of the tokens that its images, recordings and files are.
    media_tokens: u64,
    /// What the request may have used at most; `None` before it is admitted.
    pub(super) usage_bound: Option<UsageBound>,
    /// What was counted, if the answer could not do without it.
    pub(super) counted: Option<(Usage, UsageBasis)>,
    /// The counts that are under way.
    pub(super) counts: Counts,
    /// Text of the answer that the client does not get.
    pub(super) withheld: Produced,
    /// The text sent upstream and that of the answer so far, in bytes.
    input_bytes: u64,
    pub(super) output_bytes: u64,
    /// As much of `output_bytes` as the journal knows of.
    journalled_bytes: u64,
    /// Whether an upstream has begun to answer.
    pub(super) begun: bool,
    /// Who answers.
    pub(super) upstream_client: Option<Arc<UpstreamClient>>,
    commitment: Option<Commitment>,
    /// Whether the client is there, where the request goes on without it.
    presence: Option<Presence>,
}

impl RequestGuard {
    /// Opens the guard of a request.
    pub fn open(app: Arc<AppState>, arrival: Arrival, who: &Principal, endpoint: Endpoint) -> Self {
        let record = Box::new(RequestRecord {
            id: arrival.id,
            account: who.account.id,
            key: who.key.id.clone(),
            endpoint,
            model: None,
            deployment: None,
            stream: false,
            status: RequestStatus::Cancelled,
            http_status: None,
            error_code: None,
            usage: None,
            basis: UsageBasis::None,
            cost: Some(Nanos::ZERO),
            overrun: Nanos::ZERO,
            price_version: None,
            started_at: arrival.at,
            duration: Duration::ZERO,
            ttft: None,
            notes: Vec::new(),
            idempotency: None,
            count: NonZeroU32::MIN,
        });
        Self {
            meter: Meter::default(),
            app,
            arrival,
            record: Some(record),
            request_body: Bytes::new(),
            permit: None,
            standing: LimitStatus::default(),
            hold: None,
            price: Price::default(),
            media_tokens: 0,
            usage_bound: None,
            counted: None,
            counts: Counts::default(),
            withheld: Produced::default(),
            input_bytes: 0,
            output_bytes: 0,
            journalled_bytes: 0,
            begun: false,
            upstream_client: None,
            commitment: None,
            presence: None,
        }
    }

    /// The request's id.
    pub fn id(&self) -> RequestId {
        self.arrival.id
    }

    /// When it came in.
    pub fn arrived_at(&self) -> Timestamp {
        self.arrival.at
    }

    /// The request's id as a header carries it.
    pub fn id_header(&self) -> HeaderValue {
        self.arrival.id_header()
    }

    /// Notes what the client asked for.
    pub fn asked(&mut self, stream: bool, model: &str) {
        let end = model.char_indices().nth(MAX_NAME_BYTES).map_or(model.len(), |(end, _)| end);
        let record = self.record_mut();
        record.stream = stream;
        record.model = Some(ModelId::new(&model[..end]));
    }

    /// Notes how the limits of the request stand.
    pub fn set_limit_status(&mut self, standing: LimitStatus) {
        self.standing = standing;
    }

    /// How the limits of the request stood when it was admitted or refused.
    pub fn standing(&self) -> &LimitStatus {
        &self.standing
    }

    /// Notes that the request may go upstream.
    pub fn admitted(&mut self, admission: Admission, model: &Model) {
        self.permit = Some(admission.permit);
        self.hold = admission.hold;
        self.price = model.price;
        self.usage_bound = Some(admission.usage_bound);
        self.media_tokens = admission.media_tokens;
        let record = self.record_mut();
        record.model = Some(model.id.clone());
        record.price_version = Some(model.price.version);
    }

    /// The cap on each answer that the balance and the month's tokens allow, where the client's own is
    /// more; tokens.
    pub fn output_cap(&self) -> Option<u64> {
        let paid = self.hold.as_ref().and_then(|hold| hold.cap);
        let allowed = self.permit.as_ref().and_then(Permit::cap);
        paid.into_iter().chain(allowed).min()
    }

    /// Notes where the request goes next, as this chat request; the journal has it before it leaves.
    ///
    /// # Errors
    /// [`Refusal::RecorderBehind`]: it could not be written down, and must not go there.
    pub fn record_attempt(
        &mut self,
        target: &Deployment,
        chat_body: &Bytes,
    ) -> Result<(), Refusal> {
        self.request_body = chat_body.clone();
        self.input_bytes = count::text_bytes(chat_body);
        let record = self.record_mut();
        record.deployment = Some(ServedBy::from(target));
        let record = RequestRecord {
            status: RequestStatus::Interrupted,
            idempotency: None,
            ..RequestRecord::clone(record)
        };
        let open = Open {
            record,
            price: self.price,
            input_bytes: self.input_bytes,
            output_bytes: self.output_bytes,
        };
        self.app.ledger.begin(open).map_err(|_| Refusal::RecorderBehind)
    }

    /// Notes what the retries of the request are known by, once it is answered in whole.
    pub fn keyed(&mut self, digest: IdempotencyDigest) {
        self.record_mut().idempotency = Some(digest);
    }

    /// Notes what was lost or mended in translation.
    pub fn noted(&mut self, notes: impl IntoIterator<Item = String>) {
        self.record_mut().notes.extend(notes);
    }

    /// What the request used, as the upstream says, as far as that can be true; counted where it does
    /// not say. An answer must not end before it is known: its record is written first.
    pub fn poll_used(&mut self, context: &mut Context<'_>) -> Poll<AnswerUsage> {
        let believed = self.believed();
        if let Some(used) = believed.complete() {
            return Poll::Ready(used);
        }
        if let Some((counted, _)) = self.counted {
            return Poll::Ready(believed.or_counted(&counted));
        }
        let mut counting = self.count_rest();
        let Poll::Ready(counted) = Pin::new(&mut counting).poll(context) else {
            self.keep_count(counting);
            return Poll::Pending;
        };
        let (usage, basis) = if let Some(usage) = counted.ok().flatten() {
            (usage, UsageBasis::Counted)
        } else {
            tracing::error!(request_id = %self.arrival.id, "a request could not be counted");
            (self.bound(), UsageBasis::Bounded)
        };
        self.counted = Some((usage, basis));
        Poll::Ready(believed.or_counted(&usage))
    }

    /// What the request is known to have used so far, without a count.
    pub fn reported_usage(&self) -> Option<AnswerUsage> {
        self.believed().complete()
    }

    /// Notes that an upstream has begun to answer.
    pub fn begun(&mut self) {
        self.begun = true;
    }

    /// Notes whose answer it is.
    pub(super) fn answered_by(&mut self, upstream_client: Arc<UpstreamClient>) {
        self.upstream_client = Some(upstream_client);
    }

    /// Notes that the client was sent the head of a stream.
    pub fn committed(&mut self) {
        self.record_mut().http_status = Some(200);
        self.journal_progress();
    }

    /// Takes note of how much of the answer there is.
    pub fn streamed(&mut self) {
        self.output_bytes = self.meter.produced_bytes() as u64;
        if self.output_bytes >= self.journalled_bytes + JOURNALLED_STEP {
            self.journal_progress();
        }
    }

    /// Notes that the client does not get these events of its chat stream: it is not charged for their text.
    pub(super) fn withhold(&mut self, events: &[u8]) {
        let mut meter = Meter::default();
        // What the upstream sent is right up to here, and the rest of it is not looked at.
        _ = ChatPassthrough::new(String::new(), true).push(
            events,
            &mut meter,
            &mut BytesMut::new(),
        );
        self.withheld = meter.take_produced();
    }

    /// Whether the client does not get all text of the answer.
    pub(super) fn has_withheld(&self) -> bool {
        !self.withheld.is_empty()
    }

    /// Writes down what is known of a stream so far.
    fn journal_progress(&mut self) {
        let output_bytes = self.output_bytes;
        self.journalled_bytes = output_bytes;
        let http_status = self.http_status();
        let ttft = self.record_mut().ttft;
        self.app.ledger.update(self.arrival.id, |open| {
            open.record.http_status = http_status;
            open.record.ttft = ttft;
            open.output_bytes = output_bytes;
        });
    }

    /// The status that the client has got, as far as that is known.
    pub(super) fn http_status(&self) -> Option<u16> {
        let committed = self.commitment.as_ref().is_some_and(Commitment::is_set).then_some(200);
        self.record.as_ref().and_then(|record| record.http_status).or(committed)
    }

    /// Lets somebody else note that the client was sent the head of a stream.
    pub fn commitment(&mut self) -> Commitment {
        self.commitment.get_or_insert_default().clone()
    }

    /// Lets somebody else note that the client has gone while the request goes on.
    pub fn presence(&mut self) -> Presence {
        self.presence.get_or_insert_default().clone()
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.presence.as_ref().is_some_and(Presence::is_over)
    }

    /// Notes that the first piece of the answer is there.
    pub fn first_piece(&mut self) {
        if self.record_mut().ttft.is_none() {
            let elapsed = self.elapsed();
            self.record_mut().ttft = Some(elapsed);
        }
    }

    /// Runs `work` on behalf of the request after it has ended; a shutdown waits for it.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.app.tasks.spawn(work);
    }

    /// The wait that is due after the request is booked and before its client sees the end.
    pub fn syncing(&self) -> Option<DiskSync> {
        self.app.ledger.syncing()
    }

    /// What it is charged if nobody can count it.
    pub(super) fn bound(&self) -> Usage {
        Usage::bounded(self.input_bytes, self.output_bytes)
    }

    /// An estimate of the tokens that its images, recordings and files are.
    pub(super) fn media_tokens(&self) -> u64 {
        self.media_tokens
    }

    /// How much text was sent upstream, in bytes.
    pub(super) fn input_bytes(&self) -> u64 {
        self.input_bytes
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.app.clock.monotonic().saturating_sub(self.arrival.monotonic)
    }

    fn record_mut(&mut self) -> &mut RequestRecord {
        self.record.as_mut().expect("a guard is not used after it was booked")
    }
}
