//! What requests are served from: keys, accounts and the catalogue, in memory.
//!
//! Reads take no lock and never wait; a change is seen by the next request. Only `control` writes
//! here, after the store has.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use domain::account::Account;
use domain::account_name::{AccountName, Appearance, normalized};
use domain::id::{AccountId, ModelId, PlanName, UpstreamName};
use domain::key::{Key, KeyDigest};
use domain::model::Model;
use domain::plan::Plan;
use domain::upstream::Upstream;
use store::Snapshot;

type Map<K, V> = papaya::HashMap<K, V, foldhash::fast::RandomState>;

/// Keys, accounts and the catalogue.
pub struct Directory {
    keys: Map<KeyDigest, Arc<Key>>,
    accounts: Map<AccountId, Arc<Account>>,
    names: Map<String, AccountId>,
    /// What the names look like.
    appearances: Map<Appearance, AccountId>,
    catalogue: ArcSwap<Catalogue>,
}

/// Plans, models and upstreams: few, rarely changed, replaced whole.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// Plans by name.
    pub plans: BTreeMap<PlanName, Arc<Plan>>,
    /// Models by id.
    pub models: BTreeMap<ModelId, Arc<Model>>,
    /// Upstreams by name.
    pub upstreams: BTreeMap<UpstreamName, Arc<Upstream>>,
    /// Ids and aliases, as requests name them.
    by_request_name: HashMap<ModelId, Arc<Model>>,
}

// === impl Directory ===

impl Directory {
    /// Takes in what the store holds.
    pub fn new(everything: Snapshot) -> Self {
        let catalogue = Catalogue::new(everything.plans, everything.models, everything.upstreams);
        let directory = Self {
            keys: Map::default(),
            accounts: Map::default(),
            names: Map::default(),
            appearances: Map::default(),
            catalogue: ArcSwap::from_pointee(catalogue),
        };
        for account in everything.accounts {
            directory.put_account(account);
        }
        everything.keys.into_iter().for_each(|key| directory.put_key(key));
        directory
    }

    /// Returns the key of this digest, usable or not.
    pub fn find_key(&self, digest: &KeyDigest) -> Option<Arc<Key>> {
        self.keys.pin().get(digest).cloned()
    }

    /// Returns an account by its id.
    pub fn find_account(&self, id: AccountId) -> Option<Arc<Account>> {
        self.accounts.pin().get(&id).cloned()
    }

    /// Returns an account by its name, compared without case: as it is, for names from before they were
    /// normalised, else in its normal form.
    pub fn find_account_named(&self, name: &str) -> Option<Arc<Account>> {
        let names = self.names.pin();
        let found = names.get(&name.to_lowercase());
        let id = *found.or_else(|| names.get(&normalized(name).to_lowercase()))?;
        self.find_account(id)
    }

    /// Whether there is an account whose name could be taken for `name`.
    pub fn has_account_like(&self, name: &AccountName) -> bool {
        let appearances = self.appearances.pin();
        let conflicts = Appearance::all(name.as_str());
        conflicts.iter().flat_map(Appearance::conflicts).any(|it| appearances.contains_key(&it))
    }

    /// Returns all accounts, by name.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        let mut all: Vec<_> = self.accounts.pin().values().cloned().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Returns the catalogue as it is now. Keep it only for as long as one request is planned.
    pub fn catalogue(&self) -> Guard<Arc<Catalogue>> {
        self.catalogue.load()
    }

    pub(crate) fn put_account(&self, account: Account) -> Arc<Account> {
        let account = Arc::new(account);
        self.accounts.pin().insert(account.id, account.clone());
        self.names.pin().insert(account.name.to_lowercase(), account.id);
        for appearance in Appearance::all(&account.name) {
            self.appearances.pin().insert(appearance, account.id);
        }
        account
    }

    pub(crate) fn put_key(&self, key: Key) {
        self.keys.pin().insert(key.digest, Arc::new(key));
    }

    /// Puts a whole catalogue in the place of the one that is there.
    pub(crate) fn set_catalogue(&self, mut catalogue: Catalogue) {
        catalogue.index();
        self.catalogue.store(Arc::new(catalogue));
    }

    pub(crate) fn change_catalogue(&self, change: impl FnOnce(&mut Catalogue)) {
        let mut catalogue = Catalogue::clone(&self.catalogue.load());
        change(&mut catalogue);
        self.set_catalogue(catalogue);
    }
}

// === impl Catalogue ===

impl Catalogue {
    /// Builds a catalogue of these parts.
    pub fn new(plans: Vec<Plan>, models: Vec<Model>, upstreams: Vec<Upstream>) -> Self {
        let mut catalogue = Self {
            plans: plans.into_iter().map(|plan| (plan.name.clone(), Arc::new(plan))).collect(),
            models: models.into_iter().map(|model| (model.id.clone(), Arc::new(model))).collect(),
            upstreams: upstreams
                .into_iter()
                .map(|upstream| (upstream.name.clone(), Arc::new(upstream)))
                .collect(),
            by_request_name: HashMap::new(),
        };
        catalogue.index();
        catalogue
    }

    /// Returns the model that requests call `name`, by its id or an alias.
    pub fn find_model(&self, name: &str) -> Option<&Arc<Model>> {
        self.by_request_name.get(name)
    }

    /// Returns the model that is shown to people as `name`.
    pub fn find_model_displayed_as(&self, name: &str) -> Option<&Arc<Model>> {
        self.models.values().find(|model| model.display_name.eq_ignore_ascii_case(name))
    }

    pub(crate) fn index(&mut self) {
        self.by_request_name = self
            .models
            .values()
            .flat_map(|model| {
                std::iter::once(&model.id)
                    .chain(&model.aliases)
                    .map(|name| (name.clone(), model.clone()))
            })
            .collect();
    }
}
