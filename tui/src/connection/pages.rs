//! The pages of older requests: which one is fetched next. The pages of a filter are fetched one
//! after another, each with the token of the one before.

use crate::model::record::OlderPage;
use crate::model::subscription::Subscription;

/// The fetched pages of one filter.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// The filter expression.
    filter: String,
    /// The number of fetched pages.
    fetched: usize,
    /// The token of the next page; empty for the first one, and `None` after the last one.
    next: Option<String>,
}

impl Pages {
    /// Returns the token of the page to fetch next, if the subscription wants a further one.
    pub(super) fn next(&mut self, subscription: &Subscription) -> Option<String> {
        // The log starts over if its filter changes, or if it wants fewer pages than before.
        if subscription.filter != self.filter || subscription.older_pages < self.fetched {
            let filter = subscription.filter.clone();
            *self = Self { filter, ..Self::default() };
        }
        if self.fetched == 0 {
            self.next = Some(String::new());
        }
        if subscription.older_pages > self.fetched { self.next.clone() } else { None }
    }

    /// Records a fetched page and the token of the next one. Returns whether the page belongs to the
    /// current filter.
    pub(super) fn complete(&mut self, page: &OlderPage, next: Option<String>) -> bool {
        let is_current = page.filter == self.filter;
        if is_current {
            self.fetched += 1;
            self.next = next;
        }
        is_current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(filter: &str, older_pages: usize) -> Subscription {
        Subscription { filter: filter.to_owned(), older_pages, ..Subscription::default() }
    }

    fn page(filter: &str) -> OlderPage {
        OlderPage { filter: filter.to_owned(), records: Vec::new(), is_last: false }
    }

    #[test]
    fn pages_follow_each_other_until_the_last_one() {
        let mut pages = Pages::default();
        assert_eq!(pages.next(&subscription("", 0)), None);
        assert_eq!(pages.next(&subscription("", 1)).as_deref(), Some(""));
        assert!(pages.complete(&page(""), Some("a".to_owned())));
        assert_eq!(pages.next(&subscription("", 1)), None);
        assert_eq!(pages.next(&subscription("", 2)).as_deref(), Some("a"));
        assert!(pages.complete(&page(""), None));
        assert_eq!(pages.next(&subscription("", 3)), None);
    }

    #[test]
    fn another_filter_or_a_restarted_log_begins_with_the_first_page() {
        let mut pages = Pages::default();
        assert_eq!(pages.next(&subscription("", 1)).as_deref(), Some(""));
        assert_eq!(pages.next(&subscription("x", 1)).as_deref(), Some(""));
        assert!(!pages.complete(&page(""), Some("late".to_owned())), "of the filter before");
        assert!(pages.complete(&page("x"), Some("a".to_owned())));
        assert_eq!(pages.next(&subscription("x", 0)), None);
        assert_eq!(pages.next(&subscription("x", 1)).as_deref(), Some(""));
    }
}
