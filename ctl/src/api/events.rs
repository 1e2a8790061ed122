//! Reads the events of a streamed response.

use std::time::Duration;

use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::ensure_success;
use crate::error::{Exit, Failure};

/// The maximum size of an event, in bytes.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// The server-sent events of a response, of which only the data lines are read.
#[derive(Debug)]
pub struct EventStream {
    body: Incoming,
    unread: Vec<u8>,
    idle_timeout: Duration,
    request_id: Option<String>,
}

impl EventStream {
    /// Returns the events of `answer`. `idle_timeout` is the longest wait between two pieces.
    ///
    /// # Errors
    /// The status is not a success; the failure has the message of the response.
    pub async fn of(answer: Response<Incoming>, idle_timeout: Duration) -> Result<Self, Failure> {
        let id = answer.headers().get("x-request-id").and_then(|id| id.to_str().ok());
        let request_id = id.map(str::to_owned);
        let body = ensure_success(answer).await?.into_body();
        Ok(Self { body, unread: Vec::new(), idle_timeout, request_id })
    }

    /// Returns the id of the request's record, if the response names it.
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// Returns the data of the next event, or `None` at the end of the response.
    ///
    /// # Errors
    /// The response is interrupted, pauses for longer than the timeout, or has an event of more than
    /// 4 MiB.
    pub async fn next(&mut self) -> Result<Option<String>, Failure> {
        let failed = |reason: String| Failure::new(Exit::Failed, reason);
        loop {
            while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                if let Some(data) = line.trim_end().strip_prefix("data:") {
                    return Ok(Some(data.trim_start().to_owned()));
                }
            }
            if self.unread.len() > MAX_EVENT_BYTES {
                return Err(failed(format!("an event has more than {MAX_EVENT_BYTES} bytes")));
            }
            let frame = timeout(self.idle_timeout, self.body.frame()).await.map_err(|_| {
                failed(format!("no data received for {} s", self.idle_timeout.as_secs()))
            })?;
            let Some(frame) = frame else { return Ok(None) };
            let frame =
                frame.map_err(|error| failed(format!("the stream was interrupted: {error}")))?;
            self.unread.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
    }
}
