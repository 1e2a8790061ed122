//! Records for benchmarks.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use domain::endpoint::Endpoint;
use domain::id::{AccountId, KeyId, ModelId, RequestId, UpstreamName};
use domain::money::Nanos;
use domain::record::{RequestRecord, RequestStatus, ServedBy};
use domain::usage::{Tokens, Usage, UsageBasis};
use jiff::Timestamp;
use uuid::Uuid;

const ACCOUNTS: u64 = 50;

/// Returns `size` records from the `first` on.
pub(crate) fn batch(first: usize, size: usize) -> Vec<RequestRecord> {
    (first..first + size).map(|n| record(n as u64)).collect()
}

/// Returns the `n`th record of a load of 20,000 streamed chat requests per second, over several accounts and models.
fn record(n: u64) -> RequestRecord {
    let micros = 1_800_000_000_000_000 + n * 50;
    // Scatters the accounts, and fills the random part of the ids.
    let random = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bytes = (u128::from(random) << 16 | u128::from(n)).to_be_bytes();
    let id = uuid::Builder::from_unix_timestamp_millis(
        micros / 1_000,
        bytes[6..].try_into().unwrap_or(&[0; 10]),
    );
    let account = random >> 32 & 0xffff;
    let account = account % ACCOUNTS;
    RequestRecord {
        id: RequestId(id.into_uuid()),
        account: AccountId(Uuid::from_u128(u128::from(account) << 64 | 7)),
        key: KeyId::new(format!("{account:012x}")),
        endpoint: Endpoint::ChatCompletions,
        model: Some(ModelId::new(["llama-3.3-70b", "gpt-oss-120b"][(random & 1) as usize])),
        deployment: Some(ServedBy {
            upstream: UpstreamName::new("vllm-1"),
            upstream_model: Arc::from("meta-llama/Llama-3.3-70B-Instruct"),
        }),
        stream: true,
        status: RequestStatus::Completed,
        http_status: Some(200),
        error_code: None,
        usage: Some(Usage {
            input: Tokens(1_200),
            cached: Some(Tokens(1_024)),
            output: Tokens(n % 700),
            reasoning: None,
        }),
        basis: UsageBasis::Upstream,
        cost: Some(Nanos(1_234_567)),
        overrun: Nanos::ZERO,
        price_version: Some(3),
        started_at: Timestamp::from_microsecond(micros.cast_signed()).unwrap_or_default(),
        duration: Duration::from_millis(1_850),
        ttft: Some(Duration::from_millis(210)),
        notes: Vec::new(),
        idempotency: None,
        count: NonZeroU32::MIN,
        trace: None,
    }
}
