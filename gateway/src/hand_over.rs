//! What a replaced process leaves in the data directory while it finishes its requests.
//!
//! A process that another one replaces (`gateway serve --take-over`) moves its journal aside as `journal.ending-N`, with
//! what the other one must know of its requests ([`OpenRequests`]). Then it closes the store and goes on writing that
//! journal. The directory is locked for as long as the process runs. Whoever gets the lock afterwards stores the records,
//! also if the process was killed: the one that replaced it, or a later start.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ledger::RetainedFunds;
use crate::pipeline::replay::InProgress;
use domain::id::{AccountId, KeyId, ModelId, RequestId};
use domain::idempotency::IdempotencyDigest;
use domain::money::Nanos;
use domain::response::StoredResponse;

/// The names of the directories are this and a number.
const PREFIX: &str = "journal.ending-";
/// The file that the process locks.
const LOCK: &str = "lock";
/// The file with [`OpenRequests`].
const OPEN_REQUESTS: &str = "open-requests.json";
/// The file with the responses that the process could not store, one per line.
const RESPONSES: &str = "responses.jsonl";

/// What requests in progress use, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct OpenRequests {
    /// The amounts that may be spent of the balances of accounts, in nanodollars.
    pub(crate) accounts: Vec<(Uuid, i64)>,
    /// The amounts that may be spent of spending caps, by the origins of keys, in nanodollars.
    pub(crate) caps: Vec<(String, i64)>,
    /// The requests.
    pub(crate) requests: Vec<OpenRequest>,
    /// Those with an idempotency key.
    pub(crate) idempotency: Vec<IdempotentRequest>,
}

/// A request in progress.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct OpenRequest {
    pub(crate) id: Uuid,
    pub(crate) account: Uuid,
    pub(crate) key: String,
    pub(crate) model: Option<String>,
}

/// A request in progress with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct IdempotentRequest {
    pub(crate) request: Uuid,
    pub(crate) digest: [u8; 32],
    pub(crate) body: [u8; 32],
}

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

/// The directory of a process that finishes its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndingDir(PathBuf);

/// The lock of an [`EndingDir`].
#[derive(Debug)]
pub(crate) struct EndingLock(
    #[expect(dead_code, reason = "the lock lasts until it is dropped")] File,
);

// === impl OpenRequests ===

impl OpenRequests {
    /// Returns the funds that the requests may spend.
    pub(crate) fn retained_funds(&self) -> RetainedFunds {
        let account = |&(id, amount): &(Uuid, i64)| (AccountId(id), Nanos(amount));
        let cap = |(origin, amount): &(String, i64)| (KeyId::new(origin.as_str()), Nanos(*amount));
        RetainedFunds {
            accounts: self.accounts.iter().map(account).collect(),
            caps: self.caps.iter().map(cap).collect(),
        }
    }

    /// Sets the funds that the requests may spend.
    pub(crate) fn with_funds(mut self, funds: &RetainedFunds) -> Self {
        self.accounts = funds.accounts.iter().map(|(id, amount)| (id.0, amount.0)).collect();
        let cap = |(origin, amount): &(KeyId, Nanos)| (origin.to_string(), amount.0);
        self.caps = funds.caps.iter().map(cap).collect();
        self
    }

    /// Returns the requests with an idempotency key.
    pub(crate) fn in_progress(&self) -> Vec<InProgress> {
        let requests = self.idempotency.iter();
        let request = |it: &IdempotentRequest| InProgress {
            digest: IdempotencyDigest(it.digest),
            body: it.body,
            request: RequestId(it.request),
        };
        requests.map(request).collect()
    }
}

// === impl OpenRequest ===

impl OpenRequest {
    /// Returns the account, the key, and the model in the catalogue.
    pub(crate) fn subjects(&self) -> (AccountId, KeyId, Option<ModelId>) {
        let model = self.model.as_deref().map(ModelId::new);
        (AccountId(self.account), KeyId::new(self.key.as_str()), model)
    }
}

impl From<InProgress> for IdempotentRequest {
    fn from(InProgress { digest, body, request }: InProgress) -> Self {
        Self { request: request.0, digest: digest.0, body }
    }
}

// === impl EndingDir ===

impl EndingDir {
    /// Returns the directories in the data directory `data`, oldest first.
    ///
    /// # Errors
    /// The data directory cannot be read.
    pub(crate) fn find_all(data: &Path) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(data)? {
            let path = entry?.path();
            if let Some(number) = number(&path) {
                found.push((number, Self(path)));
            }
        }
        found.sort_by_key(|(number, _)| *number);
        Ok(found.into_iter().map(|(_, dir)| dir).collect())
    }

    /// Returns the next directory in `data`, which does not exist.
    ///
    /// # Errors
    /// The data directory cannot be read.
    pub(crate) fn next(data: &Path) -> io::Result<Self> {
        let last = Self::find_all(data)?.last().and_then(|dir| number(&dir.0));
        Ok(Self(data.join(format!("{PREFIX}{}", last.unwrap_or_default() + 1))))
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Prepares the `journal` of this process, which is then moved here: writes `open` into it, and locks it.
    ///
    /// # Errors
    /// A file cannot be written or locked.
    pub(crate) fn prepare(journal: &Path, open: &OpenRequests) -> io::Result<EndingLock> {
        let lock = open_lock(journal)?;
        lock.try_lock().map_err(io::Error::from)?;
        let mut file = create(&journal.join(OPEN_REQUESTS))?;
        file.write_all(&serde_json::to_vec(open)?)?;
        file.sync_all()?;
        Ok(EndingLock(lock))
    }

    /// Returns the lock; `None` while the process still runs.
    ///
    /// # Errors
    /// The file cannot be opened or locked.
    pub(crate) fn try_lock(&self) -> io::Result<Option<EndingLock>> {
        let lock = open_lock(&self.0)?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(EndingLock(lock))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Reads what the requests use.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn open_requests(&self) -> io::Result<OpenRequests> {
        Ok(serde_json::from_slice(&std::fs::read(self.0.join(OPEN_REQUESTS))?)?)
    }

    /// Writes responses that the process could not store.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write_responses(&self, responses: &[Arc<StoredResponse>]) -> io::Result<()> {
        let mut file = BufWriter::new(create(&self.0.join(RESPONSES))?);
        for response in responses {
            serde_json::to_writer(&mut file, &ResponseLine::from(&**response))?;
            file.write_all(b"\n")?;
        }
        file.flush()
    }

    /// Reads the responses that the process could not store. A partial last line, of a process that was killed, is
    /// left out.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read_responses(&self) -> io::Result<Vec<StoredResponse>> {
        let file = match File::open(self.0.join(RESPONSES)) {
            Ok(file) => BufReader::new(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut responses = Vec::new();
        for line in file.lines() {
            match serde_json::from_str::<ResponseLine>(&line?) {
                Ok(line) => responses.push(line.into()),
                Err(error) if error.is_eof() => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(responses)
    }

    /// Removes the directory, whose content was stored.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(crate) fn remove(self, lock: EndingLock) -> io::Result<()> {
        std::fs::remove_dir_all(&self.0)?;
        drop(lock);
        Ok(())
    }

    /// Moves the directory aside, because a part of its journal is damaged.
    ///
    /// # Errors
    /// It cannot be moved.
    pub(crate) fn set_aside(self, lock: EndingLock) -> io::Result<PathBuf> {
        let aside =
            self.0.with_extension(format!("damaged-{}", number(&self.0).unwrap_or_default()));
        std::fs::rename(&self.0, &aside)?;
        drop(lock);
        Ok(aside)
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

/// Returns the number in the name of a directory.
fn number(dir: &Path) -> Option<u64> {
    dir.file_name()?.to_str()?.strip_prefix(PREFIX)?.parse().ok()
}

fn open_lock(dir: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(dir.join(LOCK))
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
