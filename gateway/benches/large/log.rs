//! Generates the contents of the store: sixty days of requests by 200 accounts with three keys each and two models
//! per key, and by one account with few requests.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use domain::account::{Account, AccountStatus, Role};
use domain::audit::{AuditAction, AuditEntry};
use domain::endpoint::Endpoint;
use domain::id::{AccountId, KeyId, ModelId, PlanName, RequestId, UpstreamName};
use domain::key::{ClientGone, Key, KeyDigest, Translation};
use domain::limit::Limits;
use domain::money::Nanos;
use domain::record::{RequestRecord, RequestStatus, ServedBy};
use domain::usage::{Tokens, Usage, UsageBasis};
use jiff::Timestamp;
use store::{Identities, StoreError};
use uuid::Uuid;

/// The account with few requests.
pub(crate) const QUIET_ACCOUNT: u64 = ACCOUNTS;
/// The model with few requests.
pub(crate) const RARE_MODEL: u64 = MODELS;

const ACCOUNTS: u64 = 200;
const KEYS_PER_ACCOUNT: u64 = 3;
const MODELS: u64 = 8;
/// The interval, in requests, of requests by the quiet account, for the rare model, and that fail.
const RARE_INTERVAL: u64 = 50_000;
/// The start of the log, 2027-01-15, in microseconds since the Unix epoch.
const START_MICROS: i64 = 1_800_000_000_000_000;
/// The duration of the log, sixty days, in microseconds.
const DURATION_MICROS: u64 = 60 * 86_400_000_000;

/// A log of `records` request records.
pub(crate) struct Log {
    pub(crate) records: u64,
}

pub(crate) fn account(number: u64) -> AccountId {
    AccountId(Uuid::from_u128(u128::from(number) << 64 | 7))
}

pub(crate) fn key(account: u64, number: u64) -> KeyId {
    KeyId::new(format!("{account:06x}{number:06x}"))
}

pub(crate) fn model(number: u64) -> ModelId {
    ModelId::new(format!("model-{number}"))
}

/// Adds the accounts and their keys. Every key has a spending cap.
pub(crate) async fn register(store: &impl Identities) -> Result<(), StoreError> {
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
    for owner in 0..=QUIET_ACCOUNT {
        let account = Account {
            id: account(owner),
            name: format!("account-{owner}"),
            role: Role::Member,
            status: AccountStatus::Active,
            plan: PlanName::new("free"),
            created_at: at,
        };
        store.add_account(&account, "", &[], None, &audit).await?;
        for number in 0..KEYS_PER_ACCOUNT {
            let id = key(owner, number);
            let key = Key {
                digest: KeyDigest::of(id.as_str()),
                account: account.id,
                label: format!("key-{number}"),
                origin: id.clone(),
                id,
                limits: Limits::default(),
                spend_cap: Some(Nanos(i64::MAX)),
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
    }
    Ok(())
}

impl Log {
    /// Returns the arrival time of the last request.
    pub(crate) fn end(&self) -> Timestamp {
        self.time(self.records)
    }

    /// Returns the start of the month of the last request.
    pub(crate) fn month(&self) -> Timestamp {
        domain::month::month_start(self.end())
    }

    /// Returns the records with these numbers.
    pub(crate) fn batch(&self, numbers: Range<u64>) -> Vec<RequestRecord> {
        numbers.map(|number| self.record(number)).collect()
    }

    /// Returns the arrival time of a request.
    fn time(&self, number: u64) -> Timestamp {
        let micros = START_MICROS + (DURATION_MICROS / self.records * number).cast_signed();
        Timestamp::from_microsecond(micros).unwrap_or_default()
    }

    fn record(&self, number: u64) -> RequestRecord {
        let started_at = self.time(number);
        // Distributes accounts and models, and fills the random part of the ids.
        let random = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bytes = (u128::from(random) << 16 | u128::from(number)).to_be_bytes();
        let id = uuid::Builder::from_unix_timestamp_millis(
            started_at.as_millisecond().cast_unsigned(),
            bytes[6..].try_into().unwrap_or(&[0; 10]),
        );
        let is_rare = |remainder| number % RARE_INTERVAL == remainder;
        let owner = if is_rare(0) { QUIET_ACCOUNT } else { (random >> 32) % ACCOUNTS };
        let key_number = (random >> 24) % KEYS_PER_ACCOUNT;
        let model_number = (owner + key_number + (random >> 20 & 1)) % MODELS;
        let (status, error_code) = match random % 16 {
            _ if is_rare(1) => (RequestStatus::Failed, Some("upstream_timeout".to_owned())),
            0 => (RequestStatus::Cancelled, None),
            _ => (RequestStatus::Completed, None),
        };
        RequestRecord {
            id: RequestId(id.into_uuid()),
            account: account(owner),
            key: key(owner, key_number),
            endpoint: Endpoint::ChatCompletions,
            model: Some(model(if is_rare(2) { RARE_MODEL } else { model_number })),
            deployment: Some(ServedBy {
                upstream: UpstreamName::new("vllm-1"),
                upstream_model: Arc::from("meta-llama/Llama-3.3-70B-Instruct"),
            }),
            stream: true,
            status,
            http_status: Some(200),
            error_code,
            usage: Some(Usage {
                input: Tokens(1_200),
                cached: Some(Tokens(1_024)),
                output: Tokens(number % 700),
                reasoning: None,
            }),
            basis: UsageBasis::Upstream,
            cost: Some(Nanos(1_234_567)),
            overrun: Nanos::ZERO,
            price_version: Some(3),
            started_at,
            duration: Duration::from_millis(1_850),
            ttft: Some(Duration::from_millis(210)),
            notes: Vec::new(),
            idempotency: None,
            count: NonZeroU32::MIN,
            trace: None,
        }
    }
}
