//! Tests of webhooks by operators.

use super::access::Permission;
use super::{Caller, Control, ControlError};
use crate::webhooks::TestResult;

impl Control {
    /// Sends a test event to each endpoint of webhooks, once, and returns the results.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members and support; [`ControlError::Configuration`] without endpoints.
    pub async fn test_webhooks(&self, caller: &Caller) -> Result<Vec<TestResult>, ControlError> {
        caller.require(Permission::TestWebhooks)?;
        let Some(webhooks) = &self.webhooks else {
            return Err(ControlError::Configuration(
                "this gateway has no webhooks; set `webhook.urls` and a secret, and start it again"
                    .to_owned(),
            ));
        };
        Ok(webhooks.test().await)
    }
}
