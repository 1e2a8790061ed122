//! The configuration of `/v1/responses`: the `[responses]` table, flags and environment variables.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::settings::merge;
use crate::pipeline::responses::{KeepAliveMode, ResponsesPolicy};
use crate::retention::ResponseRetention;
use translate::plan::ReasoningOutput;

const DEFAULT_RETENTION_DAYS: u64 = 7;
const DEFAULT_ACCOUNT_MIB: u64 = 256;
const SECONDS_PER_DAY: u64 = 86_400;
const BYTES_PER_MIB: u64 = 1024 * 1024;

/// The settings of one source. `None` means that the source does not contain the setting.
#[derive(Args, Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResponsesSettings {
    /// Store responses, so that requests can continue them by `previous_response_id` [default: true]
    #[arg(
        id = "responses_store",
        long = "responses-store",
        value_name = "BOOL",
        env = "TOLLGATE_RESPONSES_STORE"
    )]
    pub store: Option<bool>,
    /// Days to keep a conversation after its last response [default: 7]
    #[arg(
        id = "responses_retention_days",
        long = "responses-retention-days",
        value_name = "DAYS",
        env = "TOLLGATE_RESPONSES_RETENTION_DAYS"
    )]
    pub retention_days: Option<u64>,
    /// Maximum size of the stored responses of an account, in MiB; the oldest are deleted first [default: 256]
    #[arg(
        id = "responses_account_mib",
        long = "responses-account-mib",
        value_name = "MIB",
        env = "TOLLGATE_RESPONSES_ACCOUNT_MIB"
    )]
    pub account_mib: Option<u64>,
    /// End streams with `data: [DONE]` after the last event [default: true]
    #[arg(
        id = "responses_done_marker",
        long = "responses-done-marker",
        value_name = "BOOL",
        env = "TOLLGATE_RESPONSES_DONE_MARKER"
    )]
    pub done_marker: Option<bool>,
    /// What to send on a stream after 15 seconds without an event [default: auto]
    #[arg(
        id = "responses_keepalive",
        long = "responses-keepalive",
        value_name = "KIND",
        env = "TOLLGATE_RESPONSES_KEEPALIVE"
    )]
    pub keepalive: Option<KeepAliveSetting>,
    /// Where to put the reasoning of models [default: summary]
    #[arg(
        id = "responses_reasoning",
        long = "responses-reasoning",
        value_name = "PLACE",
        env = "TOLLGATE_RESPONSES_REASONING"
    )]
    pub reasoning: Option<ReasoningSetting>,
}

/// The keep-alive of streams, as written in a setting.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum KeepAliveSetting {
    /// A repeated `response.in_progress` event for Codex, an SSE comment for other clients
    Auto,
    /// An SSE comment
    Comment,
    /// A `keepalive` event, like OpenAI's API
    Event,
}

/// The place of reasoning in responses, as written in a setting.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningSetting {
    /// In the reasoning item's summary, which all clients show
    Summary,
    /// In the reasoning item's content
    Content,
    /// Omitted
    Hidden,
}

/// The validated configuration of `/v1/responses`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponsesConfig {
    /// The retention of stored responses; `None` if they are not stored.
    pub retention: Option<ResponseRetention>,
    /// The form of responses.
    pub policy: ResponsesPolicy,
}

impl ResponsesSettings {
    /// Returns these settings, with missing ones taken from `lower`.
    #[must_use]
    pub fn or(self, lower: Self) -> Self {
        merge! { self or lower:
            store, retention_days, account_mib, done_marker, keepalive, reasoning,
        }
    }

    /// Validates the settings and adds the defaults.
    ///
    /// # Errors
    /// Responses are to be stored, but the retention time or the space is zero.
    pub fn resolve(self) -> Result<ResponsesConfig> {
        let days = self.retention_days.unwrap_or(DEFAULT_RETENTION_DAYS);
        let account_mib = self.account_mib.unwrap_or(DEFAULT_ACCOUNT_MIB);
        let is_stored = self.store.unwrap_or(true);
        ensure!(
            !is_stored || (days > 0 && account_mib > 0),
            "`responses.retention_days` and `responses.account_mib` must be greater than 0; to store no responses, \
             set `responses.store` to false"
        );
        let retention = ResponseRetention {
            keep_for: Duration::from_secs(days.saturating_mul(SECONDS_PER_DAY)),
            account_bytes: account_mib.saturating_mul(BYTES_PER_MIB),
        };
        let keep_alive = match self.keepalive {
            Some(KeepAliveSetting::Auto) | None => KeepAliveMode::Auto,
            Some(KeepAliveSetting::Comment) => KeepAliveMode::Comment,
            Some(KeepAliveSetting::Event) => KeepAliveMode::Event,
        };
        let reasoning = match self.reasoning {
            Some(ReasoningSetting::Summary) | None => ReasoningOutput::Summary,
            Some(ReasoningSetting::Content) => ReasoningOutput::Content,
            Some(ReasoningSetting::Hidden) => ReasoningOutput::Hidden,
        };
        Ok(ResponsesConfig {
            retention: is_stored.then_some(retention),
            policy: ResponsesPolicy {
                done_marker: self.done_marker.unwrap_or(true),
                keep_alive,
                reasoning,
            },
        })
    }
}
