//! Finds a recent request record by a part of its id, as lists print it.

use proto::client::Connection;
use proto::v1::usage_service_client::UsageServiceClient;
use proto::v1::{ListRequestsRequest, RequestRecord};

use crate::commands::SHORT_ID;
use crate::error::{Exit, Failure};

/// The length of a complete id without dashes, in characters.
const ID_LENGTH: usize = 32;
/// The maximum number of pages to search.
const MAX_PAGES: usize = 10;
const PAGE_SIZE: u32 = 1_000;

/// Returns whether `text` can be a part of an id, but not a complete one.
pub(super) fn is_partial_id(text: &str) -> bool {
    let has_id_characters = text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    has_id_characters && (SHORT_ID..ID_LENGTH).contains(&text.len())
}

/// Returns the only one of the latest records whose id starts or ends with `part`.
///
/// # Errors
/// No record matches, or several do.
pub(super) async fn find_by_partial_id(
    client: &mut UsageServiceClient<Connection>,
    part: &str,
) -> Result<RequestRecord, Failure> {
    let part = part.to_ascii_lowercase();
    let matches = |it: &RequestRecord| it.id.starts_with(&part) || it.id.ends_with(&part);
    let (mut found, mut page_token) = (None, String::new());
    for _ in 0..MAX_PAGES {
        let request = ListRequestsRequest { page_size: PAGE_SIZE, page_token, filter: None };
        let page = client.list_requests(request).await?.into_inner();
        for record in page.requests.into_iter().filter(matches) {
            if found.replace(record).is_some() {
                let message =
                    format!("several requests have an id that starts or ends with `{part}`");
                return Err(Failure::usage(message).advise("give more characters of the id"));
            }
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    if let Some(record) = found {
        return Ok(record);
    }
    let message = format!("no recent request has an id that starts or ends with `{part}`");
    Err(Failure::new(Exit::NotFound, message)
        .advise("see `ctl request list`; for an older request, give the complete id"))
}
