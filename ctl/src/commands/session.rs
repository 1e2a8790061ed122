//! `ctl session …`, and the printed form of sessions.

use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::{ListSessionsRequest, RevokeOtherSessionsRequest, RevokeSessionRequest, Session};
use serde::Serialize;

use super::rfc3339;
use crate::Shell;
use crate::cli::session::{Revoke, SessionCommand};
use crate::error::Failure;
use crate::output::Record;

/// A session, as printed.
#[derive(Serialize)]
struct SessionRecord {
    id: String,
    created_at: Option<String>,
    expires_at: Option<String>,
    current: bool,
}

/// Runs `ctl session …`.
pub(super) async fn run(shell: &mut Shell<'_>, command: SessionCommand) -> Result<(), Failure> {
    match command {
        SessionCommand::List => list(shell).await,
        SessionCommand::Revoke(Revoke { id: Some(id), .. }) => revoke(shell, id).await,
        SessionCommand::Revoke(Revoke { id: None, .. }) => revoke_others(shell).await,
    }
}

async fn list(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let answer = client.list_sessions(ListSessionsRequest {}).await?.into_inner();
    let sessions: Vec<_> = answer.sessions.into_iter().map(SessionRecord::from).collect();
    shell.output.many(&sessions)
}

async fn revoke(shell: &mut Shell<'_>, id: String) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    client.revoke_session(RevokeSessionRequest { id: id.clone() }).await?;
    shell.output.note(&format!("ended session {id}"));
    Ok(())
}

async fn revoke_others(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let mut client = AccountServiceClient::new(shell.connect().await?);
    let answer = client.revoke_other_sessions(RevokeOtherSessionsRequest {}).await?.into_inner();
    shell.output.note(&count_text(answer.ended_sessions));
    Ok(())
}

/// Returns a message with the number of ended sessions.
pub(super) fn count_text(count: u64) -> String {
    match count {
        0 => "no other session was open".to_owned(),
        1 => "ended 1 other session".to_owned(),
        count => format!("ended {count} other sessions"),
    }
}

// === impl SessionRecord ===

impl From<Session> for SessionRecord {
    fn from(session: Session) -> Self {
        Self {
            id: session.id,
            created_at: rfc3339(session.created_at),
            expires_at: rfc3339(session.expires_at),
            current: session.current,
        }
    }
}

impl Record for SessionRecord {
    const FIELDS: &'static [&'static str] = &["id", "created_at", "expires_at", "current"];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;

    fn text(&self, field: &str) -> Option<String> {
        (field == "current").then(|| if self.current { "yes" } else { "no" }.to_owned())
    }
}
