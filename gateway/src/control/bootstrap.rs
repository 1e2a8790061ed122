//! Initialization of the data directory and the store: secrets, the default plan, the built-in
//! operator account and the first catalogue.
//!
//! Invariant: every step is idempotent, so that an interrupted start is completed by the next one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{operator_token, passwords, token};
use crate::clock::{Clock, Entropy};
use crate::secrets::seal::{KEY_FILE, SealKeys, Sealer};
use crate::secrets::{SealKeySource, file};
use domain::account::{Account, AccountStatus, OPERATOR, Role};
use domain::audit::{AuditAction, AuditEntry};
use domain::id::{AccountId, PlanName};
use domain::ledger::{Entry, EntryKind};
use domain::limit::Limits;
use domain::model::Model;
use domain::money::Nanos;
use domain::plan::{DEFAULT_MAX_KEYS, DEFAULT_PLAN, Plan};
use domain::upstream::{CredentialSource, Upstream};
use store::{Cursor, Snapshot, Store, StoreError};

/// The operator token's file in the data directory.
pub const TOKEN_FILE: &str = "operator.token";

/// The stored reason for the operator account and its credit.
const FIRST_CREDIT: &str = "by the first start";
/// The trial credit of the default plan: 5 dollars.
const TRIAL_CREDIT: Nanos = Nanos(5_000_000_000);

/// The first catalogue of an empty store.
#[derive(Debug, Default)]
pub struct Seed {
    /// The upstreams.
    pub upstreams: Vec<Upstream>,
    /// The models, deployed on `upstreams`.
    pub models: Vec<Model>,
}

/// The state with which a gateway starts.
pub struct InitialState {
    /// The content of the store.
    pub snapshot: Snapshot,
    /// The cursor of the newest request record.
    pub newest: Cursor,
    /// The sealer with the key of the data directory.
    pub sealer: Sealer,
    /// SHA-256 of the operator token.
    pub operator_token: [u8; 32],
}

/// The error of [`prepare`].
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// A secret file of the data directory cannot be read or created.
    #[error("cannot read or make `{path}`")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The IO error.
        #[source]
        source: io::Error,
    },
    /// The key of stored secrets cannot be read, or created in the data directory.
    #[error("cannot read or make {key}")]
    SealKey {
        /// What the source of the key is.
        key: String,
        /// The IO error; contains nothing of the key.
        #[source]
        source: io::Error,
    },
    /// The store has sealed credentials, but their key is missing.
    #[error(
        "`{path}` is missing, and the sealed credentials of the upstreams {upstreams} open with nothing \
         else; put back the file of the directory or host that this database comes from; if it is lost, \
         make a new key with `(umask 077; openssl rand -hex 32 > '{path}')` and set these credentials \
         again (`ctl upstream update NAME --key-stdin`)",
        path = path.display()
    )]
    NoSealKey {
        /// The expected path of the key.
        path: PathBuf,
        /// The names of the upstreams with sealed credentials.
        upstreams: String,
    },
    /// The secrets of the store were encrypted with another key.
    #[error(
        "{key} is another key than the one that encrypted the credentials in the database; put back the key that belongs \
         to it, or, if that is lost, set the credentials again (`ctl upstream update NAME --key-stdin`) while the \
         gateway runs with this one"
    )]
    WrongSealKey {
        /// What the source of the key is.
        key: String,
    },
    /// Other gateways use the store, and have another key.
    #[error(
        "{key} {problem}; copy `seal.key` from the data directory of another gateway of this \
         database, and `operator.token`, too, if the same token should work on each"
    )]
    OtherSealKey {
        /// What the source of the key is.
        key: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Checks that the secrets of a gateway that has run with the data directory `dir` can be read, as
/// [`prepare`] will, without changing anything. Returns the keys of stored secrets.
///
/// # Errors
/// A secret file is malformed, or the key cannot be read.
pub async fn check_secrets(
    dir: &Path,
    seal_key: &SealKeySource,
    entropy: &Arc<dyn Entropy>,
) -> Result<SealKeys, BootstrapError> {
    let key_error = |source| BootstrapError::SealKey { key: seal_key.describe(dir), source };
    if *seal_key == SealKeySource::DataDir && !dir.join(KEY_FILE).exists() {
        return Err(key_error(io::ErrorKind::NotFound.into()));
    }
    let keys = seal_key.read(dir, entropy).await.map_err(key_error)?;
    match std::fs::read_to_string(dir.join(TOKEN_FILE)) {
        Ok(text) if token::is_whole(&text.trim().into()) => Ok(()),
        Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "it holds no token")),
        // A start makes a new one.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
    .map_err(|source| BootstrapError::File { path: dir.join(TOKEN_FILE), source })?;
    Ok(keys)
}

/// Creates missing secrets in the data directory `dir` and missing objects in `store`, then loads
/// both. The key of stored secrets comes from `seal_key`.
///
/// # Errors
/// A secret file cannot be read or created, `seal.key` is missing although it is needed, other
/// gateways have another one, or the store fails.
pub async fn prepare(
    dir: &Path,
    seal_key: &SealKeySource,
    store: &dyn Store,
    clock: &dyn Clock,
    entropy: &Arc<dyn Entropy>,
    seed: &Seed,
) -> Result<InitialState, BootstrapError> {
    let file_error = |name| move |source| BootstrapError::File { path: dir.join(name), source };
    let key = || seal_key.describe(dir);
    let other_key = |problem| BootstrapError::OtherSealKey { key: key(), problem };
    if *seal_key == SealKeySource::DataDir && !dir.join(KEY_FILE).exists() {
        if store.seal_fingerprint().await?.is_some() {
            return Err(other_key("is missing"));
        }
        ensure_nothing_sealed(dir, &store.load().await?.upstreams)?;
    }
    let read = seal_key.read(dir, entropy).await;
    let keys = read.map_err(|source| BootstrapError::SealKey { key: key(), source })?;
    let claimed = store.claim_seal_fingerprint(&keys.fingerprint()).await?;
    let another = || other_key("is another key than that of the other gateways");
    // During a rotation, the database knows which of both keys is in use.
    let keys = keys.preferring(&claimed).ok_or_else(another)?;
    if keys.has_former() && *seal_key == SealKeySource::DataDir {
        tracing::warn!(
            "a rotation of `{KEY_FILE}` was interrupted: complete it with `ctl seal rotate`"
        );
    }
    let sealer = Sealer::new(keys, entropy.clone());
    operator_token::finish_rotation(dir, store).await?.map_err(file_error(TOKEN_FILE))?;
    let token = file::read_or_create(dir, TOKEN_FILE, || token::make(token::OPERATOR, &**entropy))
        .and_then(|token| {
            let short = || io::Error::new(io::ErrorKind::InvalidData, "it holds no token");
            token::is_whole(&token).then_some(token).ok_or_else(short)
        })
        .map_err(file_error(TOKEN_FILE))?;
    let operator_token = token::digest(&token);
    store.adopt_operator_token(operator_token).await?;
    if store.operator_token().await?.digest.is_some_and(|accepted| accepted != operator_token) {
        tracing::warn!(
            path = %dir.join(TOKEN_FILE).display(),
            "this operator token is not accepted, because another gateway has rotated it; copy its file"
        );
    }
    let snapshot = loop {
        match initialize(store, clock, entropy, seed).await {
            // Another gateway starts on the same database; what it added is loaded next time.
            Err(StoreError::Stale) => {}
            outcome => break outcome?,
        }
    };
    let newest = store.newest().await?;
    Ok(InitialState { snapshot, newest, sealer, operator_token })
}

/// Creates missing objects in `store`. Returns its content.
async fn initialize(
    store: &dyn Store,
    clock: &dyn Clock,
    entropy: &Arc<dyn Entropy>,
    seed: &Seed,
) -> Result<Snapshot, StoreError> {
    let mut snapshot = store.load().await?;
    store.mark_applied(snapshot.changes);
    if store.seed(&[free_plan()], &seed.upstreams, &seed.models).await? {
        snapshot = store.load().await?;
        store.mark_applied(snapshot.changes);
    }
    if !snapshot.accounts.iter().any(Account::is_built_in) {
        let now = clock.now();
        let plan = snapshot.plans.iter().find(|plan| plan.name.as_str() == DEFAULT_PLAN);
        let credit = plan.map_or(Nanos::ZERO, |plan| plan.trial_credit);
        let account = Account {
            id: AccountId(entropy.uuid(now)),
            name: OPERATOR.to_owned(),
            role: Role::Owner,
            status: AccountStatus::Active,
            plan: PlanName::new(DEFAULT_PLAN),
            created_at: now,
        };
        // Lets the operator's keys spend before `ctl account credit` is used. It is not trial
        // credit, which has a daily maximum.
        let kind = EntryKind::Credit(FIRST_CREDIT.to_owned());
        let entry = Entry { account: account.id, amount: credit, kind, at: now };
        let entry = (credit != Nanos::ZERO).then_some(entry);
        let audit = AuditEntry {
            at: now,
            actor: None,
            address: None,
            action: AuditAction::AccountRegister,
            object: account.name.clone(),
            account: Some(account.id),
            details: format!("{FIRST_CREDIT}, plan `{}`, credit {credit} dollars", account.plan),
            call: None,
        };
        store
            .add_account(&account, passwords::UNUSABLE_HASH, entry.as_slice(), None, &audit)
            .await?;
        snapshot.balances.extend(entry.map(|entry| (entry.account, entry.amount)));
        snapshot.accounts.push(account);
    }
    Ok(snapshot)
}

/// Fails if `upstreams` have sealed credentials, which a new `seal.key` could not open.
fn ensure_nothing_sealed(dir: &Path, upstreams: &[Upstream]) -> Result<(), BootstrapError> {
    let is_sealed = |upstream: &&Upstream| {
        upstream.secret_sources().any(|source| matches!(source, CredentialSource::Sealed(_)))
    };
    let names: Vec<_> =
        upstreams.iter().filter(is_sealed).map(|upstream| format!("`{}`", upstream.name)).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(BootstrapError::NoSealKey { path: dir.join(KEY_FILE), upstreams: names.join(", ") })
}

/// Returns the default plan. It has no rate limits, because no single value suits all
/// installations; the trial credit bounds its use.
fn free_plan() -> Plan {
    Plan {
        name: PlanName::new(DEFAULT_PLAN),
        trial_credit: TRIAL_CREDIT,
        limits: Limits::default(),
        max_keys: DEFAULT_MAX_KEYS,
        models: Vec::new(),
    }
}
