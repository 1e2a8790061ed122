//! Canned ledger entries, and a backup of ten bytes.

use std::pin::Pin;

use proto::v1::ledger_service_server::LedgerService;
use proto::v1::maintenance_service_server::MaintenanceService;
use proto::v1::*;
use tokio_stream::Stream;
use tonic::{Request, Status};

use super::{Answer, FakeGateway, answer, at};

#[tonic::async_trait]
impl LedgerService for FakeGateway {
    async fn list_entries(
        &self,
        request: Request<ListEntriesRequest>,
    ) -> Answer<ListEntriesResponse> {
        let input = self.record("ListEntries", request)?;
        let charge = LedgerEntry {
            number: 9,
            account: "alice".to_owned(),
            kind: EntryKind::Charge.into(),
            amount_usd: "-0.000098".to_owned(),
            request_id: Some("019a9f0e-0000-7000-8000-00000000000a".to_owned()),
            note: None,
            created_at: at(1, 250_000_000),
        };
        let credit = LedgerEntry {
            number: 2,
            kind: EntryKind::Credit.into(),
            amount_usd: "5".to_owned(),
            request_id: None,
            note: Some("order 7".to_owned()),
            ..charge.clone()
        };
        let (entry, next) = if input.page_token.is_empty() { (charge, "9") } else { (credit, "") };
        answer(ListEntriesResponse { entries: vec![entry], next_page_token: next.to_owned() })
    }

    async fn verify_ledger(
        &self,
        request: Request<VerifyLedgerRequest>,
    ) -> Answer<VerifyLedgerResponse> {
        self.record("VerifyLedger", request)?;
        let correct = VerifyLedgerResponse {
            ok: true,
            balances: 3,
            entries: 120,
            charges: 110,
            requests: 100,
            sums: 24,
            under_way: 1,
            ..VerifyLedgerResponse::default()
        };
        if !self.state.lock().unwrap().has_problems {
            return answer(correct);
        }
        let differences = vec![
            LedgerDifference {
                kind: DifferenceKind::Balance.into(),
                account: Some("alice".to_owned()),
                request_id: None,
                text: "the stored balance is 5 but its entries come to 4".to_owned(),
            },
            LedgerDifference {
                kind: DifferenceKind::Twice.into(),
                account: None,
                request_id: Some("019a9f0e-0000-7000-8000-00000000000a".to_owned()),
                text: "the request was charged more than once".to_owned(),
            },
        ];
        answer(VerifyLedgerResponse { ok: false, differences_found: 7, differences, ..correct })
    }
}

#[tonic::async_trait]
impl MaintenanceService for FakeGateway {
    type BackupStream = Pin<Box<dyn Stream<Item = Result<BackupResponse, Status>> + Send>>;

    /// Sends ten bytes in two chunks.
    async fn backup(&self, request: Request<BackupRequest>) -> Answer<Self::BackupStream> {
        self.record("Backup", request)?;
        let chunk = |data: &[u8]| Ok(BackupResponse { data: data.to_vec(), size_bytes: 10 });
        let mut chunks = vec![chunk(b"a whole"), chunk(b" db")];
        if self.state.lock().unwrap().truncates_backups {
            chunks.pop();
        }
        answer(Box::pin(tokio_stream::iter(chunks)))
    }

    /// One endpoint accepts the event; with injected problems, another one does not.
    async fn test_webhooks(
        &self,
        request: Request<TestWebhooksRequest>,
    ) -> Answer<TestWebhooksResponse> {
        self.record("TestWebhooks", request)?;
        let result = |endpoint: &str, failure: &str| WebhookTestResult {
            endpoint: endpoint.to_owned(),
            failure: failure.to_owned(),
            elapsed_ms: 12.5,
        };
        let mut results = vec![result("https://hooks.example", "")];
        if self.state.lock().unwrap().has_problems {
            results.push(result("http://10.0.0.9:8080", "it answered HTTP 500"));
        }
        answer(TestWebhooksResponse { results })
    }

    async fn get_version(&self, request: Request<GetVersionRequest>) -> Answer<GetVersionResponse> {
        self.record("GetVersion", request)?;
        answer(GetVersionResponse {
            version: "0.9.0".to_owned(),
            commit: "0123456789ab".to_owned(),
            backend: "SQLite".to_owned(),
            schema_version: 22,
        })
    }

    async fn rotate_seal_key(
        &self,
        request: Request<RotateSealKeyRequest>,
    ) -> Answer<RotateSealKeyResponse> {
        self.record("RotateSealKey", request)?;
        answer(RotateSealKeyResponse {
            resealed: 3,
            source: "`/run/secrets/seal` (`seal_key_file`)".to_owned(),
            former_removed: false,
        })
    }

    async fn rotate_operator_token(
        &self,
        request: Request<RotateOperatorTokenRequest>,
    ) -> Answer<RotateOperatorTokenResponse> {
        self.record("RotateOperatorToken", request)?;
        answer(RotateOperatorTokenResponse { path: "/data/operator.token".to_owned() })
    }

    async fn disable_operator_token(
        &self,
        request: Request<DisableOperatorTokenRequest>,
    ) -> Answer<DisableOperatorTokenResponse> {
        self.record("DisableOperatorToken", request)?;
        answer(DisableOperatorTokenResponse { path: "/data/operator.token".to_owned() })
    }

    async fn enable_operator_token(
        &self,
        request: Request<EnableOperatorTokenRequest>,
    ) -> Answer<EnableOperatorTokenResponse> {
        self.record("EnableOperatorToken", request)?;
        answer(EnableOperatorTokenResponse { path: "/data/operator.token".to_owned() })
    }

    async fn reload(&self, request: Request<ReloadRequest>) -> Answer<ReloadResponse> {
        self.record("Reload", request)?;
        answer(ReloadResponse {
            certificate_changed: true,
            rotated_upstreams: vec!["remote".to_owned()],
            applied: vec!["registration".to_owned()],
            need_restart: vec!["edge.max_headers".to_owned(), "workers".to_owned()],
        })
    }
}
