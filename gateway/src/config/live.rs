//! The settings that a reload applies to the running gateway.

use super::{Config, ResponsesSettings, Settings};
use crate::control::Registration;
use crate::http::CorsOrigins;
use crate::retention::RetentionSettings;
use domain::money::Nanos;

/// The settings that apply without a restart.
#[derive(Clone, Debug)]
pub struct LiveSettings {
    /// The registration mode.
    pub registration: Registration,
    /// The maximum number of registrations per client address and hour; zero means no limit.
    pub registrations_per_hour: u32,
    /// The maximum trial credit per day over all accounts.
    pub trial_daily: Nanos,
    /// The origins whose pages may use the API; `None` turns CORS off.
    pub cors: Option<CorsOrigins>,
    /// The retention of request records, responses and revoked keys.
    pub retention: RetentionSettings,
}

// === impl LiveSettings ===

impl LiveSettings {
    pub(super) fn of(config: Config) -> Self {
        Self {
            registration: config.registration,
            registrations_per_hour: config.registrations_per_hour,
            trial_daily: config.trial_daily,
            cors: config.cors,
            retention: RetentionSettings {
                records: config.records,
                responses: config.responses.retention,
                unused_keys: config.unused_keys,
            },
        }
    }
}

// === impl Settings ===

impl Settings {
    /// Returns these settings with those that apply without a restart taken from `new`.
    pub(super) fn with_live(self, new: &Self) -> Self {
        Self {
            cors_origins: new.cors_origins.clone(),
            records_keep_days: new.records_keep_days,
            records_max_rows: new.records_max_rows,
            registration: new.registration,
            registrations_per_hour: new.registrations_per_hour,
            trial_daily_usd: new.trial_daily_usd,
            unused_keys_keep_days: new.unused_keys_keep_days,
            responses: ResponsesSettings {
                account_mib: new.responses.account_mib,
                retention_days: new.responses.retention_days,
                ..self.responses
            },
            ..self
        }
    }
}
