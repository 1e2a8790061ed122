//! What an operator may set of `/v1/responses`: the `[responses]` table, flags and variables.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::pipeline::responses::{KeepAliveMode, Policy};
use crate::retention::KeepResponses;
use translate::plan::ReasoningOutput;

const DEFAULT_RETENTION_DAYS: u64 = 7;
const DEFAULT_ACCOUNT_MIB: u64 = 256;
const SECONDS_PER_DAY: u64 = 86_400;
const BYTES_PER_MIB: u64 = 1024 * 1024;

/// What was set; `None` is "not here".
#[derive(Args, Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResponsesSettings {
    /// Keep responses, so that requests can continue them by `previous_response_id` [default: true]
    #[arg(
        id = "responses_store",
        long = "responses-store",
        value_name = "BOOL",
        env = "TOLLGATE_RESPONSES_STORE"
    )]
    pub store: Option<bool>,
    /// Days to keep a conversation after it has last gone on [default: 7]
    #[arg(
        id = "responses_retention_days",
        long = "responses-retention-days",
        value_name = "DAYS",
        env = "TOLLGATE_RESPONSES_RETENTION_DAYS"
    )]
    pub retention_days: Option<u64>,
    /// Most that one account may have kept, in MiB; the oldest make room [default: 256]
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
    /// What to send when a stream is silent for 15 seconds [default: auto]
    #[arg(
        id = "responses_keepalive",
        long = "responses-keepalive",
        value_name = "KIND",
        env = "TOLLGATE_RESPONSES_KEEPALIVE"
    )]
    pub keepalive: Option<KeepAliveSetting>,
    /// Where a model's reasoning is shown [default: summary]
    #[arg(
        id = "responses_reasoning",
        long = "responses-reasoning",
        value_name = "PLACE",
        env = "TOLLGATE_RESPONSES_REASONING"
    )]
    pub reasoning: Option<ReasoningSetting>,
}

/// What keeps a silent stream alive, as it is written.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum KeepAliveSetting {
    /// A repeated `response.in_progress` for Codex, a comment for everybody else
    Auto,
    /// A comment
    Comment,
    /// A `keepalive` event, as the original sends
    Event,
}

/// Where reasoning is shown, as it is written.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningSetting {
    /// As a summary: what every client shows
    Summary,
    /// As the item's content
    Content,
    /// Nowhere
    Hidden,
}

/// What a gateway runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponsesConfig {
    /// How long responses are kept, and how many; `None` if they are not stored.
    pub keep: Option<KeepResponses>,
    /// How they are answered.
    pub policy: Policy,
}

impl ResponsesSettings {
    /// Takes from `lower` what is not set here.
    #[must_use]
    pub fn or(self, lower: Self) -> Self {
        Self {
            store: self.store.or(lower.store),
            retention_days: self.retention_days.or(lower.retention_days),
            account_mib: self.account_mib.or(lower.account_mib),
            done_marker: self.done_marker.or(lower.done_marker),
            keepalive: self.keepalive.or(lower.keepalive),
            reasoning: self.reasoning.or(lower.reasoning),
        }
    }

    /// Fills in the defaults.
    ///
    /// # Errors
    /// Responses are to be kept, but for no time or in no space.
    pub fn resolve(self) -> Result<ResponsesConfig> {
        let days = self.retention_days.unwrap_or(DEFAULT_RETENTION_DAYS);
        let account_mib = self.account_mib.unwrap_or(DEFAULT_ACCOUNT_MIB);
        let is_stored = self.store.unwrap_or(true);
        ensure!(
            !is_stored || (days > 0 && account_mib > 0),
            "with 0 for `responses.retention_days` or `responses.account_mib` no response could be kept; \
             to keep none, set `responses.store` to false"
        );
        let keep = KeepResponses {
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
            keep: is_stored.then_some(keep),
            policy: Policy { done_marker: self.done_marker.unwrap_or(true), keep_alive, reasoning },
        })
    }
}
