//! Canned keys and audit log entries.

use proto::v1::audit_service_server::AuditService;
use proto::v1::key_service_server::KeyService;
use proto::v1::*;
use tonic::Request;

use super::{Answer, FakeGateway, answer, at};

fn key(id: &str, label: &str) -> Key {
    Key {
        id: id.to_owned(),
        account: "alice".to_owned(),
        label: label.to_owned(),
        limits: Some(Limits { rpm: Some(60), ..Limits::default() }),
        models: vec!["sim-fast".to_owned(), "sim-slow".to_owned()],
        created_at: at(0, 0),
        last_used_at: None,
        expires_at: at(86_400, 0),
        revoked_at: None,
        translation: Translation::Lenient.into(),
        client_gone: ClientGone::Cancel.into(),
        drain_seconds: 0,
        trace_content: false,
        spend_cap_usd: "2.5".to_owned(),
        successor: String::new(),
        created_by: "alice".to_owned(),
    }
}

#[tonic::async_trait]
impl KeyService for FakeGateway {
    async fn create_key(&self, request: Request<CreateKeyRequest>) -> Answer<CreateKeyResponse> {
        let input = self.record("CreateKey", request)?;
        answer(CreateKeyResponse {
            key: Some(key("9f2c41d0", &input.label)),
            secret: "sk-tg-9f2c41d0-secret".to_owned(),
        })
    }

    async fn list_keys(&self, request: Request<ListKeysRequest>) -> Answer<ListKeysResponse> {
        self.record("ListKeys", request)?;
        answer(ListKeysResponse { keys: vec![key("9f2c41d0", "ci"), key("11aa22bb", "laptop")] })
    }

    async fn update_key(&self, request: Request<UpdateKeyRequest>) -> Answer<UpdateKeyResponse> {
        let input = self.record("UpdateKey", request)?;
        let key = key(&input.id, input.label.as_deref().unwrap_or("ci"));
        answer(UpdateKeyResponse { key: Some(key) })
    }

    async fn rotate_key(&self, request: Request<RotateKeyRequest>) -> Answer<RotateKeyResponse> {
        self.record("RotateKey", request)?;
        answer(RotateKeyResponse {
            key: Some(key("33cc44dd", "ci")),
            secret: "sk-tg-33cc44dd-secret".to_owned(),
        })
    }

    async fn revoke_key(&self, request: Request<RevokeKeyRequest>) -> Answer<RevokeKeyResponse> {
        let input = self.record("RevokeKey", request)?;
        answer(RevokeKeyResponse {
            key: Some(Key { revoked_at: at(60, 0), ..key(&input.id, "ci") }),
        })
    }
}

#[tonic::async_trait]
impl AuditService for FakeGateway {
    /// Returns two entries, one per page.
    async fn list_audit(&self, request: Request<ListAuditRequest>) -> Answer<ListAuditResponse> {
        let input = self.record("ListAudit", request)?;
        let suspended = AuditEntry {
            id: 8,
            at: at(60, 0),
            actor: "operator".to_owned(),
            action: "account.suspend".to_owned(),
            object: "alice".to_owned(),
            account: "alice".to_owned(),
            details: "invoice 17 is overdue".to_owned(),
            actor_id: "019a9f0e-0000-7000-8000-000000000001".to_owned(),
            address: "192.0.2.7".to_owned(),
        };
        let added = AuditEntry {
            id: 7,
            at: at(0, 0),
            action: "model.add".to_owned(),
            object: "sim-fast".to_owned(),
            account: String::new(),
            details: String::new(),
            ..suspended.clone()
        };
        let (entry, next) =
            if input.page_token.is_empty() { (suspended, "8") } else { (added, "") };
        answer(ListAuditResponse { entries: vec![entry], next_page_token: next.to_owned() })
    }
}
