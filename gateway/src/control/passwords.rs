//! Passwords: argon2id on threads of their own, few at a time.
//!
//! A hash takes some 20 ms and 19 MiB, and anybody may ask for one: two run at once, some more wait,
//! the rest is told to come again. Nothing here keeps or prints a password.

use std::sync::Arc;

use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ControlError;
use crate::clock::Entropy;

/// A well-formed hash that no known password has: for accounts that nobody signs in to, and for
/// names that do not exist, so that both cost what a real one costs.
pub const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA\
    $AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

const RUNNING: usize = 2;
const WAITING: usize = 32;

/// Makes and checks hashes.
pub struct Passwords {
    admitted: Arc<Semaphore>,
    running: Arc<Semaphore>,
    entropy: Arc<dyn Entropy>,
}

impl Passwords {
    /// Salts come from `entropy`.
    pub fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self {
            admitted: Arc::new(Semaphore::new(RUNNING + WAITING)),
            running: Arc::new(Semaphore::new(RUNNING)),
            entropy,
        }
    }

    /// Hashes a password; the answer is a PHC string.
    ///
    /// # Errors
    /// [`ControlError::Busy`] if too many are waiting.
    #[expect(clippy::missing_panics_doc, reason = "the parameters are constant and valid")]
    pub async fn hash(&self, password: SecretString) -> Result<String, ControlError> {
        let mut salt = [0; 16];
        self.entropy.fill(&mut salt);
        self.run(move || {
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
        password: SecretString,
        hash: Option<String>,
    ) -> Result<bool, ControlError> {
        self.run(move || {
            let hash = hash.as_deref().unwrap_or(NOBODY);
            Argon2::default().verify_password(password.expose_secret().as_bytes(), hash).is_ok()
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ControlError> {
        let busy = || ControlError::Busy("too many are signing in; try again in a second".into());
        let admitted = self.admitted.clone().try_acquire_owned().map_err(|_| busy())?;
        let running = self.running.clone().acquire_owned().await.map_err(|_| busy())?;
        // the permits go along: the work goes on when the caller goes away, and must still count
        let permits: [OwnedSemaphorePermit; 2] = [admitted, running];
        let task = tokio::task::spawn_blocking(move || {
            let _permits = permits;
            work()
        });
        task.await.map_err(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => busy(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::CountingEntropy;
    use super::*;
    use argon2::PasswordHash;
    use futures_util::future::join_all;

    fn passwords() -> Passwords {
        Passwords::new(Arc::new(CountingEntropy::default()))
    }

    #[tokio::test]
    async fn a_hash_fits_its_password_alone() {
        let passwords = passwords();
        let hash = passwords.hash("correct horse".into()).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(passwords.verify("correct horse".into(), Some(hash.clone())).await.unwrap());
        assert!(!passwords.verify("correct house".into(), Some(hash)).await.unwrap());
        assert!(!passwords.verify("correct horse".into(), None).await.unwrap());
        assert!(!passwords.verify("x".into(), Some("not a hash".into())).await.unwrap());
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
        let results = join_all((0..40).map(|_| passwords.verify("x".into(), None))).await;
        let busy = results.iter().filter(|r| matches!(r, Err(ControlError::Busy(_)))).count();
        assert_eq!(busy, 40 - RUNNING - WAITING);
        assert!(passwords.verify("x".into(), None).await.is_ok());
    }

    #[tokio::test]
    async fn callers_that_go_away_leave_no_queue_and_no_room_for_more_at_once() {
        let passwords = passwords();
        for _ in 0..10 {
            let mut waiting: Vec<_> = (0..RUNNING + WAITING)
                .map(|_| Box::pin(passwords.verify("x".into(), None)))
                .collect();
            for verify in &mut waiting {
                let _ = futures_util::poll!(verify);
            }
            drop(waiting);
            let at_work = RUNNING + WAITING - passwords.admitted.available_permits();
            assert!(at_work <= RUNNING, "{at_work} go on after their callers");
        }
        assert!(passwords.verify("x".into(), None).await.is_ok());
    }
}
