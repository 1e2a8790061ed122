//! Notifications by other gateways, over a dedicated connection: a pooled one would not be read while
//! it is idle.

use std::future::poll_fn;
use std::pin::pin;

use async_trait::async_trait;
use tokio::time::timeout;
use tokio_postgres::AsyncMessage;

use super::error::StalledError;
use super::tls::MakeConnector;
use super::transaction::CONNECTION_LIMIT;
use super::{PostgresStore, changes, recalls};
use crate::StoreError;
use crate::fleet::{Notification, Notifications};

/// The server closed the connection.
#[derive(Debug, thiserror::Error)]
#[error("the server closed the connection for notifications")]
struct ClosedError;

#[async_trait]
impl Notifications for PostgresStore {
    async fn watch(&self, notify: &(dyn Fn(Notification) + Send + Sync)) -> StoreError {
        match self.listen(notify).await {
            Ok(()) => StoreError::Unavailable(ClosedError.into()),
            Err(error) => error,
        }
    }
}

impl PostgresStore {
    async fn listen(
        &self,
        notify: &(dyn Fn(Notification) + Send + Sync),
    ) -> Result<(), StoreError> {
        let tls = MakeConnector::new(self.address.trust().client_config());
        let connecting = timeout(CONNECTION_LIMIT, self.address.config().connect(tls));
        let connected =
            connecting.await.map_err(|_| StoreError::Unavailable(StalledError.into()))?;
        let (client, mut connection) = connected?;
        let sql = format!("LISTEN {}; LISTEN {}", changes::CHANNEL, recalls::CHANNEL);
        let mut listening = pin!(client.batch_execute(&sql));
        let mut is_listening = false;
        loop {
            tokio::select! {
                listened = &mut listening, if !is_listening => {
                    listened?;
                    is_listening = true;
                    // Changes between the last connection and this one were not notified.
                    notify(Notification::Changes);
                }
                message = poll_fn(|context| connection.poll_message(context)) => match message {
                    Some(Ok(AsyncMessage::Notification(received))) => {
                        if received.channel() != recalls::CHANNEL {
                            notify(Notification::Changes);
                        } else if let Some(recall) =
                            recalls::decode(self.epoch.id, received.payload())
                        {
                            notify(Notification::Recall(recall));
                        }
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error.into()),
                    None => return Ok(()),
                },
            }
        }
    }
}
