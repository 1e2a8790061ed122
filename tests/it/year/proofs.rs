//! What must be true at the end of the year, and after each month.

use std::collections::BTreeMap;
use std::path::PathBuf;

use domain::money::Nanos;
use gateway::clock::Clock as _;
use proto::v1::{self, EntryKind};
use rusqlite::Connection;
use tests::with_timeout;

use super::team::{KEEP, Year};
use crate::ledger::proof;

/// The first day that summaries cover.
const BEGIN: i64 = 1_735_689_600; // 2025-01-01

impl Year {
    /// Waits until records that are too old are deleted.
    pub(super) async fn check_retention(&self) {
        let cutoff = self.clock.now().as_second() - i64::try_from(KEEP.as_secs()).unwrap();
        let operator = self.product.operator().await;
        let swept = async {
            loop {
                let records = operator.records(0).await;
                assert!(!records.is_empty());
                let started = |record: &v1::RequestRecord| record.started_at.unwrap().seconds;
                if records.iter().all(|record| started(record) >= cutoff) {
                    return;
                }
            }
        };
        with_timeout("the removal of old records", swept).await;
    }

    /// Each request is counted once, charges are what it cost, and entries add up to balances.
    pub(super) async fn check_sums(&self) {
        let proof = proof(&self.product).await;
        assert!(proof.ok, "{proof:?}");
        let operator = self.product.operator().await;
        let since = Some(prost_types::Timestamp { seconds: BEGIN, nanos: 0 });
        let filter = Some(v1::RequestFilter { since, ..Default::default() });
        let request = v1::SummarizeUsageRequest { filter, models_by_time: false };
        let usage = operator.usage().summarize_usage(request).await.unwrap().into_inner();
        let totals = usage.totals.unwrap();
        assert_eq!(totals.requests, self.sent);

        let mut page_token = String::new();
        let (mut sums, mut charged) = (BTreeMap::<_, i64>::new(), 0);
        loop {
            let request = v1::ListEntriesRequest { page_token, ..Default::default() };
            let page = operator.ledger().list_entries(request).await.unwrap().into_inner();
            for entry in page.entries {
                let Nanos(amount) = entry.amount_usd.parse().unwrap();
                charged -= if entry.kind() == EntryKind::Charge { amount } else { 0 };
                *sums.entry(entry.account).or_default() += amount;
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        assert_eq!(Nanos(charged), totals.cost_usd.parse().unwrap());
        let request = v1::ListAccountsRequest { page_size: 100, ..Default::default() };
        let accounts = operator.accounts().list_accounts(request).await.unwrap().into_inner();
        assert_eq!(accounts.accounts.len(), 14, "the operator, the founder, twelve newcomers");
        for account in accounts.accounts {
            let sum = sums.remove(&account.name).unwrap_or_default();
            assert_eq!(Nanos(sum), account.balance_usd.parse().unwrap(), "{}", account.name);
        }
        assert_eq!(sums, BTreeMap::new());
    }

    /// The audit log has each step once, in order, with its actor.
    pub(super) async fn check_audit(&self) {
        let operator = self.product.operator().await;
        let mut page_token = String::new();
        let mut entries = Vec::new();
        loop {
            let request = v1::ListAuditRequest { page_token, ..Default::default() };
            let page = operator.audit().list_audit(request).await.unwrap().into_inner();
            entries.extend(page.entries);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        entries.reverse();
        // Sign-ins, and the call of the admin who had been removed, are no steps.
        let is_step =
            |entry: &&v1::AuditEntry| !["session.create", "token.refuse"].contains(&&*entry.action);
        let entries = entries.iter().filter(is_step);
        let found: Vec<_> = entries.map(|entry| (&*entry.actor, &*entry.action)).collect();
        let expected: Vec<_> =
            self.steps.iter().map(|(actor, action)| (actor.as_str(), *action)).collect();
        assert_eq!(found, expected);
    }

    /// Returns the backup of the present day, when it is complete.
    pub(super) async fn backup_of_today(&self) -> PathBuf {
        let name = self.clock.now().strftime("tollgate-%Y%m%dT%H%M%SZ.db").to_string();
        let path = self.product.home.scratch().join("copies").join(name);
        let made = async {
            while !path.exists() {
                tokio::task::yield_now().await;
            }
        };
        with_timeout("the backup", made).await;
        path
    }

    /// The newest backups are kept, of the last months, and can be read.
    pub(super) async fn check_backups(&self) {
        let dir = self.product.home.scratch().join("copies");
        let kept = ["20261101", "20261201", "20270101"]
            .map(|day| dir.join(format!("tollgate-{day}T090000Z.db")));
        // The last one may still be made, and the oldest be deleted.
        let complete = async {
            loop {
                let entries = std::fs::read_dir(&dir).unwrap();
                let mut copies: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
                copies.sort();
                if copies == kept {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        with_timeout("the newest backups", complete).await;
        for path in kept {
            let copy = Connection::open(path).unwrap();
            let check = copy.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
            assert_eq!(check.unwrap(), "ok");
        }
    }
}
