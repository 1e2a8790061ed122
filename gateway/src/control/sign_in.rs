//! Sign-in with a password, with throttling and reporting of failures.
//!
//! Failures are reported at once and then once a minute with their number: by source in the log, by
//! account in the audit log. The aggregation keeps password guessing from filling either log.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::HEXLOWER;
use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use super::access::refuse_suspended;
use super::passwords::Requester;
use super::report_aggregator::{EventReport, ReportAggregator};
use super::sessions::SignedIn;
use super::throttle::{NameDigest, SignInAttempt, Throttle};
use super::{Caller, Control, ControlError, Identity, token};
use domain::account::{AccountStatus, Session};
use domain::account_name::normalized;
use domain::audit::{AuditAction, AuditEntry};
use domain::id::{AccountId, SessionId};
use domain::source::{CallAddress, Source};
use store::StoreError;

/// The lifetime of a session.
const SESSION_LIFETIME: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The number of sessions of an account's owner, or of a person, beyond which a sign-in ends the oldest.
pub(super) const MAX_SESSIONS: u32 = 100;
const SESSION_ID_BYTES: usize = 6;
/// The interval of reports about refusals.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);

/// The state of failed sign-ins.
#[derive(Default)]
pub(super) struct SignInTracker {
    throttle: Mutex<Throttle>,
    refusals: Mutex<Refusals>,
}

/// Refusals that were not reported yet.
///
/// Each kind has a separate table, so that failures from many sources cannot exhaust the table of
/// accounts.
#[derive(Default)]
struct Refusals {
    sources: ReportAggregator<Source>,
    accounts: ReportAggregator<AccountId>,
    /// A single subject, because an audit entry has no source as its object.
    tokens: ReportAggregator<()>,
}

/// The subject of refusals, which are reported together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum RefusalSubject {
    /// Failed sign-ins from one source.
    Source(Source),
    /// Failed sign-ins to one existing account or as one person, and wrong old passwords on password changes.
    Account(AccountId),
    /// Unknown or expired tokens.
    Token,
}

/// A verification of a password or a code in progress. Counts as a failure if it is dropped without an
/// outcome, which happens when the client disconnects.
pub(super) struct PasswordCheckGuard {
    control: Arc<Control>,
    identity: Option<AccountId>,
    source: Source,
    is_concluded: bool,
}

// === impl SignInTracker ===

impl SignInTracker {
    fn throttle(&self) -> MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Refusals ===

impl Refusals {
    /// Counts a refusal. Returns a report if the subject was inactive.
    fn record(&mut self, subject: RefusalSubject, source: Source) -> Option<EventReport> {
        match subject {
            RefusalSubject::Source(subject) => self.sources.record(subject, source),
            RefusalSubject::Account(account) => self.accounts.record(account, source),
            RefusalSubject::Token => self.tokens.record((), source),
        }
    }

    /// Ends a period. Returns the due reports, and the numbers of failures of untracked sources and
    /// accounts.
    fn drain(&mut self) -> (Vec<(RefusalSubject, EventReport)>, [u64; 2]) {
        let (sources, other_sources) = self.sources.drain();
        let (accounts, other_accounts) = self.accounts.drain();
        let (tokens, _) = self.tokens.drain();
        let sources = sources.into_iter().map(|(it, report)| (RefusalSubject::Source(it), report));
        let accounts =
            accounts.into_iter().map(|(it, report)| (RefusalSubject::Account(it), report));
        let tokens = tokens.into_iter().map(|((), report)| (RefusalSubject::Token, report));
        (sources.chain(accounts).chain(tokens).collect(), [other_sources, other_accounts])
    }
}

// === impl PasswordCheckGuard ===

impl PasswordCheckGuard {
    /// Records a failure.
    fn failed(mut self) {
        self.is_concluded = true;
        self.control.record_failed_sign_in(self.identity, self.source);
    }

    /// Ends the verification without recording a failure.
    fn passed(mut self) {
        self.is_concluded = true;
    }
}

impl Drop for PasswordCheckGuard {
    fn drop(&mut self) {
        if !self.is_concluded {
            self.control.record_failed_sign_in(self.identity, self.source);
        }
    }
}

// === impl Control ===

impl Control {
    /// Verifies a password and opens a session. `address` is the client address; `None` for the
    /// Unix socket.
    ///
    /// Invariant: an unknown name takes the same time and gives the same error as a wrong password.
    /// Suspended accounts may sign in, so that they can see their suspension. The oldest sessions of
    /// the account beyond `MAX_SESSIONS` end.
    ///
    /// # Errors
    /// [`ControlError::Unauthenticated`] if name or password is wrong, [`ControlError::Limited`]
    /// after too many failures, [`ControlError::Busy`] if too many passwords are being verified.
    pub async fn sign_in(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        name: &str,
        password: SecretString,
    ) -> Result<SignedIn, ControlError> {
        let source = Source::of(address);
        let identity = self.find_identity_named(name);
        let (attempt, check) = self.begin_sign_in(name, identity.as_ref(), source)?;
        let requester = Requester { source, is_trusted: attempt.is_known() };
        let outcome = self.open_session(requester, address, identity, name, password).await;
        self.conclude(attempt, check, outcome)
    }

    /// Begins an attempt to sign in or to reset a password, which must be [concluded](Self::conclude).
    ///
    /// # Errors
    /// [`ControlError::Limited`] after too many failures.
    pub(super) fn begin_sign_in(
        self: &Arc<Self>,
        name: &str,
        identity: Option<&Identity>,
        source: Source,
    ) -> Result<(SignInAttempt, PasswordCheckGuard), ControlError> {
        let name = NameDigest::of(&normalized(name));
        let identity = identity.map(Identity::id);
        let attempt = self.sign_ins.throttle().begin(name, source, self.clock.monotonic());
        let attempt = attempt.map_err(|wait| {
            self.record_failed_sign_in(identity, source);
            too_many_failures(wait)
        })?;
        Ok((attempt, self.check(identity, source)))
    }

    /// Verifies the password of an authenticated caller.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] if it is wrong, [`ControlError::Limited`] after too many
    /// failures, [`ControlError::Busy`] if too many passwords are being verified.
    pub(super) async fn check_own_password(
        self: &Arc<Self>,
        caller: &Caller,
        address: Option<IpAddr>,
        password: SecretString,
        hash: Option<String>,
    ) -> Result<(), ControlError> {
        let (id, source) = (caller.id(), Source::Local);
        let name = NameDigest::of(&format!("session of {id}"));
        let now = self.clock.monotonic();
        let attempt = self.sign_ins.throttle().begin_signed_in(name, source, now);
        let check = self.check(Some(id), Source::of(address));
        let attempt = match attempt {
            Ok(attempt) => attempt,
            Err(wait) => {
                check.failed();
                return Err(too_many_failures(wait));
            }
        };
        let requester = Requester { source, is_trusted: true };
        let outcome = self.passwords.verify(requester, password, hash).await.and_then(|fits| {
            let wrong = || ControlError::Forbidden("the old password is wrong".into());
            fits.then_some(()).ok_or_else(wrong)
        });
        self.conclude(attempt, check, outcome)
    }

    /// Records a refused token, and reports it if a report is due.
    pub fn note_refused_token(self: &Arc<Self>, address: Option<IpAddr>) {
        let source = Source::of(address);
        self.record_refusal(RefusalSubject::Token, source);
    }

    /// Reports refusals once a minute until `stop` is cancelled, and then a last time.
    pub async fn report_refused_until(&self, stop: CancellationToken) {
        loop {
            let wait = stop.run_until_cancelled(tokio::time::sleep(REPORT_INTERVAL)).await;
            let (due, [other_sources, other_accounts]) = self.sign_ins.refusals().drain();
            for (subject, report) in due {
                self.report(subject, &report).await;
            }
            if other_sources > 0 {
                tracing::warn!(
                    event = "sign_in_failed",
                    count = other_sources,
                    "sign-ins from many more sources failed"
                );
            }
            if other_accounts > 0 {
                tracing::warn!(
                    event = "sign_in_failed",
                    count = other_accounts,
                    "sign-ins to many more accounts failed"
                );
            }
            if wait.is_none() {
                return;
            }
        }
    }

    /// Verifies the password and opens a session.
    ///
    /// A sign-in with an identity provider (OIDC) would verify its ID token here instead of the
    /// password, find the account by the token's subject, and add the same kind of session.
    async fn open_session(
        self: &Arc<Self>,
        requester: Requester,
        address: Option<IpAddr>,
        identity: Option<Identity>,
        name: &str,
        password: SecretString,
    ) -> Result<SignedIn, ControlError> {
        // Unknown names are looked up, too, so that both cases take the same time.
        let stored_name = identity.as_ref().map_or(name, Identity::name);
        let stored = self.store.find_password_hash(stored_name).await?;
        let hash = stored.map(|(_, hash)| hash);
        let fits = self.passwords.verify(requester, password, hash.clone()).await?;
        let identity = identity.filter(|_| fits).ok_or_else(wrong_credentials)?;

        let token = token::make(token::SESSION, &*self.entropy);
        let now = self.clock.now();
        let mut id = [0; SESSION_ID_BYTES];
        self.entropy.fill(&mut id);
        let session = Session {
            id: SessionId::new(HEXLOWER.encode(&id)),
            digest: token::digest(&token),
            account: identity.id(),
            created_at: now,
            expires_at: now.saturating_add(SESSION_LIFETIME).unwrap_or(Timestamp::MAX),
        };
        let (expires_at, source) = (session.expires_at, requester.source);
        let by = identity.clone();
        self.write(None, move |control| async move {
            let current = control.directory.find_account(by.account.id);
            if let Some(current) = current.filter(|it| it.status == AccountStatus::Closed) {
                refuse_suspended(&current)?;
            }
            let details = format!("from {source}");
            let (action, account) = (AuditAction::SessionCreate, Some(by.account.id));
            let audit = control.audit_entry(action, session.id.as_str(), account, details);
            let (actor, address) = (Some(by.id()), Some(CallAddress::of(address)));
            let audit = AuditEntry { actor, address, ..audit };
            let hash = hash.unwrap_or_default();
            let added = control.store.add_session(&session, &hash, MAX_SESSIONS, &audit);
            match added.await {
                // The password was changed since it was verified.
                Err(StoreError::NotFound) => Err(wrong_credentials()),
                added => Ok(added?),
            }
        })
        .await?;
        let Identity { account, person } = identity;
        tracing::info!(event = "session_opened", account = %account.id, %source, "a session was opened");
        Ok(SignedIn { token, expires_at, account: self.view(account).await?, person })
    }

    /// Records the outcome of an attempt.
    pub(super) fn conclude<T>(
        &self,
        attempt: SignInAttempt,
        check: PasswordCheckGuard,
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

    fn check(self: &Arc<Self>, identity: Option<AccountId>, source: Source) -> PasswordCheckGuard {
        PasswordCheckGuard { control: self.clone(), identity, source, is_concluded: false }
    }

    fn record_failed_sign_in(self: &Arc<Self>, identity: Option<AccountId>, source: Source) {
        self.record_refusal(RefusalSubject::Source(source), source);
        if let Some(id) = identity {
            self.record_refusal(RefusalSubject::Account(id), source);
        }
    }

    fn record_refusal(self: &Arc<Self>, subject: RefusalSubject, source: Source) {
        let due = self.sign_ins.refusals().record(subject, source);
        if let Some(report) = due {
            let control = self.clone();
            // In a task: the time that a report takes must not reveal whether an account exists.
            self.tasks.spawn(async move { control.report(subject, &report).await });
        }
    }

    /// Writes a report to the log or the audit log.
    async fn report(&self, subject: RefusalSubject, report: &EventReport) {
        let (count, sources) = (report.count, report.sources());
        let (action, object, account) = match subject {
            RefusalSubject::Source(source) => {
                tracing::warn!(event = "sign_in_failed", %source, count, "sign-ins failed");
                return;
            }
            RefusalSubject::Account(id) => {
                let account = self.find_identity(id).map(|found| found.account.id);
                (AuditAction::SessionRefuse, self.name_of(id), account)
            }
            RefusalSubject::Token => {
                tracing::warn!(
                    event = "token_refused",
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
            address: report.address(),
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

fn wrong_credentials() -> ControlError {
    ControlError::Unauthenticated("wrong name or password".into())
}

fn too_many_failures(wait: Duration) -> ControlError {
    // Rounded up, so that a retry after this time is not refused.
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let unit = if seconds == 1 { "second" } else { "seconds" };
    ControlError::Limited {
        message: format!("too many failed sign-ins; try again in {seconds} {unit}"),
        retry_after: Duration::from_secs(seconds),
    }
}
