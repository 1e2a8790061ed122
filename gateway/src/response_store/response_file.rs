//! Responses for the process that has the store now, as lines of JSON.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use domain::id::{AccountId, RequestId};
use domain::response::StoredResponse;

/// A stored response, as JSON.
#[derive(Deserialize, Serialize)]
struct ResponseLine {
    id: Uuid,
    account: Uuid,
    previous: Option<Uuid>,
    /// Microseconds since 1970.
    created_at: i64,
    input: String,
    object: String,
    items: Vec<String>,
}

/// The file of responses, which are appended to it as they end.
#[derive(Debug)]
pub(crate) struct ResponseFile(Mutex<File>);

// === impl ResponseFile ===

impl ResponseFile {
    /// Creates the file at `path`.
    ///
    /// # Errors
    /// It cannot be created.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(Self(Mutex::new(file)))
    }

    /// Appends a response. It may be appended twice.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn append(&self, response: &StoredResponse) -> io::Result<()> {
        let mut line = serde_json::to_vec(&ResponseLine::from(response))?;
        line.push(b'\n');
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
    }

    /// Reads all responses from the file at `path`, if there is one. A partial last line, which is being written or of a
    /// process that was killed, is left out, and so are lines that are damaged.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(path: &Path) -> io::Result<Vec<StoredResponse>> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut responses = HashMap::new();
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            match serde_json::from_slice::<ResponseLine>(line) {
                Ok(line) => _ = responses.insert(line.id, StoredResponse::from(line)),
                Err(_) if !line.ends_with(b"\n") => {}
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "a stored response is damaged, and left out");
                }
            }
        }
        Ok(responses.into_values().collect())
    }
}

// === impl ResponseLine ===

impl From<&StoredResponse> for ResponseLine {
    fn from(response: &StoredResponse) -> Self {
        Self {
            id: response.id.0,
            account: response.account.0,
            previous: response.previous.map(|previous| previous.0),
            created_at: response.created_at.as_microsecond(),
            input: response.input.to_string(),
            object: response.object.to_string(),
            items: response.items.clone(),
        }
    }
}

impl From<ResponseLine> for StoredResponse {
    fn from(line: ResponseLine) -> Self {
        Self {
            id: RequestId(line.id),
            account: AccountId(line.account),
            previous: line.previous.map(RequestId),
            created_at: Timestamp::from_microsecond(line.created_at).unwrap_or_default(),
            input: line.input.into(),
            object: line.object.into(),
            items: line.items,
        }
    }
}
