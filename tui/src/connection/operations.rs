//! Runs operations and route explanations, each on its own connection, so that a lost session
//! connection does not end them.

use proto::client;
use proto::v1;
use proto::v1::diagnostics_service_client::DiagnosticsServiceClient;
use proto::v1::ledger_service_client::LedgerServiceClient;
use proto::v1::maintenance_service_client::MaintenanceServiceClient;
use proto::v1::model_service_client::ModelServiceClient;
use secrecy::SecretString;
use tempfile::NamedTempFile;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tonic::Status;

use std::path::Path;

use super::address::Address;
use super::call::with_timeout;
use super::{convert, problem};
use crate::clock;
use crate::message::Message;
use crate::model::operations::{OperationEvent, OperationKind, OperationRequest};

/// Reports the events of one run.
struct Reporter {
    run: u64,
    messages: mpsc::Sender<Message>,
}

/// Runs an operation and reports its events. There is no timeout: a verification takes as long as there
/// are records, and the user can stop it.
///
/// # Cancel safety
/// Dropping the future stops the operation. An incomplete backup is removed.
pub async fn operate(
    gateway: Address,
    token: SecretString,
    request: OperationRequest,
    messages: mpsc::Sender<Message>,
) {
    let reporter = Reporter { run: request.run, messages };
    reporter.report(OperationEvent::Started(clock::now())).await;
    let result = match connect(&gateway, &token).await {
        Ok(connection) => work(connection, request, &reporter).await,
        Err(problem) => Err(problem),
    };
    reporter.report(OperationEvent::Ended(clock::now(), result)).await;
}

/// Asks how requests for a model are routed.
pub async fn explain(
    gateway: Address,
    token: SecretString,
    model: String,
    messages: mpsc::Sender<Message>,
) {
    let route = async {
        let mut models = ModelServiceClient::new(connect(&gateway, &token).await?);
        let request = v1::ExplainRouteRequest { model: model.clone(), prompt_cache_key: None };
        let answer = with_timeout(models.explain_route(request)).await;
        answer.map(convert::route).map_err(|status| problem::change(&status))
    };
    let route = route.await;
    // Fails only during shutdown.
    let _ = messages.send(Message::RouteExplained(model, route)).await;
}

async fn connect(gateway: &Address, token: &SecretString) -> Result<client::Connection, String> {
    let connection = gateway.connect(Some(token)).await;
    connection.map_err(|error| problem::unreachable(gateway.server(), &error))
}

async fn work(
    connection: client::Connection,
    request: OperationRequest,
    reporter: &Reporter,
) -> Result<(), String> {
    let of_call = |status: Status| problem::change(&status);
    match request.kind {
        OperationKind::Diagnosis => diagnose(connection, false, reporter).await.map_err(of_call),
        OperationKind::TestRequests => diagnose(connection, true, reporter).await.map_err(of_call),
        OperationKind::Verification => verify(connection, reporter).await.map_err(of_call),
        OperationKind::Backup => {
            let path = request.file.unwrap_or_default();
            back_up(connection, Path::new(&path), reporter).await
        }
    }
}

async fn diagnose(
    connection: client::Connection,
    send_requests: bool,
    reporter: &Reporter,
) -> Result<(), Status> {
    let mut diagnostics = DiagnosticsServiceClient::new(connection);
    let request = v1::DiagnoseRequest { send_requests };
    let mut findings = diagnostics.diagnose(request).await?.into_inner();
    while let Some(finding) = findings.message().await? {
        reporter.report(OperationEvent::Found(convert::finding(finding))).await;
    }
    Ok(())
}

async fn verify(connection: client::Connection, reporter: &Reporter) -> Result<(), Status> {
    let mut ledger = LedgerServiceClient::new(connection);
    let answer = ledger.verify_ledger(v1::VerifyLedgerRequest {}).await?.into_inner();
    reporter.report(OperationEvent::Verified(convert::verification(answer))).await;
    Ok(())
}

/// Copies the database to a new file, which exists once it is complete, readable only by its owner.
async fn back_up(
    connection: client::Connection,
    path: &Path,
    reporter: &Reporter,
) -> Result<(), String> {
    // The directory may change or be unknown to the user by the time the result is read.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let path = absolute.as_path();
    let shown = path.display();
    let writing = |error: std::io::Error| format!("writing `{shown}`: {error}");
    if path.symlink_metadata().is_ok() {
        return Err(format!("`{shown}` exists already: choose another name"));
    }
    reporter.report(OperationEvent::Writing(shown.to_string())).await;
    let directory = path.parent().filter(|it| *it != Path::new("")).unwrap_or(Path::new("."));
    let unfinished = NamedTempFile::new_in(directory).map_err(writing)?;
    let mut file = File::from_std(unfinished.as_file().try_clone().map_err(writing)?);
    let of_call = |status: Status| problem::change(&status);
    let mut maintenance = MaintenanceServiceClient::new(connection);
    let answer = maintenance.backup(v1::BackupRequest {}).await.map_err(of_call)?;
    let mut chunks = answer.into_inner();
    let (mut written, mut size, mut percent) = (0, 0, None);
    while let Some(chunk) = chunks.message().await.map_err(of_call)? {
        file.write_all(&chunk.data).await.map_err(writing)?;
        written += chunk.data.len() as u64;
        size = chunk.size_bytes;
        let reached = Some(written.saturating_mul(100) / size.max(1));
        if std::mem::replace(&mut percent, reached) != reached {
            reporter.report(OperationEvent::Copied(written, size)).await;
        }
    }
    // Only `flush` returns the error of the last write, which may still be running.
    file.flush().await.map_err(writing)?;
    file.sync_all().await.map_err(writing)?;
    if written != size || size == 0 {
        return Err("the backup was interrupted: try again".to_owned());
    }
    unfinished.persist_noclobber(path).map_err(|error| writing(error.error))?;
    Ok(())
}

// === impl Reporter ===

impl Reporter {
    async fn report(&self, event: OperationEvent) {
        // Fails only during shutdown.
        let _ = self.messages.send(Message::Operation(self.run, event)).await;
    }
}
