//! The traffic of the gateways of one database, which they report to each other.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use domain::id::AccountId;
use domain::traffic::{MinuteReport, ReportedTraffic};

/// Reports of the traffic of the last hour. Only a store that several gateways can use has them.
#[async_trait]
pub trait TrafficReports: Send + Sync {
    /// Stores reports of this process. The report of a minute replaces an earlier one of the same minute.
    /// Deletes reports that are older than an hour.
    async fn report_traffic(&self, reports: &[MinuteReport]) -> Result<(), StoreError>;
    /// Returns the reports of other processes on `account`, or on all accounts with `None`, that were stored
    /// within the last `since`. Earlier processes of this node are among them.
    async fn reported_traffic(
        &self,
        account: Option<AccountId>,
        since: Duration,
    ) -> Result<ReportedTraffic, StoreError>;
}
