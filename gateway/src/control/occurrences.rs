//! Counts events of one kind per subject, so that each subject is reported once and then once per period.
//!
//! The first event of a quiet subject is reported at once; those after it wait for [`Occurrences::take`], which is
//! called once per period.

use std::collections::HashMap;
use std::hash::Hash;

use domain::source::Source;

/// The most subjects that are told apart. Events of others are counted together.
const MAX_SUBJECTS: usize = 1_000;
/// The most sources of a subject that a report names.
const MAX_SOURCES: usize = 3;

/// Events that were not reported yet, by their subject.
pub(super) struct Occurrences<K> {
    subjects: HashMap<K, Report>,
    /// The events of subjects that there was no room for.
    others: u64,
}

/// A number of events, and where they came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// How many.
    pub(super) count: u64,
    /// Where from: the first few sources.
    pub(super) sources: Vec<Source>,
}

impl<K> Default for Occurrences<K> {
    fn default() -> Self {
        Self { subjects: HashMap::new(), others: 0 }
    }
}

impl<K: Copy + Eq + Hash> Occurrences<K> {
    /// Counts an event. Returns the report that is due at once, if the subject was quiet before.
    pub(super) fn note(&mut self, subject: K, source: Source) -> Option<Report> {
        if let Some(report) = self.subjects.get_mut(&subject) {
            report.add(source);
            return None;
        }
        if self.subjects.len() >= MAX_SUBJECTS {
            self.others += 1;
            return None;
        }
        self.subjects.insert(subject, Report::default());
        Some(Report { count: 1, sources: vec![source] })
    }

    /// Takes the reports that are due at the end of a period, and the number of events that are in none.
    pub(super) fn take(&mut self) -> (Vec<(K, Report)>, u64) {
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

impl Report {
    fn add(&mut self, source: Source) {
        self.count += 1;
        if self.sources.len() < MAX_SOURCES && !self.sources.contains(&source) {
            self.sources.push(source);
        }
    }

    /// Names the sources.
    pub(super) fn sources(&self) -> String {
        let names: Vec<_> = self.sources.iter().map(ToString::to_string).collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_reported_at_once_and_then_once_per_period() {
        let mut events = Occurrences::default();
        assert_eq!(events.note("ann", Source::Local).unwrap().count, 1);
        for _ in 0..300 {
            assert_eq!(events.note("ann", Source::Local), None);
        }
        assert!(events.note("bob", Source::Local).is_some());
        let report = Report { count: 300, sources: vec![Source::Local] };
        assert_eq!(events.take(), (vec![("ann", report.clone())], 0));
        // `ann` has been active and waits for the next period, `bob` is quiet again
        assert_eq!(events.note("ann", Source::Local), None);
        assert!(events.note("bob", Source::Local).is_some());
        assert_eq!(events.take(), (vec![("ann", Report { count: 1, ..report })], 0));
        assert_eq!(events.take(), (vec![], 0));
        assert!(events.subjects.is_empty());
    }

    #[test]
    fn memory_is_bounded_and_nothing_goes_uncounted() {
        let mut events = Occurrences::default();
        let reported =
            (0..MAX_SUBJECTS + 7).filter_map(|it| events.note(it, Source::Local)).count();
        assert_eq!((reported, events.take()), (MAX_SUBJECTS, (vec![], 7)));
    }
}
