//! Finds a recent request record or a request in flight by a part of its id, as lists print it.

use proto::client::Connection;
use proto::v1::usage_service_client::UsageServiceClient;
use proto::v1::{ListRequestsInFlightRequest, ListRequestsRequest, RequestInFlight, RequestRecord};

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
    let (mut found, mut page_token) = (None, String::new());
    for _ in 0..MAX_PAGES {
        let request = ListRequestsRequest { page_size: PAGE_SIZE, page_token, filter: None };
        let page = client.list_requests(request).await?.into_inner();
        for record in page.requests.into_iter().filter(|it| has_part(&it.id, &part)) {
            if found.replace(record).is_some() {
                return Err(several(&part));
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

/// Returns the only request in flight whose id starts or ends with `part`.
///
/// # Errors
/// No listed request matches, or several do.
pub(super) async fn find_in_flight(
    client: &mut UsageServiceClient<Connection>,
    part: &str,
) -> Result<RequestInFlight, Failure> {
    let part = part.to_ascii_lowercase();
    let request = ListRequestsInFlightRequest { account: String::new() };
    let requests = client.list_requests_in_flight(request).await?.into_inner().requests;
    let mut matching = requests.into_iter().filter(|it| has_part(&it.id, &part));
    match (matching.next(), matching.next()) {
        (Some(found), None) => Ok(found),
        (Some(_), Some(_)) => Err(several(&part)),
        (None, _) => {
            let message =
                format!("no listed request in flight has an id that starts or ends with `{part}`");
            Err(Failure::new(Exit::NotFound, message).advise("see `ctl request in-flight`"))
        }
    }
}

fn has_part(id: &str, part: &str) -> bool {
    id.starts_with(part) || id.ends_with(part)
}

fn several(part: &str) -> Failure {
    Failure::usage(format!("several requests have an id that starts or ends with `{part}`"))
        .advise("give more characters of the id")
}
