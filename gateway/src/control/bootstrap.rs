//! What a start needs before anything is served: the secrets of the data directory, the default
//! plan, the built-in operator account, and the first catalogue.
//!
//! Every step may be repeated: a start that was cut short is mended by the next.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{passwords, token};
use crate::clock::{Clock, Entropy};
use crate::secrets::file;
use crate::secrets::seal::{KEY_FILE, Sealer};
use domain::account::{Account, AccountStatus, OPERATOR, Role};
use domain::audit::{AuditAction, AuditEntry};
use domain::id::{AccountId, PlanName};
use domain::ledger::{Entry, EntryKind};
use domain::limit::Limits;
use domain::model::Model;
use domain::money::Nanos;
use domain::plan::{DEFAULT_PLAN, Plan};
use domain::upstream::{CredentialSource, Upstream};
use store::{Cursor, Snapshot, Store, StoreError};

/// The operator token's file in the data directory.
pub const TOKEN_FILE: &str = "operator.token";

/// Why there is an operator, and why it has credit.
const FIRST_CREDIT: &str = "by the first start";
/// The trial credit of the plan that a fresh install has: 5 dollars.
const TRIAL_CREDIT: Nanos = Nanos(5_000_000_000);

/// What a store that has never had a catalogue is given.
#[derive(Debug, Default)]
pub struct Seed {
    /// Upstreams.
    pub upstreams: Vec<Upstream>,
    /// Models on them.
    pub models: Vec<Model>,
}

/// A store and a data directory that are ready.
pub struct InitialState {
    /// What the gateway keeps in memory.
    pub snapshot: Snapshot,
    /// The newest request record.
    pub newest: Cursor,
    /// Opens sealed credentials.
    pub sealer: Sealer,
    /// SHA-256 of the operator token.
    pub operator_token: [u8; 32],
}

/// Why a start failed here.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// A secret of the data directory cannot be read or made.
    #[error("cannot read or make `{path}`")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There are credentials that only a key can open that is gone.
    #[error(
        "`{path}` is missing, and the sealed credentials of the upstreams {upstreams} open with nothing \
         else; put back the file of the directory or host that this database comes from; if it is lost, \
         make a new key with `(umask 077; openssl rand -hex 32 > '{path}')` and set these credentials \
         again (`ctl upstream update NAME --key-stdin`)",
        path = path.display()
    )]
    NoSealKey {
        /// Where it should be.
        path: PathBuf,
        /// Whose credentials.
        upstreams: String,
    },
    /// The store did not do its part.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes what is missing in the data directory `dir` and in `store`, and loads the rest.
///
/// # Errors
/// A secret's file cannot be read or made, `seal.key` is missing though it is needed, or the store fails.
pub async fn prepare(
    dir: &Path,
    store: &dyn Store,
    clock: &dyn Clock,
    entropy: &Arc<dyn Entropy>,
    seed: &Seed,
) -> Result<InitialState, BootstrapError> {
    let file_error = |name| move |source| BootstrapError::File { path: dir.join(name), source };
    if !dir.join(KEY_FILE).exists() {
        refuse_a_new_seal(dir, &store.load().await?.upstreams)?;
    }
    let sealer = Sealer::open(dir, entropy.clone()).map_err(file_error(KEY_FILE))?;
    let token = file::read_or_make(dir, TOKEN_FILE, || token::make(token::OPERATOR, &**entropy))
        .and_then(|token| {
            // an empty file would make the empty token an operator's
            let whole = secrecy::ExposeSecret::expose_secret(&token).len() >= 32;
            let short = || io::Error::new(io::ErrorKind::InvalidData, "it holds no token");
            whole.then_some(token).ok_or_else(short)
        })
        .map_err(file_error(TOKEN_FILE))?;
    store.seed(&[free_plan()], &seed.upstreams, &seed.models).await?;
    let mut snapshot = store.load().await?;
    if !snapshot.accounts.iter().any(|account| account.name == OPERATOR) {
        let now = clock.now();
        let plan = snapshot.plans.iter().find(|plan| plan.name.as_str() == DEFAULT_PLAN);
        let credit = plan.map_or(Nanos::ZERO, |plan| plan.trial_credit);
        let account = Account {
            id: AccountId(entropy.uuid(now)),
            name: OPERATOR.to_owned(),
            role: Role::Operator,
            status: AccountStatus::Active,
            plan: PlanName::new(DEFAULT_PLAN),
            created_at: now,
        };
        // What a key of its own may spend before anybody knows of `ctl account credit`. It is no trial, of
        // which there is so much a day.
        let kind = EntryKind::Credit(FIRST_CREDIT.to_owned());
        let entry = Entry { account: account.id, amount: credit, kind, at: now };
        let entry = (credit != Nanos::ZERO).then_some(&entry);
        let audit = AuditEntry {
            at: now,
            actor: None,
            action: AuditAction::AccountRegister,
            object: account.name.clone(),
            account: Some(account.id),
            details: format!("{FIRST_CREDIT}, plan `{}`, credit {credit} dollars", account.plan),
            call: None,
        };
        store.add_account(&account, passwords::NOBODY, entry, None, &audit).await?;
        snapshot.balances.extend(entry.map(|entry| (entry.account, entry.amount)));
        snapshot.accounts.push(account);
    }
    let newest = store.newest().await?;
    Ok(InitialState { snapshot, newest, sealer, operator_token: token::digest(&token) })
}

/// Refuses to go on if a new `seal.key` would make credentials of `upstreams` unreadable.
fn refuse_a_new_seal(dir: &Path, upstreams: &[Upstream]) -> Result<(), BootstrapError> {
    let is_sealed =
        |upstream: &&Upstream| matches!(upstream.credential, CredentialSource::Sealed(_));
    let names: Vec<_> =
        upstreams.iter().filter(is_sealed).map(|upstream| format!("`{}`", upstream.name)).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(BootstrapError::NoSealKey { path: dir.join(KEY_FILE), upstreams: names.join(", ") })
}

/// The plan of a fresh install. Its bound is the trial credit: a rate that suits one installation
/// would throttle the next, so there is none until an operator sets one.
fn free_plan() -> Plan {
    Plan {
        name: PlanName::new(DEFAULT_PLAN),
        trial_credit: TRIAL_CREDIT,
        limits: Limits::default(),
        models: Vec::new(),
    }
}
