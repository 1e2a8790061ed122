//! A record by a part of its id: lists show the end of one, which is enough to tell it from the others.

use proto::client::Connection;
use proto::v1::usage_service_client::UsageServiceClient;
use proto::v1::{ListRequestsRequest, RequestRecord};

use crate::commands::SHORT_ID;
use crate::error::{Exit, Failure};

/// How many characters a whole id has, if somebody leaves its dashes out.
const WHOLE: usize = 32;
/// So many records are looked through, a page after the other.
const PAGES: usize = 10;
const PAGE_SIZE: u32 = 1_000;

/// Whether this can be a part of an id, but no whole one.
pub(super) fn is_part(text: &str) -> bool {
    let is_like_one = text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    is_like_one && (SHORT_ID..WHOLE).contains(&text.len())
}

/// Finds the one record among the last ones whose id begins or ends so.
pub(super) async fn by_part(
    client: &mut UsageServiceClient<Connection>,
    part: &str,
) -> Result<RequestRecord, Failure> {
    let part = part.to_ascii_lowercase();
    let has_part = |it: &RequestRecord| it.id.starts_with(&part) || it.id.ends_with(&part);
    let (mut found, mut page_token) = (None, String::new());
    for _ in 0..PAGES {
        let request = ListRequestsRequest { page_size: PAGE_SIZE, page_token, filter: None };
        let page = client.list_requests(request).await?.into_inner();
        for record in page.requests.into_iter().filter(has_part) {
            if found.replace(record).is_some() {
                let message =
                    format!("several requests have an id that begins or ends with `{part}`");
                return Err(Failure::usage(message).advise("give more of it"));
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
    let message = format!("no id of the last requests begins or ends with `{part}`");
    Err(Failure::new(Exit::NotFound, message)
        .advise("`ctl request list` shows the last ones; an older one is found by its whole id"))
}
