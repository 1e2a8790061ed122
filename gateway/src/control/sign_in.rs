//! Signing in with a password: the waits after wrong ones, and what the log and the audit log say of them.
//!
//! What is refused is reported once when it begins and then once a minute with its number, by source in
//! the log, by account in the audit log: whoever tries passwords must not be able to fill either.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::HEXLOWER;
use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use super::occurrences::{Occurrences, Report};
use super::passwords::Requester;
use super::sessions::SignedIn;
use super::throttle::{Attempt, NameDigest, Throttle};
use super::{Caller, Control, ControlError, token};
use domain::account::{Account, Session};
use domain::account_name::normalized;
use domain::audit::{AuditAction, AuditEntry};
use domain::id::{AccountId, SessionId};
use domain::source::Source;

/// How long a session lasts.
const LIFETIME: SignedDuration = SignedDuration::from_hours(30 * 24);
const ID_BYTES: usize = 6;
/// How often what was refused is reported.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);

/// What is remembered of sign-ins that failed.
#[derive(Default)]
pub(super) struct SignInGuard {
    throttle: Mutex<Throttle>,
    refusals: Mutex<Refusals>,
}

/// What was refused and not reported yet. Each kind has its table: failures from many sources leave the room for
/// those on accounts as it is.
#[derive(Default)]
struct Refusals {
    sources: Occurrences<Source>,
    accounts: Occurrences<AccountId>,
    /// One subject, because an entry of the audit log names no source as its object.
    tokens: Occurrences<()>,
}

/// What was refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Refused {
    /// Sign-ins from one source.
    Source(Source),
    /// Sign-ins to one account that exists, or wrong old passwords of it.
    Account(AccountId),
    /// Tokens that are unknown or have ended.
    Token,
}

/// A check of a password. Dropped before its outcome is known, because the client has hung up, it has failed.
struct Check {
    control: Arc<Control>,
    account: Option<Arc<Account>>,
    source: Source,
    is_concluded: bool,
}

// === impl SignInGuard ===

impl SignInGuard {
    fn throttle(&self) -> MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Refusals ===

impl Refusals {
    /// Counts a refusal. Returns the report that is due at once, if there was none of that kind for some time.
    fn note(&mut self, refused: Refused, source: Source) -> Option<Report> {
        match refused {
            Refused::Source(subject) => self.sources.note(subject, source),
            Refused::Account(account) => self.accounts.note(account, source),
            Refused::Token => self.tokens.note((), source),
        }
    }

    /// Takes the reports that are due at the end of a period, and the numbers of sign-ins that are in none: by
    /// source, and by account.
    fn take(&mut self) -> (Vec<(Refused, Report)>, [u64; 2]) {
        let (sources, other_sources) = self.sources.take();
        let (accounts, other_accounts) = self.accounts.take();
        let (tokens, _) = self.tokens.take();
        let sources = sources.into_iter().map(|(it, report)| (Refused::Source(it), report));
        let accounts = accounts.into_iter().map(|(it, report)| (Refused::Account(it), report));
        let tokens = tokens.into_iter().map(|((), report)| (Refused::Token, report));
        (sources.chain(accounts).chain(tokens).collect(), [other_sources, other_accounts])
    }
}

// === impl Check ===

impl Check {
    /// Notes a failure.
    fn failed(mut self) {
        self.is_concluded = true;
        self.control.note_failed_sign_in(self.account.as_deref(), self.source);
    }

    /// Notes that there was none.
    fn passed(mut self) {
        self.is_concluded = true;
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        if !self.is_concluded {
            self.control.note_failed_sign_in(self.account.as_deref(), self.source);
        }
    }
}

// === impl Control ===

impl Control {
    /// Checks a password and opens a session; `address` is where the call comes from, unless by the Unix
    /// socket. An unknown name costs and reads the same as a wrong password. A suspended account may
    /// sign in, to see that it is.
    ///
    /// # Errors
    /// [`ControlError::Unauthenticated`] if the two do not fit, [`ControlError::Limited`] after too many of
    /// those, [`ControlError::Busy`] if too many are signing in.
    pub async fn sign_in(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        name: &str,
        password: SecretString,
    ) -> Result<SignedIn, ControlError> {
        let source = Source::of(address);
        let account = self.directory.find_account_named(name);
        let begun = self.sign_ins.throttle().begin(
            NameDigest::of(&normalized(name)),
            source,
            self.clock.monotonic(),
        );
        let attempt = match begun {
            Ok(attempt) => attempt,
            Err(wait) => {
                self.note_failed_sign_in(account.as_deref(), source);
                return Err(too_many(wait));
            }
        };
        let check = self.check(account.clone(), source);
        let requester = Requester { source, is_trusted: attempt.is_known() };
        let outcome = self.open_session(requester, account, name, password).await;
        self.conclude(attempt, check, outcome)
    }

    /// Checks the caller's own password once more.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] if it is wrong, [`ControlError::Limited`] after too many wrong ones,
    /// [`ControlError::Busy`] if too many are signing in.
    pub(super) async fn check_own_password(
        self: &Arc<Self>,
        caller: &Caller,
        address: Option<IpAddr>,
        password: SecretString,
        hash: Option<String>,
    ) -> Result<(), ControlError> {
        let (account, source) = (&caller.account, Source::Local);
        let name = NameDigest::of(&format!("session of {}", account.id));
        let now = self.clock.monotonic();
        let begun = self.sign_ins.throttle().begin_signed_in(name, source, now);
        let check = self.check(Some(account.clone()), Source::of(address));
        let attempt = match begun {
            Ok(attempt) => attempt,
            Err(wait) => {
                check.failed();
                return Err(too_many(wait));
            }
        };
        let requester = Requester { source, is_trusted: true };
        let outcome = self.passwords.verify(requester, password, hash).await.and_then(|fits| {
            let wrong = || ControlError::Forbidden("the old password is wrong".into());
            fits.then_some(()).ok_or_else(wrong)
        });
        self.conclude(attempt, check, outcome)
    }

    /// Notes that a token was refused, and reports it as far as it is due.
    pub fn note_refused_token(self: &Arc<Self>, address: Option<IpAddr>) {
        let source = Source::of(address);
        self.note_refused(Refused::Token, source);
    }

    /// Reports what was refused, once a minute, until `stop` is cancelled, and then once more.
    pub async fn report_refused_until(&self, stop: CancellationToken) {
        loop {
            let wait = stop.run_until_cancelled(tokio::time::sleep(REPORT_INTERVAL)).await;
            let (due, [other_sources, other_accounts]) = self.sign_ins.refusals().take();
            for (refused, report) in due {
                self.report(refused, &report).await;
            }
            if other_sources > 0 {
                tracing::warn!(count = other_sources, "sign-ins from many more sources failed");
            }
            if other_accounts > 0 {
                tracing::warn!(count = other_accounts, "sign-ins to many more accounts failed");
            }
            if wait.is_none() {
                return;
            }
        }
    }

    /// Opens a session if the password fits.
    async fn open_session(
        self: &Arc<Self>,
        requester: Requester,
        account: Option<Arc<Account>>,
        name: &str,
        password: SecretString,
    ) -> Result<SignedIn, ControlError> {
        // asked for unknown names, too: both must cost the same
        let stored_name = account.as_ref().map_or(name, |account| &account.name);
        let stored = self.store.find_password_hash(stored_name).await?;
        let hash = stored.map(|(_, hash)| hash);
        let fits = self.passwords.verify(requester, password, hash.clone()).await?;
        let account = account.filter(|_| fits).ok_or_else(wrong)?;

        let token = token::make(token::SESSION, &*self.entropy);
        let now = self.clock.now();
        let mut id = [0; ID_BYTES];
        self.entropy.fill(&mut id);
        let session = Session {
            id: SessionId::new(HEXLOWER.encode(&id)),
            digest: token::digest(&token),
            account: account.id,
            created_at: now,
            expires_at: now.saturating_add(LIFETIME).unwrap_or(Timestamp::MAX),
        };
        let (expires_at, name) = (session.expires_at, account.name.clone());
        self.write(None, move |control| async move {
            // a change of the password ends sessions: none may be opened with the old one after it
            let stored = control.store.find_password_hash(&name).await?;
            if stored.map(|(_, hash)| hash) != hash {
                return Err(wrong());
            }
            let details = format!("from {}", requester.source);
            let (action, account) = (AuditAction::SessionCreate, Some(session.account));
            let audit = control.entry(action, session.id.as_str(), account, details);
            Ok(control.store.add_session(&session, &audit).await?)
        })
        .await?;
        Ok(SignedIn { token, expires_at, account: self.view(account) })
    }

    /// Counts how an attempt ended.
    fn conclude<T>(
        &self,
        attempt: Attempt,
        check: Check,
        outcome: Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        if let Err(ControlError::Unauthenticated(_) | ControlError::Forbidden(_)) = &outcome {
            check.failed();
            return outcome;
        }
        check.passed();
        let mut throttle = self.sign_ins.throttle();
        match &outcome {
            Ok(_) => throttle.succeed(attempt, self.clock.monotonic()),
            Err(_) => throttle.cancel(attempt),
        }
        outcome
    }

    fn check(self: &Arc<Self>, account: Option<Arc<Account>>, source: Source) -> Check {
        Check { control: self.clone(), account, source, is_concluded: false }
    }

    fn note_failed_sign_in(self: &Arc<Self>, account: Option<&Account>, source: Source) {
        self.note_refused(Refused::Source(source), source);
        if let Some(account) = account {
            self.note_refused(Refused::Account(account.id), source);
        }
    }

    fn note_refused(self: &Arc<Self>, refused: Refused, source: Source) {
        let due = self.sign_ins.refusals().note(refused, source);
        if let Some(report) = due {
            let control = self.clone();
            // not waited for: that an account exists must not be seen from the time that this takes
            self.tasks.spawn(async move { control.report(refused, &report).await });
        }
    }

    /// Says in the log or the audit log what was refused.
    async fn report(&self, refused: Refused, report: &Report) {
        let (count, sources) = (report.count, report.sources());
        let (action, object, account) = match refused {
            Refused::Source(source) => {
                tracing::warn!(%source, count, "sign-ins failed");
                return;
            }
            Refused::Account(id) => (AuditAction::SessionRefuse, self.account_name(id), Some(id)),
            Refused::Token => {
                tracing::warn!(
                    sources,
                    count,
                    "tokens that are unknown or have ended were refused"
                );
                (AuditAction::TokenRefuse, String::new(), None)
            }
        };
        let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
        let entry = AuditEntry {
            at: self.clock.now(),
            actor: None,
            action,
            object,
            account,
            details: format!("{times}, from {sources}"),
            call: None,
        };
        if let Err(error) = self.store.add_audit(&entry).await {
            let error: &dyn std::error::Error = &error;
            tracing::error!(error, "cannot write an entry of the audit log");
        }
    }
}

fn wrong() -> ControlError {
    ControlError::Unauthenticated("wrong name or password".into())
}

fn too_many(wait: Duration) -> ControlError {
    // rounded up: who comes again after it must not be refused
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let unit = if seconds == 1 { "second" } else { "seconds" };
    ControlError::Limited {
        message: format!("too many failed sign-ins; try again in {seconds} {unit}"),
        retry_after: Duration::from_secs(seconds),
    }
}
