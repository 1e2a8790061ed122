//! Counts request bodies that are being received against concurrency limits.
//!
//! A request is admitted once its body is known. Until then, an account or a key may receive as many bodies
//! as it may have concurrent requests.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use super::meter::{SubjectCounts, SubjectMeter};
use super::{Exceeded, ExceededCause, Limiter};
use domain::id::{AccountId, KeyId};
use domain::limit::{LimitKind, LimitScope, Limits};

/// The time after which a client that receives too many bodies should retry.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A slot for a body that is being received. Dropping it frees the slot.
#[derive(Debug)]
pub struct ReceiveGuard {
    /// The meters of the account and the key, if their concurrency is limited.
    meters: [Option<Arc<SubjectMeter>>; 2],
}

impl Limiter {
    /// Takes a slot for a body that is about to be received.
    ///
    /// # Errors
    /// Returns the exceeded limit if the account or the key already receives as many bodies as it may have
    /// concurrent requests. Limits in observe mode refuse nothing.
    pub fn receive(
        &self,
        account: (AccountId, &Limits),
        key: (&KeyId, &Limits),
    ) -> Result<ReceiveGuard, Exceeded> {
        let limit = |limits: &Limits| limits.concurrency.filter(|_| !limits.observe);
        let limits = [limit(account.1), limit(key.1)];
        let meters = [
            limits[0].map(|_| self.account_meter(account.0)),
            limits[1].map(|_| self.key_meter(key.0)),
        ];
        let mut counts = lock(&meters);
        for ((counts, limit), scope) in
            counts.iter().zip(limits).zip([LimitScope::Plan, LimitScope::Key])
        {
            if let Some((counts, limit)) = counts.as_ref().zip(limit)
                && counts.receiving >= limit
            {
                let (kind, cause) = (LimitKind::Concurrency, ExceededCause::Wait(RETRY_AFTER));
                return Err(Exceeded { scope, kind, limit, cause });
            }
        }
        for counts in counts.iter_mut().flatten() {
            counts.receiving += 1;
        }
        drop(counts);
        Ok(ReceiveGuard { meters })
    }
}

impl Drop for ReceiveGuard {
    fn drop(&mut self) {
        for counts in lock(&self.meters).iter_mut().flatten() {
            counts.receiving = counts.receiving.saturating_sub(1);
        }
    }
}

/// Locks the meters that are present, the account's first as everywhere.
fn lock(meters: &[Option<Arc<SubjectMeter>>; 2]) -> [Option<MutexGuard<'_, SubjectCounts>>; 2] {
    meters.each_ref().map(|meter| meter.as_ref().map(|meter| meter.lock()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Limits =
        Limits { rpm: None, tpm: None, concurrency: Some(1), monthly_tokens: None, observe: false };
    const NONE: Limits = Limits { concurrency: None, ..ONE };

    #[test]
    fn bodies_are_received_up_to_each_concurrency_limit() {
        let limiter = Limiter::default();
        let account = AccountId(uuid::Uuid::nil());
        let key = KeyId::new("key");
        let observed = Limits { observe: true, ..ONE };
        for (plan, own, scope) in [
            (ONE, NONE, Some(LimitScope::Plan)),
            (NONE, ONE, Some(LimitScope::Key)),
            (NONE, observed, None),
        ] {
            let receive = || limiter.receive((account, &plan), (&key, &own));
            let first = receive().unwrap();
            assert_eq!(receive().err().map(|exceeded| exceeded.scope), scope);
            drop(first);
            assert!(receive().is_ok(), "its slot is free again");
        }
    }

    #[test]
    fn a_body_that_is_refused_takes_no_slot() {
        let limiter = Limiter::default();
        let account = AccountId(uuid::Uuid::nil());
        let (busy, idle) = (KeyId::new("busy"), KeyId::new("idle"));
        let plan = Limits { concurrency: Some(2), ..ONE };
        let first = limiter.receive((account, &plan), (&busy, &ONE)).unwrap();
        assert!(limiter.receive((account, &plan), (&busy, &ONE)).is_err());
        let second = limiter.receive((account, &plan), (&idle, &ONE));
        assert!(second.is_ok(), "the refused one holds no slot of the plan");
        drop((first, second));
    }
}
