//! The in-memory state that requests are served from: keys, accounts and the catalogue.
//!
//! Reads are lock-free, and a change is visible to the next request. Only `control` writes here,
//! after it has written to the store.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::watch;

use domain::account::Account;
use domain::account_name::{AccountName, Appearance, normalized};
use domain::id::{AccountId, KeyId, ModelId, PlanName, UpstreamName};
use domain::key::{Key, KeyDigest};
use domain::model::Model;
use domain::person::Person;
use domain::plan::Plan;
use domain::upstream::Upstream;
use store::Snapshot;

type Map<K, V> = papaya::HashMap<K, V, foldhash::fast::RandomState>;

/// Keys, accounts and the catalogue, in memory.
pub struct Directory {
    keys: Map<KeyDigest, Arc<Key>>,
    accounts: Map<AccountId, Arc<Account>>,
    /// The people of accounts, removed ones included.
    people: Map<AccountId, Arc<Person>>,
    /// Accounts and people by name in lower case.
    names: Map<String, AccountId>,
    /// Accounts and people by the appearance of their names, to refuse confusable ones.
    confusables: Map<Appearance, AccountId>,
    catalogue: ArcSwap<Catalogue>,
    /// Notifies of changes of the catalogue.
    catalogue_changes: watch::Sender<()>,
}

/// Plans, models and upstreams. Small and rarely changed, therefore replaced as a whole.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// Plans by name.
    pub plans: BTreeMap<PlanName, Arc<Plan>>,
    /// Models by id.
    pub models: BTreeMap<ModelId, Arc<Model>>,
    /// Upstreams by name.
    pub upstreams: BTreeMap<UpstreamName, Arc<Upstream>>,
    /// Models by id and by alias.
    by_request_name: HashMap<ModelId, Arc<Model>>,
}

// === impl Directory ===

impl Directory {
    /// Creates a directory with the content of the store.
    pub fn new(snapshot: Snapshot) -> Self {
        let catalogue = Catalogue::new(snapshot.plans, snapshot.models, snapshot.upstreams);
        let directory = Self {
            keys: Map::default(),
            accounts: Map::default(),
            people: Map::default(),
            names: Map::default(),
            confusables: Map::default(),
            catalogue: ArcSwap::from_pointee(catalogue),
            catalogue_changes: watch::Sender::new(()),
        };
        for account in snapshot.accounts {
            directory.put_account(account);
        }
        for person in snapshot.people {
            directory.put_person(person);
        }
        snapshot.keys.into_iter().for_each(|key| directory.put_key(key));
        directory
    }

    /// Returns the key with this digest, including expired and revoked keys.
    pub fn find_key(&self, digest: &KeyDigest) -> Option<Arc<Key>> {
        self.keys.pin().get(digest).cloned()
    }

    /// Returns the keys with these ids, which takes longer the more keys there are.
    pub fn find_keys(&self, ids: &HashSet<KeyId>) -> HashMap<KeyId, Arc<Key>> {
        let keys = self.keys.pin();
        let wanted = keys.values().filter(|key| ids.contains(&key.id));
        wanted.map(|key| (key.id.clone(), key.clone())).collect()
    }

    /// Returns an account by its id.
    pub fn find_account(&self, id: AccountId) -> Option<Arc<Account>> {
        self.accounts.pin().get(&id).cloned()
    }

    /// Returns a person by its id, also a removed one.
    pub fn find_person(&self, id: AccountId) -> Option<Arc<Person>> {
        self.people.pin().get(&id).cloned()
    }

    /// Returns an account by its name, ignoring case.
    pub fn find_account_named(&self, name: &str) -> Option<Arc<Account>> {
        self.find_account(self.find_id_named(name)?)
    }

    /// Returns the id of the account or the person with a name, ignoring case.
    ///
    /// Looks up the given form first, for accounts that are older than name normalisation, then the
    /// normalised form.
    pub fn find_id_named(&self, name: &str) -> Option<AccountId> {
        let names = self.names.pin();
        let found = names.get(&name.to_lowercase());
        found.or_else(|| names.get(&normalized(name).to_lowercase())).copied()
    }

    /// Whether the name of an existing account or person other than `except` is visually confusable with
    /// `name`.
    pub fn has_name_like(&self, name: &AccountName, except: Option<AccountId>) -> bool {
        let confusables = self.confusables.pin();
        let own = Appearance::all(name.as_str());
        let is_other = |it| confusables.get(&it).is_some_and(|id| Some(*id) != except);
        own.iter().flat_map(Appearance::conflicts).any(is_other)
    }

    /// Returns all accounts, by name.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        let mut all: Vec<_> = self.accounts.pin().values().cloned().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Returns the current catalogue. The guard should be held only briefly: at most while a
    /// request is planned.
    pub fn catalogue(&self) -> Guard<Arc<Catalogue>> {
        self.catalogue.load()
    }

    /// Returns a receiver that is notified of changes of the catalogue.
    pub(crate) fn catalogue_changes(&self) -> watch::Receiver<()> {
        self.catalogue_changes.subscribe()
    }

    pub(crate) fn put_account(&self, account: Account) -> Arc<Account> {
        let account = Arc::new(account);
        if let Some(before) = self.find_account(account.id).filter(|it| it.name != account.name) {
            self.remove_name(&before.name, before.id);
        }
        self.accounts.pin().insert(account.id, account.clone());
        self.add_name(&account.name, account.id);
        account
    }

    pub(crate) fn put_person(&self, person: Person) -> Arc<Person> {
        let person = Arc::new(person);
        // The name of a removed person is free, and its deletion replaces it.
        if let Some(before) = self.find_person(person.id).filter(|_| person.is_removed) {
            self.remove_name(&before.name, before.id);
        }
        self.people.pin().insert(person.id, person.clone());
        if !person.is_removed {
            self.add_name(&person.name, person.id);
        }
        person
    }

    fn add_name(&self, name: &str, id: AccountId) {
        self.names.pin().insert(name.to_lowercase(), id);
        for appearance in Appearance::all(name) {
            self.confusables.pin().insert(appearance, id);
        }
    }

    /// Frees the name of an account or a person that has it.
    fn remove_name(&self, name: &str, id: AccountId) {
        let names = self.names.pin();
        let _ = names.remove_if(&name.to_lowercase(), |_, other| *other == id);
        let confusables = self.confusables.pin();
        for appearance in Appearance::all(name) {
            let _ = confusables.remove_if(&appearance, |_, other| *other == id);
        }
    }

    pub(crate) fn put_key(&self, key: Key) {
        self.keys.pin().insert(key.digest, Arc::new(key));
    }

    /// Removes all keys, people and accounts but these.
    pub(crate) fn remove_others(&self, accounts: &[Account], people: &[Person], keys: &[Key]) {
        // A key must not be found without its account.
        let kept: HashSet<_> = keys.iter().map(|key| key.digest).collect();
        let all_keys = self.keys.pin();
        for digest in all_keys.keys().filter(|digest| !kept.contains(digest)) {
            all_keys.remove(digest);
        }
        let kept: HashSet<_> = people.iter().map(|person| person.id).collect();
        let all_people = self.people.pin();
        for (id, person) in all_people.iter().filter(|(id, _)| !kept.contains(id)) {
            all_people.remove(id);
            self.remove_name(&person.name, *id);
        }
        let kept: HashSet<_> = accounts.iter().map(|account| account.id).collect();
        let all_accounts = self.accounts.pin();
        for (id, account) in all_accounts.iter().filter(|(id, _)| !kept.contains(id)) {
            all_accounts.remove(id);
            self.remove_name(&account.name, *id);
        }
    }

    /// Replaces the catalogue.
    pub(crate) fn set_catalogue(&self, mut catalogue: Catalogue) {
        catalogue.index();
        self.catalogue.store(Arc::new(catalogue));
        self.catalogue_changes.send_replace(());
    }

    pub(crate) fn change_catalogue(&self, change: impl FnOnce(&mut Catalogue)) {
        let mut catalogue = Catalogue::clone(&self.catalogue.load());
        change(&mut catalogue);
        self.set_catalogue(catalogue);
    }
}

// === impl Catalogue ===

impl Catalogue {
    /// Builds a catalogue with its index.
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

    /// Returns a model by its id or an alias.
    pub fn find_model(&self, name: &str) -> Option<&Arc<Model>> {
        self.by_request_name.get(name)
    }

    /// Returns a model by its display name, ignoring ASCII case.
    pub fn find_model_displayed_as(&self, name: &str) -> Option<&Arc<Model>> {
        self.models.values().find(|model| model.display_name.eq_ignore_ascii_case(name))
    }

    /// Rebuilds the index of ids and aliases. Must be called after a change of `models`.
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
