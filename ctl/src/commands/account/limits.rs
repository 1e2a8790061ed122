//! `ctl account limits`: the limits of an account and their current use.

use proto::v1::traffic_service_client::TrafficServiceClient;
use proto::v1::{LimitKind, LimitUse, ListLimitUseRequest};
use serde::Serialize;

use super::super::{enum_name, rfc3339};
use crate::Shell;
use crate::cli::account::Limits;
use crate::error::Failure;
use crate::output::{Record, chart};

/// The width of a limit's bar, in cells.
const BAR_WIDTH: usize = 10;

/// A limit, as printed.
#[derive(Serialize)]
struct LimitRecord {
    /// The kind of object that has the limit: `plan`, `key` or `model`.
    scope: Option<String>,
    subject: String,
    kind: Option<String>,
    /// For a spending cap, in billionths of a US dollar.
    limit: u64,
    /// In the unit of `limit`.
    used: u64,
    observed: bool,
    resets_at: Option<String>,
    #[serde(skip)]
    is_money: bool,
    #[serde(skip)]
    share: String,
}

/// Runs `ctl account limits`.
pub(super) async fn run(shell: &mut Shell<'_>, input: Limits) -> Result<(), Failure> {
    let account = input.account.unwrap_or_default();
    let mut client = TrafficServiceClient::new(shell.connect().await?);
    let answer = client.list_limit_use(ListLimitUseRequest { account }).await?.into_inner();
    let unicode = shell.output.unicode();
    let limits: Vec<_> =
        answer.limits.into_iter().map(|limit| LimitRecord::new(limit, unicode)).collect();
    shell.output.many(&limits)
}

// === impl LimitRecord ===

impl LimitRecord {
    fn new(limit: LimitUse, unicode: bool) -> Self {
        let ratio = chart::ratio(limit.used, limit.limit);
        Self {
            scope: enum_name(limit.scope().as_str_name(), "LIMIT_SCOPE_"),
            kind: enum_name(limit.kind().as_str_name(), "LIMIT_KIND_"),
            is_money: limit.kind() == LimitKind::Spending,
            subject: limit.subject,
            limit: limit.limit,
            used: limit.used,
            observed: limit.observed,
            resets_at: rfc3339(limit.resets_at),
            share: format!("{:>3.0}% {}", ratio * 100.0, chart::bar(ratio, BAR_WIDTH, unicode)),
        }
    }
}

impl Record for LimitRecord {
    const FIELDS: &'static [&'static str] =
        &["scope", "subject", "kind", "limit", "used", "observed", "resets_at"];
    const COLUMNS: &'static [&'static str] =
        &["scope", "subject", "kind", "use", "share", "resets_at", "observed"];

    fn text(&self, field: &str) -> Option<String> {
        let amount = |amount: u64| if self.is_money { dollars(amount) } else { amount.to_string() };
        match field {
            "use" => Some(format!("{} of {}", amount(self.used), amount(self.limit))),
            "share" => Some(self.share.trim_end().to_owned()),
            _ => None,
        }
    }
}

/// Formats billionths of a US dollar as dollars, without rounding.
fn dollars(nanos: u64) -> String {
    let text = format!("${}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
