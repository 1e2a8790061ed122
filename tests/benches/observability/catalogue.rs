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

pub(crate) const ACCOUNTS: usize = 1_000;

/// How many models and keys there are.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) models: usize,
    pub(crate) keys: usize,
}

/// Returns the name of a model. It is as long as those of large catalogues.
pub(crate) fn model(number: usize) -> String {
    format!("vendor/some-model-{number:05}-instruct")
}

/// Returns the text of a key. The gateway looks for its digest, and the form does not matter.
pub(crate) fn key(number: usize) -> String {
    format!("sk-tg-{number:012x}")
}

/// Adds all of it to the store at `path`, with the models on an upstream at `url`. Models are free.
pub(crate) async fn fill(path: &Path, url: &str, sizes: Sizes) -> Result<(), StoreError> {
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
    for number in 0..sizes.models {
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
    let id = KeyId::new(key_id(0));
    let first = Key {
        digest: KeyDigest::of(&key(0)),
        account: account(0),
        label: "key".to_owned(),
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
    store.add_key(&first, &audit).await?;
    store.close().await;
    copy_first_key(path, sizes.keys).expect("the table of keys takes all of them");
    Ok(())
}

/// Copies the first key until there are `keys`, in one transaction: the store has one for each key, which would take
/// minutes.
fn copy_first_key(path: &Path, keys: usize) -> rusqlite::Result<()> {
    let mut connection = rusqlite::Connection::open(path)?;
    let transaction = connection.transaction()?;
    let columns: Vec<String> = transaction
        .prepare("SELECT name FROM pragma_table_info('keys')")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let values = columns.iter().map(|name| match name.as_str() {
        "id" | "origin" => "?1",
        "digest" => "?2",
        "account" => "?3",
        name => name,
    });
    let copy = format!(
        "INSERT INTO keys ({}) SELECT {} FROM keys WHERE id = ?4",
        columns.join(", "),
        values.collect::<Vec<_>>().join(", ")
    );
    let mut copy = transaction.prepare(&copy)?;
    for number in 1..keys {
        let (digest, account) = (KeyDigest::of(&key(number)), account(number % ACCOUNTS));
        copy.execute((key_id(number), digest.0, account.0.as_bytes(), key_id(0)))?;
    }
    drop(copy);
    transaction.commit()
}

fn key_id(number: usize) -> String {
    format!("{number:012x}")
}

fn account(number: usize) -> AccountId {
    AccountId(Uuid::from_u128((number as u128) << 64 | 7))
}
