//! `ctl account export`: writes everything about an account as JSON lines.
//!
//! The field `record` of each line is its kind: `account`, `person`, `key`, `invite`, `usage_day`, `request`, `ledger_entry`,
//! `audit_entry` or `response`. Lists are read page by page, so that memory is bounded.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

use proto::client::Connection;
use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::audit_service_client::AuditServiceClient;
use proto::v1::key_service_client::KeyServiceClient;
use proto::v1::ledger_service_client::LedgerServiceClient;
use proto::v1::people_service_client::PeopleServiceClient;
use proto::v1::usage_service_client::UsageServiceClient;
use proto::v1::{
    Account, ExportRequestsRequest, ExportResponsesRequest, GetAccountRequest, ListAuditRequest,
    ListEntriesRequest, ListInvitesRequest, ListKeysRequest, ListPeopleRequest, RequestFilter,
    SummarizeUsageRequest,
};
use serde::Serialize;
use tempfile::NamedTempFile;
use tonic::Code;

use super::invite::InviteRecord;
use super::people::PersonRecord;
use super::record::AccountRecord;
use crate::Shell;
use crate::cli::account::Export;
use crate::commands::request::RequestRow;
use crate::commands::{audit, key, ledger, required, usage};
use crate::error::{Exit, Failure};

const PAGE: u32 = 500;

/// A record with its kind.
#[derive(Serialize)]
struct Line<T> {
    /// The kind. Ledger entries have a field `kind` themselves.
    record: &'static str,
    #[serde(flatten)]
    fields: T,
}

/// The file that is written, and the account that it is about.
struct Exporter<'a> {
    file: BufWriter<NamedTempFile>,
    path: &'a Path,
    account: Account,
    lines: u64,
}

/// Runs `ctl account export`.
pub(super) async fn run(shell: &mut Shell<'_>, input: Export) -> Result<(), Failure> {
    let path = &*input.out;
    if !shell.globals.yes && path.symlink_metadata().is_ok() {
        return Err(already_exists(path));
    }
    let connection = shell.connect().await?;
    let mut client = AccountServiceClient::new(connection.clone());
    let request = GetAccountRequest { account: input.account };
    let account = required(client.get_account(request).await?.into_inner().account, "account")?;
    let dir = path.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new("."));
    // Created readable only by its owner, and removed if the export fails.
    let file = NamedTempFile::new_in(dir).map_err(|it| Failure::file("writing", path, &it))?;
    let mut exporter = Exporter { file: BufWriter::new(file), path, account, lines: 0 };
    exporter.identity(&connection).await?;
    exporter.requests(&connection).await?;
    exporter.ledger(&connection).await?;
    exporter.audit(&connection).await?;
    exporter.responses(&connection).await?;
    let lines = exporter.finish(shell.globals.yes)?;
    shell.output.note(&format!("wrote {lines} lines to `{}`", path.display()));
    Ok(())
}

impl Exporter<'_> {
    fn write<T: Serialize>(&mut self, record: &'static str, fields: T) -> Result<(), Failure> {
        let line = serde_json::to_string(&Line { record, fields })
            .map_err(|error| Failure::new(Exit::Failed, error))?;
        self.bytes(line.as_bytes())?;
        self.bytes(b"\n")
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.lines += bytes.split(|byte| *byte == b'\n').skip(1).count() as u64;
        self.file.write_all(bytes).map_err(|error| Failure::file("writing", self.path, &error))
    }

    /// Writes the account, its people, its keys, and the invites that it created or used. Only operators see
    /// invites.
    async fn identity(&mut self, connection: &Connection) -> Result<(), Failure> {
        self.write("account", AccountRecord::from(self.account.clone()))?;
        let request = ListPeopleRequest { account: self.account.id.clone() };
        let people = PeopleServiceClient::new(connection.clone()).list_people(request).await?;
        for person in people.into_inner().people {
            self.write("person", PersonRecord::from(person))?;
        }
        let request = ListKeysRequest { account: self.account.id.clone() };
        let keys = KeyServiceClient::new(connection.clone()).list_keys(request).await?;
        for key in keys.into_inner().keys {
            self.write("key", key::KeyRecord::from(key))?;
        }
        let mut client = AccountServiceClient::new(connection.clone());
        let invites = match client.list_invites(ListInvitesRequest {}).await {
            Ok(answer) => answer.into_inner().invites,
            Err(status) if status.code() == Code::PermissionDenied => Vec::new(),
            Err(status) => return Err(status.into()),
        };
        for invite in invites {
            if [&invite.created_by, &invite.used_by].contains(&&self.account.name) {
                self.write("invite", InviteRecord::from(invite))?;
            }
        }
        Ok(())
    }

    /// Writes the usage by day and the request records.
    async fn requests(&mut self, connection: &Connection) -> Result<(), Failure> {
        let account = self.account.id.clone();
        let filter = RequestFilter { account, ..RequestFilter::default() };
        let since = self.account.created_at;
        let all = RequestFilter { since, ..filter.clone() };
        let mut client = UsageServiceClient::new(connection.clone());
        let request = SummarizeUsageRequest { filter: Some(all), models_by_time: false };
        let summary = client.summarize_usage(request).await?.into_inner();
        for day in usage::SummaryRecord::from(summary).by_day {
            self.write("usage_day", day)?;
        }
        let request = ExportRequestsRequest { filter: Some(filter) };
        let mut pages = client.export_requests(request).await?.into_inner();
        while let Some(page) = pages.message().await? {
            for record in page.requests {
                self.write("request", RequestRow::from(record))?;
            }
        }
        Ok(())
    }

    async fn ledger(&mut self, connection: &Connection) -> Result<(), Failure> {
        let mut client = LedgerServiceClient::new(connection.clone());
        let mut page_token = String::new();
        loop {
            let account = self.account.id.clone();
            let request = ListEntriesRequest { account, page_size: PAGE, page_token };
            let page = client.list_entries(request).await?.into_inner();
            for entry in page.entries {
                self.write("ledger_entry", ledger::EntryRecord::from(entry))?;
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(());
            }
        }
    }

    async fn audit(&mut self, connection: &Connection) -> Result<(), Failure> {
        let mut client = AuditServiceClient::new(connection.clone());
        let mut page_token = String::new();
        loop {
            let account = self.account.id.clone();
            let request =
                ListAuditRequest { account, page_size: PAGE, page_token, since: None, until: None };
            let page = client.list_audit(request).await?.into_inner();
            for entry in page.entries {
                self.write("audit_entry", audit::EntryRecord::from(entry))?;
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(());
            }
        }
    }

    async fn responses(&mut self, connection: &Connection) -> Result<(), Failure> {
        let mut client = UsageServiceClient::new(connection.clone());
        let request = ExportResponsesRequest { account: self.account.id.clone() };
        let mut chunks = client.export_responses(request).await?.into_inner();
        while let Some(chunk) = chunks.message().await? {
            self.bytes(&chunk.data)?;
        }
        Ok(())
    }

    /// Moves the complete file to its place. Returns the number of lines.
    fn finish(self, overwrites: bool) -> Result<u64, Failure> {
        let failure = |error: std::io::Error| Failure::file("writing", self.path, &error);
        let file = self.file.into_inner().map_err(|error| failure(error.into_error()))?;
        file.as_file().sync_all().map_err(failure)?;
        if overwrites {
            file.persist(self.path).map_err(|error| failure(error.error))?;
        } else {
            file.persist_noclobber(self.path).map_err(|error| match error.error.kind() {
                ErrorKind::AlreadyExists => already_exists(self.path),
                _ => failure(error.error),
            })?;
        }
        Ok(self.lines)
    }
}

fn already_exists(path: &Path) -> Failure {
    Failure::new(Exit::Conflict, format!("`{}` exists already", path.display()))
        .advise("choose another name, or overwrite it with --yes")
}
