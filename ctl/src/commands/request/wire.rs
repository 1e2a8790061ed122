//! `ctl request capture` and `ctl request show --wire`: the captured messages of requests.

use proto::v1::usage_service_client::UsageServiceClient;
use proto::v1::{CaptureRequestsRequest, GetRequestWireRequest, WireMessage};
use serde::Serialize;

use super::super::{enum_name, non_empty, rfc3339};
use super::find;
use crate::Shell;
use crate::cli::request::Capture;
use crate::error::{Failure, one_line};
use crate::output::{Format, Record, Style};

/// A capture, as printed.
#[derive(Serialize)]
struct CaptureRecord {
    key: String,
    until: Option<String>,
}

/// A captured message, as printed.
#[derive(Serialize)]
struct MessageRecord {
    /// `received`, `sent`, `answered` or `returned`.
    kind: Option<String>,
    upstream: Option<String>,
    head: Vec<String>,
    body: String,
    /// The length of the whole body, of which `body` may be the beginning.
    body_bytes: u64,
    /// The length of the part of the body that the gateway kept.
    kept_bytes: u64,
}

/// Runs `ctl request capture`.
pub(super) async fn capture(shell: &mut Shell<'_>, input: Capture) -> Result<(), Failure> {
    let Capture { key, duration } = input;
    let seconds = u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
    let mut client = UsageServiceClient::new(shell.connect().await?);
    let request = CaptureRequestsRequest { key: key.clone(), seconds };
    let answer = client.capture_requests(request).await?.into_inner();
    shell.output.note("show a request of the key with `ctl request show ID --wire`");
    shell.output.one(&CaptureRecord { key, until: rfc3339(answer.until) })
}

/// Runs `ctl request show ID --wire`.
pub(super) async fn show(shell: &mut Shell<'_>, id: String) -> Result<(), Failure> {
    let mut client = UsageServiceClient::new(shell.connect().await?);
    let id = if find::is_partial_id(&id) {
        find::find_by_partial_id(&mut client, &id).await?.id
    } else {
        id
    };
    let answer = client.get_request_wire(GetRequestWireRequest { id }).await?.into_inner();
    let messages: Vec<_> = answer.messages.into_iter().map(MessageRecord::from).collect();
    if shell.output.format() != Format::Table || shell.output.is_quiet() {
        return shell.output.many(&messages);
    }
    for message in &messages {
        let title = shell.output.styled(&one_line(&message.title()), Style::Heading);
        let mut text = format!("{title}\n");
        // Both come from clients and upstreams: they must not control the terminal.
        let lines = message.head.iter().map(String::as_str).chain([""]).chain(message.body.lines());
        for line in lines {
            text.extend([&one_line(line), "\n"]);
        }
        shell.output.text(&text)?;
    }
    Ok(())
}

// === impl MessageRecord ===

impl MessageRecord {
    fn title(&self) -> String {
        let upstream = self.upstream.as_deref().unwrap_or_default();
        let what = match self.kind.as_deref() {
            Some("received") => "received from the client".to_owned(),
            Some("sent") => format!("sent to {upstream}"),
            Some("answered") => format!("answered by {upstream}"),
            _ => "returned to the client".to_owned(),
        };
        let Self { body_bytes, kept_bytes, .. } = self;
        let is_cut = kept_bytes < body_bytes;
        let cut = if is_cut { format!(", the first {kept_bytes} shown") } else { String::new() };
        format!("--- {what}, {body_bytes} bytes{cut}")
    }
}

impl From<WireMessage> for MessageRecord {
    fn from(message: WireMessage) -> Self {
        Self {
            kind: enum_name(message.kind().as_str_name(), "WIRE_MESSAGE_KIND_"),
            upstream: non_empty(message.upstream),
            head: message.head,
            body: message.body,
            body_bytes: message.body_bytes,
            kept_bytes: message.kept_bytes,
        }
    }
}

impl Record for CaptureRecord {
    const FIELDS: &'static [&'static str] = &["key", "until"];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}

impl Record for MessageRecord {
    const FIELDS: &'static [&'static str] =
        &["kind", "upstream", "head", "body", "body_bytes", "kept_bytes"];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}
