//! Applies changes that other gateways made to the directory of this one.

use std::sync::Arc;

use super::Control;
use crate::directory::Catalogue;
use store::StoreError;
use store::fleet::{StoredCatalogue, UnappliedChanges};

impl Control {
    /// Applies all changes that other gateways committed. Changes of this gateway wait meanwhile, so
    /// that no older version of an object replaces a newer one.
    ///
    /// # Errors
    /// The store failed; nothing is applied.
    ///
    /// # Cancel safety
    /// Dropping the future before it completes may leave changes applied in part; the next call
    /// applies them again.
    pub async fn follow_changes(&self) -> Result<(), StoreError> {
        let _write_guard = self.write_lock.lock().await;
        self.apply_unapplied_changes().await
    }

    /// Like [`follow_changes`](Self::follow_changes), for a caller that has the write lock.
    pub(super) async fn apply_unapplied_changes(&self) -> Result<(), StoreError> {
        self.apply_to_directory(self.store.unapplied_changes().await?).await;
        Ok(())
    }

    /// Applies changes that were read under the write lock.
    pub(super) async fn apply_to_directory(&self, changes: UnappliedChanges) {
        if changes.is_complete {
            self.directory.remove_others(&changes.accounts, &changes.people, &changes.keys);
        }
        // A key must not be found before its account, nor an account before its plan.
        if let Some(catalogue) = changes.catalogue {
            self.replace_catalogue(catalogue).await;
        }
        for account in changes.accounts {
            let id = account.id;
            self.directory.put_account(account);
            self.ledger.balance_changed(id);
        }
        for person in changes.people {
            self.directory.put_person(person);
        }
        for key in changes.keys {
            // A revoked key keeps the cap that it had; those that replaced it may have another one.
            if key.revoked_at.is_none() {
                self.ledger.set_spend_cap(&key);
            }
            self.directory.put_key(key);
        }
        self.store.mark_applied(changes.newest);
    }

    async fn replace_catalogue(&self, stored: StoredCatalogue) {
        let StoredCatalogue { plans, models, upstreams } = stored;
        let mut catalogue = Catalogue::new(plans, models, upstreams);
        // Before the directory, so that no request finds an upstream without its credential. Also
        // those of unchanged entries: an operator may have reported to another gateway that a file has changed.
        self.refresh_credentials(catalogue.upstreams.values()).await;
        // An equal entry stays the same one, because a replaced one loses its connections.
        let current = self.directory.catalogue().clone();
        for (name, upstream) in &mut catalogue.upstreams {
            if let Some(entry) = current.upstreams.get(name).filter(|entry| *entry == upstream) {
                *upstream = Arc::clone(entry);
            }
        }
        self.directory.set_catalogue(catalogue);
        self.drop_old_credentials();
    }
}
