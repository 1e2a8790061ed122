//! `GET` and `DELETE /v1/responses/{id}`, and `GET /v1/responses/{id}/input_items`.

use std::borrow::Cow;
use std::sync::Arc;

use http::Response;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::body::Reply;
use super::respond;
use crate::memory_budget::{MemoryBudget, MemoryGuard};
use crate::offload;
use crate::pipeline::AppState;
use crate::response_store::{ResponseStore, ResponseStoreError};
use domain::id::{AccountId, RequestId};
use domain::refusal::{Refusal, RequestFault};
use domain::response::{StoredResponse, item_id, parse_response_id};

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

/// The number of concurrent reads of responses, which bounds the memory that was read and is not counted yet.
const MAX_READS: usize = 4;

/// Reads stored responses within the memory budget of bodies. One for the whole gateway.
pub(super) struct StoredReader {
    budget: Arc<MemoryBudget>,
    turns: Semaphore,
}

/// A page of a list, as serialized by the API.
#[derive(Serialize)]
struct Page<'a> {
    object: &'static str,
    data: Vec<&'a RawValue>,
    first_id: Option<String>,
    last_id: Option<String>,
    has_more: bool,
}

/// The page of a list that a client requests.
#[derive(Debug, PartialEq, Eq)]
struct PageRequest {
    limit: usize,
    oldest_first: bool,
    after: Option<String>,
}

/// Answers with a stored response as it was first sent.
pub(super) async fn retrieve(
    app: &AppState,
    reader: &StoredReader,
    account: AccountId,
    id: &str,
    query: Option<&str>,
) -> Result<Response<Reply>, Refusal> {
    if parameters(query).any(|(name, value)| name == "stream" && value == "true") {
        let message = "a stored response cannot be streamed again; leave `stream` out";
        return Err(Refusal::invalid(RequestFault::UnsupportedParameter, Some("stream"), message));
    }
    let (object, memory) = read(app, reader, account, id, |response| response.object).await?;
    Ok(respond::json(memory.attach(Arc::<[u8]>::from(object))))
}

/// Deletes a stored response.
pub(super) async fn delete(
    app: &AppState,
    account: AccountId,
    id: &str,
) -> Result<Response<Reply>, Refusal> {
    #[derive(Serialize)]
    struct Deletion<'a> {
        id: &'a str,
        object: &'static str,
        deleted: bool,
    }
    let (responses, known) = place(app, id)?;
    responses.remove(account, known).await.map_err(|error| refusal(&error, id))?;
    Ok(respond::json(to_json(&Deletion { id, object: "response", deleted: true })))
}

/// Lists the input items of a stored response.
pub(super) async fn input_items(
    app: &AppState,
    reader: &StoredReader,
    account: AccountId,
    id: &str,
    query: Option<&str>,
) -> Result<Response<Reply>, Refusal> {
    let request = PageRequest::parse(query)?;
    let (input, memory) = read(app, reader, account, id, |response| response.input).await?;
    let page = if offload::is_quick(input.as_bytes()) {
        json_page(&input, &request)?
    } else {
        let paging = Box::pin(async move { json_page(&input, &request) });
        app.offload.run(account, paging).await?
    };
    Ok(respond::json(memory.attach(page)))
}

/// Reads a part of a stored response. Waits while another gateway may be writing it, without a turn to read.
async fn read(
    app: &AppState,
    reader: &StoredReader,
    account: AccountId,
    id: &str,
    part: impl Fn(StoredResponse) -> Arc<str>,
) -> Result<(Arc<str>, MemoryGuard), Refusal> {
    let (responses, known) = place(app, id)?;
    let find = || async {
        let response = responses.find(account, known).await.map_err(|error| refusal(&error, id))?;
        Ok(part(response))
    };
    let mut delay = responses.write_delay(known);
    loop {
        match reader.read(account, find).await {
            Err(Refusal::ResponseNotFound { .. }) if delay.wait().await => {}
            read => return read,
        }
    }
}

fn place<'a>(app: &'a AppState, id: &str) -> Result<(&'a ResponseStore, RequestId), Refusal> {
    let responses = app.response_store.as_deref().ok_or_else(|| missing(id))?;
    Ok((responses, parse_response_id(id).ok_or_else(|| missing(id))?))
}

fn refusal(error: &ResponseStoreError, id: &str) -> Refusal {
    match error {
        ResponseStoreError::NotFound(_) | ResponseStoreError::TooLong(_) => missing(id),
        ResponseStoreError::Store(error) => {
            let error: &dyn std::error::Error = error;
            tracing::error!(error, "cannot read stored responses");
            Refusal::StateUnavailable
        }
    }
}

fn missing(id: &str) -> Refusal {
    Refusal::ResponseNotFound { id: id.chars().take(128).collect() }
}

/// Returns a page of the list `input`, as JSON.
fn json_page(input: &str, request: &PageRequest) -> Result<Vec<u8>, Refusal> {
    // The gateway wrote this JSON itself.
    let items = serde_json::from_str(input).unwrap_or_default();
    Ok(to_json(&page(items, request)?))
}

fn page<'a>(mut items: Vec<&'a RawValue>, request: &PageRequest) -> Result<Page<'a>, Refusal> {
    if !request.oldest_first {
        items.reverse();
    }
    if let Some(after) = &request.after {
        let at = items.iter().position(|item| item_id(item).as_ref() == Some(after));
        let Some(at) = at else {
            let message = format!("no input item `{}`", after.escape_default());
            return Err(Refusal::invalid(RequestFault::InvalidValue, Some("after"), message));
        };
        items.drain(..=at);
    }
    let has_more = items.len() > request.limit;
    items.truncate(request.limit);
    Ok(Page {
        object: "list",
        first_id: items.first().and_then(|item| item_id(item)),
        last_id: items.last().and_then(|item| item_id(item)),
        data: items,
        has_more,
    })
}

/// Returns the decoded name-value pairs of a query.
fn parameters(query: Option<&str>) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    form_urlencoded::parse(query.unwrap_or_default().as_bytes())
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings and JSON always serialise")
}

// === impl StoredReader ===

impl StoredReader {
    /// Creates a reader whose texts count against `budget`.
    pub(super) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, turns: Semaphore::new(MAX_READS) }
    }

    /// Returns the text that `find` finds, with memory for it. A text that is longer than what an account
    /// ever gets counts as that.
    ///
    /// # Errors
    /// The error of `find`, or there is no memory for the text.
    async fn read<F>(
        &self,
        account: AccountId,
        find: impl Fn() -> F,
    ) -> Result<(Arc<str>, MemoryGuard), Refusal>
    where
        F: Future<Output = Result<Arc<str>, Refusal>>,
    {
        let mut memory = self.budget.guard(account);
        let bytes = {
            let _turn = self.turn().await;
            let text = find().await?;
            let bytes = text.len().min(self.budget.account_limit());
            if memory.try_grow_to(bytes) {
                return Ok((text, memory));
            }
            bytes
        };
        // Read again, because the text itself would occupy the memory that it waits for.
        memory.grow_to(bytes).await.map_err(|_| Refusal::BodyMemoryExhausted)?;
        let _turn = self.turn().await;
        Ok((find().await?, memory))
    }

    async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.acquire().await.expect("the semaphore is never closed")
    }
}

// === impl PageRequest ===

impl PageRequest {
    fn parse(query: Option<&str>) -> Result<Self, Refusal> {
        let mut request = Self { limit: DEFAULT_LIMIT, oldest_first: false, after: None };
        let invalid = |name: &str, rule: &str| {
            let message = format!("`{name}` must be {rule}");
            Refusal::invalid(RequestFault::InvalidValue, Some(name), message)
        };
        for (name, value) in parameters(query) {
            match &*name {
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
                    request.limit =
                        limit.ok_or_else(|| invalid("limit", "a number from 1 to 100"))?;
                }
                "order" => {
                    request.oldest_first = match &*value {
                        "asc" => true,
                        "desc" => false,
                        _ => return Err(invalid("order", "`asc` or `desc`")),
                    };
                }
                "after" => request.after = Some(value.into_owned()),
                // Other parameters, such as `include`, do not change the items.
                _ => {}
            }
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(query: &str) -> (Vec<String>, bool) {
        let text = r#"[{"id":"a"},{"id":"b"},{"id":"c"}]"#;
        let items: Vec<&RawValue> = serde_json::from_str(text).unwrap();
        let page = page(items, &PageRequest::parse(Some(query)).unwrap()).unwrap();
        let ids = page.data.iter().map(|item| item_id(item).unwrap()).collect();
        (ids, page.has_more)
    }

    #[test]
    fn pages_are_cut_and_ordered_as_asked() {
        for (query, expected, more) in [
            ("", "cba", false),
            ("order=asc", "abc", false),
            ("limit=2", "cb", true),
            ("after=b&order=asc", "c", false),
            ("after=b", "a", false),
            ("limit=1&order=asc&after=a&include=x", "b", true),
        ] {
            let (ids, has_more) = ids(query);
            assert_eq!((ids.concat().as_str(), has_more), (expected, more), "{query}");
        }
    }

    /// Ids with escapes were not recognized before.
    #[test]
    fn a_page_goes_on_after_any_id() {
        let text = r#"[{"id":"a\"b"},{"id":"c"}]"#;
        let items: Vec<&RawValue> = serde_json::from_str(text).unwrap();
        let request = PageRequest::parse(Some("order=asc&limit=1")).unwrap();
        let first = page(items.clone(), &request).unwrap();
        assert_eq!((first.first_id.as_deref(), first.has_more), (Some("a\"b"), true));
        let request = PageRequest::parse(Some("order=asc&after=a%22b")).unwrap();
        assert_eq!(page(items, &request).unwrap().last_id.as_deref(), Some("c"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_account_reads_counts_until_it_is_sent() {
        let reader = StoredReader::new(MemoryBudget::new(150, 50));
        let read = async |account, bytes: usize| {
            let text: Arc<str> = "a".repeat(bytes).into();
            let found = reader
                .read(AccountId(uuid::Uuid::from_u128(account)), || async { Ok(text.clone()) });
            let (text, memory) = found.await?;
            Ok::<_, Refusal>(memory.attach(Arc::<[u8]>::from(text)))
        };
        let first = read(1, 40).await.unwrap();
        assert_eq!(read(1, 11).await, Err(Refusal::BodyMemoryExhausted));
        drop(read(1, 10).await.unwrap());
        drop(read(2, 30).await.unwrap());
        let part = first.slice(..1);
        drop(first);
        assert_eq!(read(1, 11).await, Err(Refusal::BodyMemoryExhausted), "a part is to be sent");
        drop(part);
        assert_eq!(read(1, 500).await.unwrap().len(), 500, "it has the whole share");
    }

    #[test]
    fn what_makes_no_page_is_refused() {
        for query in ["limit=0", "limit=101", "limit=x", "order=up"] {
            assert!(PageRequest::parse(Some(query)).is_err(), "{query}");
        }
        let request = PageRequest::parse(Some("after=zz")).unwrap();
        assert!(page(Vec::new(), &request).is_err());
    }
}
