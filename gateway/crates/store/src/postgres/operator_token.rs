//! The state of the operator token.

use async_trait::async_trait;

use super::changes::ChangedObject;
use super::codec::{ReadColumn, parameters};
use super::{PostgresStore, password_resets};
use crate::StoreError;
use crate::operator_token::{NAME, OperatorTokens, decode, encode};
use domain::account::OperatorToken;
use domain::audit::AuditEntry;
use domain::id::AccountId;

#[async_trait]
impl OperatorTokens for PostgresStore {
    async fn operator_token(&self) -> Result<OperatorToken, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let sql = "SELECT value FROM meta WHERE name = $1";
        let row = tx.query_opt(sql, parameters![NAME]).await?;
        decode(row.map(|row| row.column(0)).transpose()?)
    }

    async fn set_operator_token(
        &self,
        token: &OperatorToken,
        account: AccountId,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        // Named as a change of the account, so that a change of another owner is not made at the same time.
        let mut tx = self.begin_change(&mut connection).await?;
        let sql = "INSERT INTO meta (name, value) VALUES ($1, $2) \
            ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        tx.execute(sql, parameters![NAME, encode(token)]).await?;
        password_resets::remove(&tx, account).await?;
        tx.changes(ChangedObject::Account(account));
        tx.commit_audited(audit).await
    }

    async fn adopt_operator_token(&self, _: [u8; 32]) -> Result<(), StoreError> {
        Ok(())
    }
}
