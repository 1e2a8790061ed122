//! Password hashing: argon2id on the blocking pool, with bounded concurrency.
//!
//! A hash takes some 20 ms and 19 MiB, and unauthenticated clients can cause one. Therefore two run
//! at a time, a bounded number waits, and further calls fail with [`ControlError::Busy`]. A single
//! source can occupy only a few slots, and some slots are reserved for trusted callers. Must not
//! keep or print a password.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;

use super::ControlError;
use crate::clock::Entropy;
use crate::offload::resume_panic;
use domain::source::Source;

/// A well-formed hash that no known password matches.
///
/// Used for accounts without a password and for unknown names, so that verification takes as long
/// as for a real hash.
pub const UNUSABLE_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA\
    $AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Hashes that run at a time.
const MAX_RUNNING: usize = 2;
/// Hashes that wait for one of the running ones.
const MAX_WAITING: usize = 32;
/// The slots that only trusted callers can take, out of `MAX_RUNNING + MAX_WAITING`.
const RESERVED_FOR_TRUSTED: usize = 8;
/// An untrusted call is refused if its source has this many slots already.
const MAX_PER_SOURCE: usize = 8;

/// Hashes and verifies passwords.
pub struct Passwords {
    slots: Arc<SlotPool>,
    running: Arc<Semaphore>,
    entropy: Arc<dyn Entropy>,
}

/// The caller on whose behalf a hash is computed.
#[derive(Clone, Copy, Debug)]
pub struct Requester {
    /// The origin of the call.
    pub source: Source,
    /// Whether the caller has a session, or has signed in from this source before.
    pub is_trusted: bool,
}

/// The slots of running and waiting hashes.
#[derive(Default)]
struct SlotPool {
    counts: Mutex<SlotCounts>,
}

/// The occupied slots.
#[derive(Default)]
struct SlotCounts {
    total: usize,
    by_source: HashMap<Source, usize>,
}

/// An occupied slot; released on drop.
struct SlotGuard {
    slots: Arc<SlotPool>,
    source: Source,
}

// === impl Passwords ===

impl Passwords {
    /// Creates a hasher that draws salts from `entropy`.
    pub fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self { slots: Arc::default(), running: Arc::new(Semaphore::new(MAX_RUNNING)), entropy }
    }

    /// Hashes a password. Returns a PHC string.
    ///
    /// # Errors
    /// [`ControlError::Busy`] if too many are waiting.
    #[expect(clippy::missing_panics_doc, reason = "the parameters are constant and valid")]
    pub async fn hash(
        &self,
        requester: Requester,
        password: SecretString,
    ) -> Result<String, ControlError> {
        let mut salt = [0; 16];
        self.entropy.fill(&mut salt);
        self.run(requester, move || {
            let password = password.expose_secret().as_bytes();
            Argon2::default()
                .hash_password_with_salt(password, &salt)
                .expect("the default parameters and a salt of 16 bytes are valid")
                .to_string()
        })
        .await
    }

    /// Verifies a password against a hash. Without a hash, does the same work and returns `false`.
    ///
    /// # Errors
    /// [`ControlError::Busy`] if too many are waiting.
    pub async fn verify(
        &self,
        requester: Requester,
        password: SecretString,
        hash: Option<String>,
    ) -> Result<bool, ControlError> {
        self.run(requester, move || {
            let hash = hash.as_deref().unwrap_or(UNUSABLE_HASH);
            Argon2::default().verify_password(password.expose_secret().as_bytes(), hash).is_ok()
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        requester: Requester,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ControlError> {
        let busy = || {
            ControlError::Busy("too many password checks are running; try again in a second".into())
        };
        let slot = SlotPool::acquire(&self.slots, requester).ok_or_else(busy)?;
        let running = self.running.clone().acquire_owned().await.map_err(|_| busy())?;
        // The guards move into the task: it continues after the caller is cancelled, and must still
        // count.
        let guards = (slot, running);
        let task = tokio::task::spawn_blocking(move || {
            let _guards = guards;
            work()
        });
        task.await.map_err(|error| {
            resume_panic(error);
            busy()
        })
    }
}

// === impl SlotPool ===

impl SlotPool {
    /// Takes a slot; `None` if none is free for `requester`.
    fn acquire(slots: &Arc<Self>, requester: Requester) -> Option<SlotGuard> {
        let Requester { source, is_trusted } = requester;
        let mut counts = slots.lock();
        let of_source = counts.by_source.get(&source).copied().unwrap_or_default();
        let has_free_slot = if is_trusted {
            counts.total < MAX_RUNNING + MAX_WAITING
        } else {
            counts.total < MAX_RUNNING + MAX_WAITING - RESERVED_FOR_TRUSTED
                && of_source < MAX_PER_SOURCE
        };
        has_free_slot.then(|| {
            counts.total += 1;
            counts.by_source.insert(source, of_source + 1);
            SlotGuard { slots: slots.clone(), source }
        })
    }

    fn lock(&self) -> MutexGuard<'_, SlotCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let mut counts = self.slots.lock();
        counts.total -= 1;
        let is_last = counts.by_source.get_mut(&self.source).is_none_or(|count| {
            *count -= 1;
            *count == 0
        });
        if is_last {
            counts.by_source.remove(&self.source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::testing::CountingEntropy;
    use argon2::PasswordHash;
    use futures_util::future::join_all;

    fn passwords() -> Passwords {
        Passwords::new(Arc::new(CountingEntropy::default()))
    }

    fn untrusted(number: u32) -> Requester {
        let address = std::net::Ipv4Addr::from_bits(number).into();
        Requester { source: Source::Network(address), is_trusted: false }
    }

    const TRUSTED: Requester = Requester { source: Source::Local, is_trusted: true };

    async fn verify_at_once(
        passwords: &Passwords,
        requesters: impl Iterator<Item = Requester>,
    ) -> usize {
        let verify = |requester| passwords.verify(requester, "x".into(), None);
        let results = join_all(requesters.map(verify)).await;
        let busy = results.iter().filter(|r| matches!(r, Err(ControlError::Busy(_)))).count();
        results.len() - busy
    }

    #[tokio::test]
    async fn a_hash_matches_only_its_password() {
        let passwords = passwords();
        let hash = passwords.hash(TRUSTED, "correct horse".into()).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        let verify = async |password: &str, hash: Option<String>| {
            passwords.verify(TRUSTED, password.into(), hash).await.unwrap()
        };
        assert!(verify("correct horse", Some(hash.clone())).await);
        assert!(!verify("correct house", Some(hash)).await);
        assert!(!verify("correct horse", None).await);
        assert!(!verify("x", Some("not a hash".into())).await);
    }

    #[test]
    fn the_unusable_hash_has_the_cost_parameters_of_real_hashes() {
        let hash = PasswordHash::new(UNUSABLE_HASH).unwrap();
        assert_eq!(hash.params.to_string(), "m=19456,t=2,p=1");
        assert!(hash.salt.is_some() && hash.hash.is_some());
    }

    #[tokio::test]
    async fn refuses_calls_beyond_the_slots_as_busy() {
        let passwords = passwords();
        let admitted = verify_at_once(&passwords, (0..40).map(untrusted)).await;
        assert_eq!(admitted, MAX_RUNNING + MAX_WAITING - RESERVED_FOR_TRUSTED);
        assert_eq!(
            verify_at_once(&passwords, (0..40).map(|_| TRUSTED)).await,
            MAX_RUNNING + MAX_WAITING
        );
        assert!(passwords.verify(TRUSTED, "x".into(), None).await.is_ok());
        assert!(passwords.slots.lock().by_source.is_empty());
    }

    #[tokio::test]
    async fn one_source_cannot_occupy_all_slots() {
        let passwords = passwords();
        let one = (0..100).map(|_| untrusted(1));
        let admitted = verify_at_once(&passwords, one.chain([untrusted(2), untrusted(3)])).await;
        assert_eq!(admitted, MAX_PER_SOURCE + 2);
    }

    #[tokio::test]
    async fn untrusted_callers_leave_slots_for_trusted_ones() {
        let passwords = passwords();
        let trusted = (0..RESERVED_FOR_TRUSTED).map(|_| TRUSTED);
        let admitted = verify_at_once(&passwords, (0..100).map(untrusted).chain(trusted)).await;
        assert_eq!(admitted, MAX_RUNNING + MAX_WAITING);
    }

    #[tokio::test]
    async fn cancelled_callers_leave_no_queue_and_running_hashes_still_count() {
        let passwords = passwords();
        for _ in 0..10 {
            let mut waiting: Vec<_> = (0..MAX_RUNNING + MAX_WAITING)
                .map(|_| Box::pin(passwords.verify(TRUSTED, "x".into(), None)))
                .collect();
            for verify in &mut waiting {
                let _ = futures_util::poll!(verify);
            }
            drop(waiting);
            let running = passwords.slots.lock().total;
            assert!(
                running <= MAX_RUNNING,
                "{running} hashes run after their callers were cancelled"
            );
        }
        assert!(passwords.verify(TRUSTED, "x".into(), None).await.is_ok());
    }
}
