//! From the admin contract's types to ours, by hand.
//!
//! An absent message, an empty amount and an unset enum all become `None`: unknown.

use jiff::Timestamp;
use proto::v1;

use crate::model::record::{Account, Limits, Record, Role, Status, Tokens, Totals, Usage};

/// Converts an account.
pub(super) fn account(account: v1::Account) -> Account {
    Account {
        role: match account.role() {
            v1::Role::Unspecified => None,
            v1::Role::Member => Some(Role::Member),
            v1::Role::Operator => Some(Role::Operator),
        },
        suspended: account.status() == v1::AccountStatus::Suspended,
        plan: present(account.plan),
        balance_usd: present(account.balance_usd),
        name: account.name,
    }
}

/// Takes the limits out of a plan.
pub(super) fn limits(plan: &v1::Plan) -> Limits {
    let v1::Limits { rpm, tpm, concurrency, .. } = plan.limits.unwrap_or_default();
    Limits { rpm, tpm, concurrency }
}

/// Converts sums.
pub(super) fn usage(usage: v1::SummarizeUsageResponse) -> Usage {
    Usage {
        totals: totals(usage.totals),
        by_model: usage.by_model.into_iter().map(|by| (by.model, totals(by.totals))).collect(),
    }
}

/// Converts a request record.
pub(super) fn record(record: v1::RequestRecord) -> Record {
    let status = status(record.status());
    Record {
        started_at: record
            .started_at
            .and_then(|time| Timestamp::new(time.seconds, time.nanos).ok()),
        model: record.model,
        status,
        tokens: tokens(record.tokens),
        // The contract has no "unknown" here, but nobody saw the end of an interrupted request.
        duration_ms: record.duration_ms,
        cost_usd: record.cost_usd.and_then(present),
    }
}

fn status(status: v1::RequestStatus) -> Option<Status> {
    match status {
        v1::RequestStatus::Unspecified => None,
        v1::RequestStatus::Completed => Some(Status::Completed),
        v1::RequestStatus::Incomplete => Some(Status::Incomplete),
        v1::RequestStatus::Failed => Some(Status::Failed),
        v1::RequestStatus::Cancelled => Some(Status::Cancelled),
        v1::RequestStatus::Interrupted => Some(Status::Interrupted),
        v1::RequestStatus::Rejected => Some(Status::Rejected),
    }
}

fn totals(totals: Option<v1::UsageTotals>) -> Totals {
    let totals = totals.unwrap_or_default();
    Totals {
        requests: totals.requests,
        errors: totals.errors,
        tokens: tokens(totals.tokens),
        cost_usd: present(totals.cost_usd),
    }
}

fn tokens(tokens: Option<v1::TokenCounts>) -> Tokens {
    let tokens = tokens.unwrap_or_default();
    Tokens {
        input: tokens.input,
        cached: tokens.cached,
        output: tokens.output,
        reasoning: tokens.reasoning,
    }
}

fn present(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
