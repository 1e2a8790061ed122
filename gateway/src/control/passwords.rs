//! Passwords: argon2id on threads of their own, few at a time.
//!
//! A hash takes some 20 ms and 19 MiB, and anybody may ask for one: two run at once, some more wait,
//! the rest is told to come again. One source holds only a few of the places, and some are reserved for
//! those who proved before that an account is theirs. Nothing here keeps or prints a password.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;

use super::ControlError;
use crate::clock::Entropy;
use domain::source::Source;

/// A well-formed hash that no known password has: for accounts that nobody signs in to, and for
/// names that do not exist, so that both cost what a real one costs.
pub const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA\
    $AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

const RUNNING: usize = 2;
const WAITING: usize = 32;
/// Of these places, those for trusted callers alone.
const RESERVED: usize = 8;
/// The most places of one source whose callers are not trusted.
const MAX_PER_SOURCE: usize = 8;

/// Makes and checks hashes.
pub struct Passwords {
    places: Arc<Places>,
    running: Arc<Semaphore>,
    entropy: Arc<dyn Entropy>,
}

/// Whom a hash is made for.
#[derive(Clone, Copy, Debug)]
pub struct Requester {
    /// Where the call comes from.
    pub source: Source,
    /// Whether the caller has a session, or has signed in from this source before.
    pub is_trusted: bool,
}

/// The places of hashes that are made or wait to be.
#[derive(Default)]
struct Places {
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    total: usize,
    by_source: HashMap<Source, usize>,
}

/// A place; dropping it gives it back.
struct PlaceGuard {
    places: Arc<Places>,
    source: Source,
}

// === impl Passwords ===

impl Passwords {
    /// Salts come from `entropy`.
    pub fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self { places: Arc::default(), running: Arc::new(Semaphore::new(RUNNING)), entropy }
    }

    /// Hashes a password; the answer is a PHC string.
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

    /// Checks a password against a hash. Without one it does the same work and says no.
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
            let hash = hash.as_deref().unwrap_or(NOBODY);
            Argon2::default().verify_password(password.expose_secret().as_bytes(), hash).is_ok()
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        requester: Requester,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ControlError> {
        let busy = || ControlError::Busy("too many are signing in; try again in a second".into());
        let place = Places::take(&self.places, requester).ok_or_else(busy)?;
        let running = self.running.clone().acquire_owned().await.map_err(|_| busy())?;
        // both go along: the work goes on when the caller goes away, and must still count
        let guards = (place, running);
        let task = tokio::task::spawn_blocking(move || {
            let _guards = guards;
            work()
        });
        task.await.map_err(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => busy(),
        })
    }
}

// === impl Places ===

impl Places {
    /// Takes a place, if there is one for `requester`.
    fn take(places: &Arc<Self>, requester: Requester) -> Option<PlaceGuard> {
        let Requester { source, is_trusted } = requester;
        let mut taken = places.lock();
        let of_source = taken.by_source.get(&source).copied().unwrap_or_default();
        let is_free = if is_trusted {
            taken.total < RUNNING + WAITING
        } else {
            taken.total < RUNNING + WAITING - RESERVED && of_source < MAX_PER_SOURCE
        };
        is_free.then(|| {
            taken.total += 1;
            taken.by_source.insert(source, of_source + 1);
            PlaceGuard { places: places.clone(), source }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PlaceGuard {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.total -= 1;
        let is_last = taken.by_source.get_mut(&self.source).is_none_or(|count| {
            *count -= 1;
            *count == 0
        });
        if is_last {
            taken.by_source.remove(&self.source);
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

    fn stranger(number: u32) -> Requester {
        let address = std::net::Ipv4Addr::from_bits(number).into();
        Requester { source: Source::Network(address), is_trusted: false }
    }

    const OWNER: Requester = Requester { source: Source::Local, is_trusted: true };

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
    async fn a_hash_fits_its_password_alone() {
        let passwords = passwords();
        let hash = passwords.hash(OWNER, "correct horse".into()).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        let verify = async |password: &str, hash: Option<String>| {
            passwords.verify(OWNER, password.into(), hash).await.unwrap()
        };
        assert!(verify("correct horse", Some(hash.clone())).await);
        assert!(!verify("correct house", Some(hash)).await);
        assert!(!verify("correct horse", None).await);
        assert!(!verify("x", Some("not a hash".into())).await);
    }

    #[test]
    fn the_hash_of_nobody_costs_what_others_cost() {
        let hash = PasswordHash::new(NOBODY).unwrap();
        assert_eq!(hash.params.to_string(), "m=19456,t=2,p=1");
        assert!(hash.salt.is_some() && hash.hash.is_some());
    }

    #[tokio::test]
    async fn too_many_at_once_are_told_to_come_again() {
        let passwords = passwords();
        let admitted = verify_at_once(&passwords, (0..40).map(stranger)).await;
        assert_eq!(admitted, RUNNING + WAITING - RESERVED);
        assert_eq!(verify_at_once(&passwords, (0..40).map(|_| OWNER)).await, RUNNING + WAITING);
        assert!(passwords.verify(OWNER, "x".into(), None).await.is_ok());
        assert!(passwords.places.lock().by_source.is_empty());
    }

    #[tokio::test]
    async fn one_source_keeps_nobody_else_out() {
        let passwords = passwords();
        let one = (0..100).map(|_| stranger(1));
        let admitted = verify_at_once(&passwords, one.chain([stranger(2), stranger(3)])).await;
        assert_eq!(admitted, MAX_PER_SOURCE + 2);
    }

    #[tokio::test]
    async fn strangers_from_everywhere_leave_room_for_owners() {
        let passwords = passwords();
        let owners = (0..RESERVED).map(|_| OWNER);
        let admitted = verify_at_once(&passwords, (0..100).map(stranger).chain(owners)).await;
        assert_eq!(admitted, RUNNING + WAITING);
    }

    #[tokio::test]
    async fn callers_that_go_away_leave_no_queue_and_no_room_for_more_at_once() {
        let passwords = passwords();
        for _ in 0..10 {
            let mut waiting: Vec<_> = (0..RUNNING + WAITING)
                .map(|_| Box::pin(passwords.verify(OWNER, "x".into(), None)))
                .collect();
            for verify in &mut waiting {
                let _ = futures_util::poll!(verify);
            }
            drop(waiting);
            let at_work = passwords.places.lock().total;
            assert!(at_work <= RUNNING, "{at_work} go on after their callers");
        }
        assert!(passwords.verify(OWNER, "x".into(), None).await.is_ok());
    }
}
