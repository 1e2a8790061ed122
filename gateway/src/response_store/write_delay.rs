//! The time for which something that another gateway may be writing is looked up again.
//!
//! A response is written behind its answer, usually within milliseconds. A client that continues it at another
//! gateway can be faster.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::sleep;

use super::ResponseStoreError;
use domain::id::RequestId;

/// The pauses between lookups, 1.26 seconds in all.
const PAUSES: [Duration; 6] = [
    Duration::from_millis(20),
    Duration::from_millis(40),
    Duration::from_millis(80),
    Duration::from_millis(160),
    Duration::from_millis(320),
    Duration::from_millis(640),
];
/// The age of a request after which its response is either stored or missing. The age is measured from the arrival of
/// the request, which its id contains, and an answer can take minutes.
const MAX_AGE: SignedDuration = SignedDuration::from_mins(10);

/// The pauses that are left before something counts as missing.
#[derive(Debug)]
pub struct WriteDelay {
    pauses: std::slice::Iter<'static, Duration>,
}

impl WriteDelay {
    /// Returns the delay of something that no other gateway writes.
    pub(super) fn over() -> Self {
        Self { pauses: [].iter() }
    }

    /// Returns the delay of something that another gateway may be writing.
    pub(super) fn whole() -> Self {
        Self { pauses: PAUSES.iter() }
    }

    /// Returns the delay of response `id`, which is over unless the request is young.
    pub(super) fn of_response(id: RequestId, now: Timestamp) -> Self {
        // The clocks of gateways differ.
        let age = id.arrived_at().map(|at| now.duration_since(at).abs());
        if age.is_some_and(|age| age < MAX_AGE) { Self::whole() } else { Self::over() }
    }

    /// Waits for the next lookup. Returns `false`, without waiting, if the delay is over.
    pub async fn wait(&mut self) -> bool {
        let Some(pause) = self.pauses.next() else { return false };
        sleep(*pause).await;
        true
    }

    /// Calls `look` until it finds something or the delay is over.
    pub(super) async fn repeat<T, F>(
        mut self,
        look: impl Fn() -> F,
    ) -> Result<T, ResponseStoreError>
    where
        F: Future<Output = Result<T, ResponseStoreError>>,
    {
        loop {
            match look().await {
                Err(ResponseStoreError::NotFound(_)) if self.wait().await => {}
                found => return found,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use uuid::Uuid;

    use super::*;

    /// The example of RFC 9562, A.6, made at 2022-02-22T19:22:22Z.
    const YOUNG: RequestId = RequestId(Uuid::from_u128(0x017f_22e2_79b0_7cc3_98c4_dc0c_0c07_398f));

    /// Returns the number of lookups, of which the one with number `success` finds something.
    async fn lookups(id: RequestId, now: &str, success: usize) -> (usize, bool) {
        let count = Cell::new(0);
        let look = || {
            count.set(count.get() + 1);
            let is_found = count.get() == success;
            async move { if is_found { Ok(()) } else { Err(ResponseStoreError::NotFound(id)) } }
        };
        let found = WriteDelay::of_response(id, now.parse().unwrap()).repeat(look).await;
        (count.get(), found.is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn a_young_response_is_looked_up_again_until_it_is_found() {
        for now in ["2022-02-22T19:22:22Z", "2022-02-22T19:32:21Z", "2022-02-22T19:13:00Z"] {
            assert_eq!(lookups(YOUNG, now, 4).await, (4, true), "{now}");
            assert_eq!(lookups(YOUNG, now, 9).await, (7, false), "{now}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_no_gateway_is_writing_is_missing_at_once() {
        assert_eq!(lookups(YOUNG, "2022-02-22T19:32:22Z", 2).await, (1, false));
        let made_by_a_client = RequestId(Uuid::from_u128(7));
        assert_eq!(lookups(made_by_a_client, "2022-02-22T19:22:22Z", 2).await, (1, false));
        assert!(!WriteDelay::over().wait().await);
    }
}
