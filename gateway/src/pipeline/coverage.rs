//! Ensures that the part of an answer that the client gets is paid for.
//!
//! The exception is the last event of a Responses stream that is ended here: the client gets it although it is
//! not covered, because the final events of the stream repeat all text.
//!
//! Text is counted as it arrives, on blocking threads, so that little of it is kept. One batch is counted at
//! a time; while the next one is full, the upstream is not read, so that an upstream that is faster than the
//! tokenizer does not fill the memory.
//!
//! While there is plenty of money, the hold grows with a bound on the tokens, which costs an addition and a
//! comparison per event. If the hold cannot grow, the exact count of the answer and the request decides. If
//! that does not suffice either, the stream waits for other requests to release what exceeds their own
//! counts. Waiting streams poll at intervals instead of being woken: releasing money then costs nothing, and
//! a stream waits only if there is hardly any money left.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep};
use tokio_util::task::AbortOnDropHandle;

use super::AppState;
use super::count::{
    BatchCount, CountedSoFar, Counting, Input, InputCount, InputTokens, UncountedText,
};
use super::meter::{MAX_ANSWER_BYTES, Meter};
use crate::ledger::{FundsWait, Hold};
use crate::limits::{Permit, QuotaWaitGuard};
use crate::upstream::UpstreamError;
use domain::usage::Tokens;

/// The text that is kept before it is counted, in bytes, if the upstream did not report usage in its last
/// answer. The rest at the end is hardly longer and takes about a millisecond.
const BATCH_BYTES: usize = 16 * 1024;
/// The same if the upstream did report usage: most answers are shorter and need not be counted at all.
const MAX_PENDING_BYTES: usize = 64 * 1024;
/// Words that may continue are kept behind a batch up to this length, in bytes, so that they can be counted
/// inline.
const MAX_REST_BYTES: usize = MAX_INLINE_BYTES;

/// Text up to this length is counted inline, in bytes: handing it to another thread costs more.
const MAX_INLINE_BYTES: usize = 2 * 1024;
/// The interval at which a request that waits for money polls.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// The number of polls before such a request is ended or refused: two seconds, or more if the process gets
/// too little CPU time for others to release anything.
pub(super) const MAX_RETRIES: u16 = 200;

/// The upstream's count of an input exceeds ours by at most one part in this many.
const INPUT_TOLERANCE: u64 = 32;

/// Returns the bound on an upstream's count of an input that we counted.
pub(super) const fn input_bound(counted: u64) -> u64 {
    counted.saturating_add(counted / INPUT_TOLERANCE).saturating_add(8)
}

/// Returns the cap on each choice that the balance and the monthly quota allow, if the client's own is higher;
/// tokens.
pub(super) fn output_cap(hold: Option<&Hold>, permit: Option<&Permit>) -> Option<u64> {
    let paid = hold.and_then(|hold| hold.cap);
    paid.into_iter().chain(permit.and_then(Permit::cap)).min()
}

/// A stream whose latest text is not covered and that waits for other requests.
struct CoverageWait {
    retries: u16,
    retry: Pin<Box<Sleep>>,
    _funds: Option<FundsWait>,
    _quota: Option<QuotaWaitGuard>,
}

/// The progress of counting a request's input.
#[derive(Default)]
enum InputProgress {
    #[default]
    NotStarted,
    Counting(InputCount),
    Counted(InputTokens),
    /// The tokenizer panicked.
    Failed,
}

/// The hold and the reservation of a request, and the count of its answer that they must cover.
pub(super) struct Coverage {
    app: Arc<AppState>,
    /// Observes the answer.
    pub(super) meter: Meter,
    /// `None` if the model is free.
    hold: Option<Hold>,
    /// `None` once it is settled.
    permit: Option<Permit>,
    /// The body of the request for the upstream.
    request_body: Bytes,
    /// An estimate of the tokens of the request's images, audio and files.
    media_tokens: u64,
    /// Text of the answer that the client does not get.
    withheld: UncountedText,
    batch: Option<BatchCount>,
    input: InputProgress,
    wait: Option<Box<CoverageWait>>,
    /// The count of a request whose answer has ended.
    last: Option<Counting>,
    /// Whether a batch of the answer, or the input, could not be counted.
    has_failed: bool,
}

impl Coverage {
    /// Creates the coverage of an admitted request.
    pub(super) fn new(
        app: Arc<AppState>,
        permit: Permit,
        hold: Option<Hold>,
        media_tokens: u64,
    ) -> Self {
        Self {
            app,
            meter: Meter::default(),
            hold,
            permit: Some(permit),
            request_body: Bytes::new(),
            media_tokens,
            withheld: UncountedText::default(),
            batch: None,
            input: InputProgress::default(),
            wait: None,
            last: None,
            has_failed: false,
        }
    }

    /// Sets the body of the request for the upstream.
    pub(super) fn set_request_body(&mut self, body: Bytes) {
        self.request_body = body;
    }

    /// Returns the body of the request for the upstream.
    pub(super) fn request_body(&self) -> &Bytes {
        &self.request_body
    }

    /// Returns an estimate of the tokens of the request's images, audio and files.
    pub(super) fn media_tokens(&self) -> u64 {
        self.media_tokens
    }

    /// Returns the cap on each choice that the balance and the monthly quota allow, if the client's own is
    /// higher; tokens.
    pub(super) fn output_cap(&self) -> Option<u64> {
        output_cap(self.hold.as_ref(), self.permit.as_ref())
    }

    /// Takes the hold and the reservation, to settle them.
    pub(super) fn take(&mut self) -> (Option<Permit>, Option<Hold>) {
        (self.permit.take(), self.hold.take())
    }

    /// Records text of the answer that the client does not get, so that it is not charged.
    pub(super) fn withhold(&mut self, text: UncountedText) {
        self.withheld = text;
    }

    /// Returns whether the client does not get the whole text of the answer.
    pub(super) fn has_withheld(&self) -> bool {
        !self.withheld.is_empty()
    }

    /// Checks that the answer is one that the request can have.
    ///
    /// # Errors
    /// The upstream sends a choice whose index is out of range, or more than [`MAX_ANSWER_BYTES`].
    pub(super) fn check_answer(&self) -> Result<(), UpstreamError> {
        self.meter.check_choices()?;
        if self.meter.received_bytes() > MAX_ANSWER_BYTES {
            let message = format!("its answer is longer than {MAX_ANSWER_BYTES} bytes");
            return Err(UpstreamError::Invalid(message));
        }
        Ok(())
    }

    /// Ready once there is room for more text: the pending text is being counted, or is short.
    /// `expects_usage` is whether the upstream reported usage in its last answer.
    pub(super) fn poll_room(&mut self, expects_usage: bool, context: &mut Context<'_>) -> Poll<()> {
        let limit = if expects_usage { MAX_PENDING_BYTES } else { BATCH_BYTES };
        while self.meter.pending_bytes() > limit {
            ready!(self.poll_batch(context));
            self.count_batch();
        }
        Poll::Ready(())
    }

    /// Returns whether `bytes` more of an answer can be passed on without checking the hold; all of them may
    /// be text.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        let bound = self.meter.output_bound();
        self.hold.as_ref().is_none_or(|hold| hold.has_room(bound, bytes as u64))
            && self.permit.as_ref().is_none_or(|permit| permit.has_room(bound, bytes as u64))
    }

    /// Returns whether the answer so far is paid for and reserved under its limits, and grows the hold if
    /// necessary.
    pub(super) fn ensure_covered(&mut self) -> bool {
        let (bound, estimate) = (self.meter.output_bound(), self.meter.output_estimate());
        let now = || self.app.clock.monotonic();
        let is_paid = self
            .hold
            .as_mut()
            .is_none_or(|hold| hold.is_within_client_cap(estimate) || hold.ensure_covered(bound));
        is_paid && self.permit.as_mut().is_none_or(|permit| permit.ensure_covered(estimate, now))
    }

    /// Ready with whether the answer so far is paid for and reserved, once it is or once it is known that it
    /// will not be.
    pub(super) fn poll_covered(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        if self.ensure_covered() {
            self.wait = None;
            return Poll::Ready(true);
        }
        if !self.meter.is_counted() {
            ready!(self.poll_counted(context));
            if self.ensure_covered() {
                self.wait = None;
                return Poll::Ready(true);
            }
        }
        ready!(self.poll_input(context));
        if self.ensure_covered() {
            self.wait = None;
            return Poll::Ready(true);
        }
        ready!(self.poll_release_by_others(context));
        // The last hold of other requests may just have been released.
        Poll::Ready(self.ensure_covered())
    }

    /// Releases what exceeds the count if other requests wait for it.
    pub(super) fn release_excess(&mut self, context: &mut Context<'_>) {
        let is_wanted = self.hold.as_ref().is_some_and(Hold::has_waiters)
            || self.permit.as_ref().is_some_and(Permit::has_waiters);
        if !is_wanted || self.poll_counted(context).is_pending() {
            return;
        }
        let tokens = self.meter.output_bound();
        if let Some(hold) = &mut self.hold {
            hold.shrink(tokens);
        }
        if let Some(permit) = &mut self.permit {
            permit.shrink(tokens);
        }
        _ = self.poll_input(context);
    }

    /// Ready once all text is counted.
    fn poll_counted(&mut self, context: &mut Context<'_>) -> Poll<()> {
        ready!(self.poll_batch(context));
        if self.meter.pending_bytes() > MAX_INLINE_BYTES {
            self.count_batch();
            ready!(self.poll_batch(context));
        }
        self.meter.count_here();
        Poll::Ready(())
    }

    /// Ready once the hold for the input is no larger than its count.
    fn poll_input(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.request_body.is_empty() {
            return Poll::Ready(());
        }
        if let InputProgress::NotStarted = self.input {
            let counting = self.app.counter.clone().count_input(self.request_body.clone().into());
            let counting = AbortOnDropHandle::new(self.app.tasks.spawn(counting));
            self.input = InputProgress::Counting(counting);
        }
        let InputProgress::Counting(counting) = &mut self.input else {
            return Poll::Ready(());
        };
        // The hold for an input that cannot be counted is kept.
        let Some(counted) = ready!(Pin::new(counting).poll(context)).ok().flatten() else {
            self.input = InputProgress::Failed;
            self.has_failed = true;
            return Poll::Ready(());
        };
        self.input = InputProgress::Counted(counted);
        let bound = input_bound(counted.0).saturating_add(self.media_tokens);
        if let Some(hold) = &mut self.hold {
            hold.bound_input(bound);
        }
        if let Some(permit) = &mut self.permit {
            permit.bound_input(bound);
        }
        Poll::Ready(())
    }

    /// Ready once waiting for other requests is pointless.
    fn poll_release_by_others(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_shared = self.hold.as_ref().is_some_and(Hold::is_shared)
            || self.permit.as_ref().is_some_and(Permit::is_shared);
        let wait = self.wait.get_or_insert_with(|| {
            Box::new(CoverageWait {
                retries: 0,
                retry: Box::pin(tokio::time::sleep(RETRY_INTERVAL)),
                _funds: self.hold.as_ref().and_then(Hold::register_waiter),
                _quota: self.permit.as_ref().map(Permit::register_waiter),
            })
        });
        while is_shared && wait.retries < MAX_RETRIES {
            ready!(wait.retry.as_mut().poll(context));
            wait.retries += 1;
            wait.retry.as_mut().reset(Instant::now() + RETRY_INTERVAL);
        }
        Poll::Ready(())
    }

    /// Ready once no batch is being counted.
    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(batch) = &mut self.batch else { return Poll::Ready(()) };
        let counted = ready!(Pin::new(batch).poll(context)).ok().flatten();
        self.has_failed |= counted.is_none();
        self.batch = None;
        self.meter.batch_counted(counted);
        Poll::Ready(())
    }

    fn count_batch(&mut self) {
        let batch = self.meter.take_batch(MAX_REST_BYTES);
        let counting = self.app.counter.clone().count_batch(batch);
        self.batch = Some(AbortOnDropHandle::new(self.app.tasks.spawn(counting)));
    }

    /// Counts what is not counted yet; yields `None` if that cannot be counted.
    pub(super) fn count_rest(&mut self) -> Counting {
        if let Some(last) = self.last.take() {
            return last;
        }
        let before = CountedSoFar {
            input: match self.input {
                InputProgress::Counted(input) => Input::Counted(input.0),
                _ => Input::Body(self.request_body.clone()),
            },
            counted: self.meter.counted(),
            batch: self.batch.take(),
        };
        let (rest, has_failed) = (self.meter.take_uncounted(), self.has_failed);
        let counting = self.app.counter.clone().count(before, rest);
        let withheld = self
            .has_withheld()
            .then(|| self.app.counter.clone().count_batch(self.withheld.clone()));
        let counting = async move {
            let mut usage = counting.await.filter(|_| !has_failed)?;
            let Some(withheld) = withheld else { return Some(usage) };
            let withheld = withheld.await?;
            usage.output.0 = usage.output.0.saturating_sub(withheld.output);
            let reasoning = |it: Tokens| Tokens(it.0.saturating_sub(withheld.reasoning));
            usage.reasoning = usage.reasoning.map(reasoning);
            Some(usage)
        };
        AbortOnDropHandle::new(self.app.tasks.spawn(counting))
    }

    /// Keeps a count for the next call of [`count_rest`](Self::count_rest).
    pub(super) fn keep_count(&mut self, counting: Counting) {
        self.last = Some(counting);
    }
}
