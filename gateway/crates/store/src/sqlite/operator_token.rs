//! The state of the operator token.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension};

use super::codec::{ReadColumn, parameters};
use super::{SqliteStore, password_resets};
use crate::StoreError;
use crate::operator_token::{NAME, OperatorTokens, decode, encode};
use domain::account::OperatorToken;
use domain::audit::AuditEntry;
use domain::id::AccountId;

#[async_trait]
impl OperatorTokens for SqliteStore {
    async fn operator_token(&self) -> Result<OperatorToken, StoreError> {
        self.read(|tx| find(tx)).await
    }

    async fn set_operator_token(
        &self,
        token: &OperatorToken,
        account: AccountId,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let token = *token;
        self.write_audited(audit, move |tx| {
            put(tx, &token)?;
            password_resets::remove(tx, account)
        })
        .await
    }

    async fn adopt_operator_token(&self, digest: [u8; 32]) -> Result<(), StoreError> {
        self.write(move |tx| {
            let token = find(tx)?;
            if token.digest.is_none_or(|accepted| accepted == digest) {
                return Ok(());
            }
            put(tx, &OperatorToken { digest: None, ..token })
        })
        .await
    }
}

fn find(tx: &Connection) -> Result<OperatorToken, StoreError> {
    let mut select = tx.prepare_cached("SELECT value FROM meta WHERE name = ?")?;
    decode(select.query_row(parameters![NAME], |row| row.column(0)).optional()?)
}

fn put(tx: &Connection, token: &OperatorToken) -> Result<(), StoreError> {
    let sql = "INSERT INTO meta (name, value) VALUES (?, ?) \
        ON CONFLICT DO UPDATE SET value = excluded.value";
    tx.execute(sql, parameters![NAME, encode(token)])?;
    Ok(())
}
