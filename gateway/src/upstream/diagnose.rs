//! Requests to an upstream that are not those of clients: its models, whether it streams, and whether it answers at
//! all.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::header::{HeaderMap, HeaderValue};
use serde::Deserialize;
use tokio::time::Instant;

use super::answer_body::AnswerBody;
use super::read::read_whole;
use super::target::Target;
use super::{SendStatus, TimeoutKind, UpstreamClient, UpstreamError};
use domain::upstream::CredentialIndex;
use domain::wire::chunk::ChunkView;
use domain::wire::splice::splice;
use domain::wire::sse::{self, Splitter};

/// The maximum length of a body that is read.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
/// How long a list of models may take: less than what the programs that show it wait for.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// The id of diagnostic requests in the upstream's log.
const REQUEST_ID: HeaderValue = HeaderValue::from_static("tollgate-diagnose");

#[derive(Deserialize)]
struct List {
    data: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
}

impl UpstreamClient {
    /// Returns the names of the models that the upstream lists for a credential.
    ///
    /// # Errors
    /// The upstream does not return such a list in time.
    pub async fn models(&self, credential: CredentialIndex) -> Result<Vec<String>, UpstreamError> {
        let deadline = Instant::now() + LIST_TIMEOUT;
        let response = self.get(&self.models, credential, LIST_TIMEOUT).await?;
        let body = read_whole(response.into_body(), MAX_BODY_BYTES);
        let deadline = deadline.min(Instant::now() + self.idle_deadline());
        let body = tokio::time::timeout_at(deadline, body).await;
        let body = body.map_err(|_| UpstreamError::TimedOut(TimeoutKind::Idle))?;
        let body = body?;
        let list: List = serde_json::from_slice(&body).map_err(|_| {
            UpstreamError::Invalid("its answer to GET /models is no list of models".to_owned())
        })?;
        let name = |mut listed: Listed| {
            self.redact_text(&mut listed.id);
            listed.id
        };
        Ok(list.data.into_iter().map(name).collect())
    }

    /// Waits for the head of any answer to a request that costs nothing.
    ///
    /// # Errors
    /// There is none, or it says that the upstream cannot serve requests.
    pub(super) async fn probe(
        &self,
        credential: CredentialIndex,
        timeout: Duration,
    ) -> Result<(), UpstreamError> {
        match self.get(&self.models, credential, timeout).await {
            Err(error) if error.is_upstream_fault() => Err(error),
            // A server without a list of models may still serve chat requests.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Sends a health check for `path`.
    ///
    /// # Errors
    /// The answer has no status 2xx, or its head does not arrive within `timeout`. [`UpstreamError::Overloaded`] if the
    /// upstream has as many connections as it may have.
    pub(super) async fn check(
        &self,
        path: &str,
        credential: CredentialIndex,
        timeout: Duration,
    ) -> Result<(), UpstreamError> {
        let target = self.target_at_origin(path)?;
        let response = self.get(&target, credential, timeout).await?;
        // So that the connection can be used again; the answer's body does not matter.
        let read = read_whole(response.into_body(), MAX_BODY_BYTES);
        _ = tokio::time::timeout(timeout, read).await;
        Ok(())
    }

    /// Sends a streamed chat request and waits for the first token; the rest is not read.
    ///
    /// # Errors
    /// The upstream does not return a stream, or not in time.
    pub async fn first_token(
        &self,
        credential: CredentialIndex,
        body: impl Into<Bytes>,
    ) -> Result<(), UpstreamError> {
        let body = body.into();
        let body_and_id = |_: &mut HeaderMap| (splice(&body, &[]), REQUEST_ID);
        let response = self.send(None, credential, body_and_id, &SendStatus::default()).await?;
        let mut body = response.into_body();
        let mut splitter = Splitter::default();
        loop {
            let read = tokio::time::timeout(self.idle_deadline(), body.frame()).await;
            let frame = read.map_err(|_| UpstreamError::TimedOut(TimeoutKind::Idle))?;
            let frame = frame.ok_or(UpstreamError::CutOff)??;
            let mut begun = false;
            let data = frame.data_ref().map_or(&[][..], |data| data);
            let split = splitter.push(data, |event| begun |= is_piece(event));
            split.map_err(|error| UpstreamError::Invalid(error.to_string()))?;
            if begun {
                return Ok(());
            }
        }
    }

    /// Sends a GET request, and waits for the head up to `timeout` or the upstream's own deadline.
    async fn get(
        &self,
        target: &Target,
        credential: CredentialIndex,
        timeout: Duration,
    ) -> Result<Response<AnswerBody>, UpstreamError> {
        let nothing = |_: &mut HeaderMap| (splice(&Bytes::new(), &[]), REQUEST_ID);
        let first_byte = self.first_byte_deadline().min(timeout);
        let send_status = SendStatus::default();
        self.request(target, None, credential, nothing, &send_status, first_byte).await
    }
}

/// Returns whether an event carries part of an answer.
fn is_piece(event: &[u8]) -> bool {
    let Some(data) = sse::data(event) else { return false };
    let chunk = std::str::from_utf8(&data).ok().and_then(|json| ChunkView::parse(json).ok());
    chunk.is_some_and(|chunk| chunk.error.is_none() && !chunk.choices().is_empty())
}
