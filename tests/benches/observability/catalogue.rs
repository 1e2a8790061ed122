//! Fills a store with many models and keys.

use std::path::Path;
use std::sync::Arc;

use domain::account::{Account, AccountStatus, Role};
use domain::audit::{AuditAction, AuditEntry};
use domain::id::{AccountId, KeyId, ModelId, PlanName, UpstreamName};
use domain::key::{ClientGone, Key, KeyDigest, Translation};
use domain::limit::Limits;
use domain::model::{Deployment, Model};
use domain::price::Price;
use domain::upstream::Upstream;
use jiff::Timestamp;
use store::sqlite::SqliteStore;
use store::{Catalogue, Identities, StoreError};
use uuid::Uuid;

pub(crate) const MODELS: usize = 10_000;
pub(crate) const ACCOUNTS: usize = 1_000;
pub(crate) const KEYS: usize = 100_000;

/// Returns the name of a model. It is as long as those of large catalogues.
pub(crate) fn model(number: usize) -> String {
    format!("vendor/some-model-{number:05}-instruct")
}

/// Returns the text of a key. The gateway looks for its digest, and the form does not matter.
pub(crate) fn key(number: usize) -> String {
    format!("sk-tg-{number:012x}")
}

/// Adds all of it to the store at `path`, with the models on an upstream at `url`. Models are free.
pub(crate) async fn fill(path: &Path, url: &str) -> Result<(), StoreError> {
    let store = SqliteStore::open(path)?;
    let at = Timestamp::UNIX_EPOCH;
    let audit = AuditEntry {
        at,
        actor: None,
        address: None,
        action: AuditAction::AccountRegister,
        object: String::new(),
        account: None,
        details: String::new(),
        call: None,
    };
    let upstream = Upstream::new(UpstreamName::new("measured"), url, at);
    store.put_upstream(&upstream, &audit).await?;
    for number in 0..MODELS {
        let deployment = Deployment {
            upstream: upstream.name.clone(),
            upstream_model: Arc::from("sim-chat"),
            weight: 1,
            priority: 0,
        };
        let model = Model {
            price: Price { version: 1, ..Price::default() },
            deployments: vec![deployment],
            ..Model::new(ModelId::new(model(number)), at)
        };
        store.put_model(&model, &audit).await?;
    }
    for number in 0..ACCOUNTS {
        let account = Account {
            id: account(number),
            name: format!("account-{number}"),
            role: Role::Member,
            status: AccountStatus::Active,
            plan: PlanName::new("free"),
            created_at: at,
        };
        store.add_account(&account, "", &[], None, &audit).await?;
    }
    for number in 0..KEYS {
        let id = KeyId::new(format!("{number:012x}"));
        let key = Key {
            digest: KeyDigest::of(&key(number)),
            account: account(number % ACCOUNTS),
            label: format!("key-{number}"),
            origin: id.clone(),
            id,
            limits: Limits::default(),
            spend_cap: None,
            models: Vec::new(),
            translation: Translation::default(),
            client_gone: ClientGone::default(),
            trace_content: false,
            created_at: at,
            expires_at: None,
            revoked_at: None,
            successor: None,
            created_by: None,
        };
        store.add_key(&key, &audit).await?;
    }
    store.close().await;
    Ok(())
}

fn account(number: usize) -> AccountId {
    AccountId(Uuid::from_u128((number as u128) << 64 | 7))
}
