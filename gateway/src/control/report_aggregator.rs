//! Aggregates events per subject, so that a subject is reported at once and then at most once per
//! period.
//!
//! The first event of an inactive subject is reported immediately. Later events are counted until
//! [`ReportAggregator::drain`], which must be called once per period.

use std::collections::HashMap;
use std::hash::Hash;

use domain::source::{CallAddress, Source};

/// The maximum number of tracked subjects. Events of further subjects are counted together.
const MAX_SUBJECTS: usize = 1_000;
/// The maximum number of sources in a report.
const MAX_SOURCES: usize = 3;

/// Events that were not reported yet, by subject.
pub(super) struct ReportAggregator<K> {
    subjects: HashMap<K, EventReport>,
    /// The number of events of subjects beyond `MAX_SUBJECTS`.
    others: u64,
}

/// A number of events with their sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EventReport {
    /// The number of events.
    pub(super) count: u64,
    /// The first distinct sources, at most `MAX_SOURCES`.
    pub(super) sources: Vec<Source>,
}

impl<K> Default for ReportAggregator<K> {
    fn default() -> Self {
        Self { subjects: HashMap::new(), others: 0 }
    }
}

impl<K: Copy + Eq + Hash> ReportAggregator<K> {
    /// Counts an event. Returns a report if the subject was inactive.
    pub(super) fn record(&mut self, subject: K, source: Source) -> Option<EventReport> {
        if let Some(report) = self.subjects.get_mut(&subject) {
            report.add(source);
            return None;
        }
        if self.subjects.len() >= MAX_SUBJECTS {
            self.others += 1;
            return None;
        }
        self.subjects.insert(subject, EventReport::default());
        Some(EventReport { count: 1, sources: vec![source] })
    }

    /// Ends a period. Returns the reports of active subjects, and the number of events of untracked
    /// subjects.
    pub(super) fn drain(&mut self) -> (Vec<(K, EventReport)>, u64) {
        let mut due = Vec::new();
        self.subjects.retain(|subject, report| {
            let report = std::mem::take(report);
            let is_active = report.count > 0;
            if is_active {
                due.push((*subject, report));
            }
            is_active
        });
        (due, std::mem::take(&mut self.others))
    }
}

impl EventReport {
    fn add(&mut self, source: Source) {
        self.count += 1;
        if self.sources.len() < MAX_SOURCES && !self.sources.contains(&source) {
            self.sources.push(source);
        }
    }

    /// Returns the address of all events, if it is known to be the same one.
    pub(super) fn address(&self) -> Option<CallAddress> {
        match self.sources[..] {
            [Source::Local] => Some(CallAddress::UnixSocket),
            // The source of an IPv6 address is its network.
            [Source::Network(address)] if address.is_ipv4() => Some(CallAddress::Ip(address)),
            _ => None,
        }
    }

    /// Returns the sources, separated by commas.
    pub(super) fn sources(&self) -> String {
        let names: Vec<_> = self.sources.iter().map(ToString::to_string).collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_a_subject_at_once_and_then_once_per_period() {
        let mut events = ReportAggregator::default();
        assert_eq!(events.record("ann", Source::Local).unwrap().count, 1);
        for _ in 0..300 {
            assert_eq!(events.record("ann", Source::Local), None);
        }
        assert!(events.record("bob", Source::Local).is_some());
        let report = EventReport { count: 300, sources: vec![Source::Local] };
        assert_eq!(events.drain(), (vec![("ann", report.clone())], 0));
        // `ann` was active and waits for the next period; `bob` is inactive again.
        assert_eq!(events.record("ann", Source::Local), None);
        assert!(events.record("bob", Source::Local).is_some());
        assert_eq!(events.drain(), (vec![("ann", EventReport { count: 1, ..report })], 0));
        assert_eq!(events.drain(), (vec![], 0));
        assert!(events.subjects.is_empty());
    }

    #[test]
    fn counts_events_of_subjects_beyond_the_maximum_together() {
        let mut events = ReportAggregator::default();
        let reported =
            (0..MAX_SUBJECTS + 7).filter_map(|it| events.record(it, Source::Local)).count();
        assert_eq!((reported, events.drain()), (MAX_SUBJECTS, (vec![], 7)));
    }
}
