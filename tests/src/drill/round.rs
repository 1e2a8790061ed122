//! The result of one round of a drill, and of all rounds.

use std::fmt;
use std::time::Duration;

use super::reconcile::Reconciliation;

/// A fault that can be repeated in rounds.
pub trait Drill {
    /// Runs one round.
    fn round(&mut self) -> impl Future<Output = Round>;
}

/// The result of a round.
#[derive(Clone, Debug)]
pub struct Round {
    /// The reconciliation of the logs.
    pub verdict: Reconciliation,
    /// The measurements of the drill itself.
    pub figures: Vec<Figure>,
}

/// A named measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// A number. The total is the sum of all rounds.
    Count(&'static str, usize),
    /// A duration. The total is the maximum of all rounds.
    Time(&'static str, Duration),
    /// The resident memory of the gateway, in MiB. The total is the maximum of all rounds.
    Memory(&'static str, usize),
    /// What a kind of upstream did to the gateway. The total is the maximum of all rounds.
    Upstream {
        /// The kind of upstream.
        kind: &'static str,
        /// The duration of the slowest request.
        slowest: Duration,
        /// The resident memory afterwards, in MiB.
        resident: usize,
    },
    /// What a kind of attack did to the gateway. The total is the maximum of all rounds.
    Attack {
        /// The kind of attack.
        kind: &'static str,
        /// The median of honest requests, in percent of their undisturbed median.
        percent: usize,
        /// The resident memory before it, at most, and after it, in MiB.
        resident: [usize; 3],
    },
}

/// The result of the rounds so far.
#[derive(Clone, Debug, Default)]
pub struct Total {
    /// The number of rounds.
    pub rounds: usize,
    /// The number of differences.
    pub differences: usize,
    /// The measurements.
    pub figures: Vec<Figure>,
}

// === impl Round ===

impl Round {
    /// Returns the numbers of the reconciliation, then those of the drill.
    fn figures(&self) -> impl Iterator<Item = Figure> {
        self.verdict.figures().into_iter().chain(self.figures.iter().copied())
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for figure in self.figures() {
            write!(f, "{figure}, ")?;
        }
        write!(f, "{} differences", self.verdict.differences.len())?;
        self.verdict.differences.iter().try_for_each(|difference| write!(f, "\n  {difference}"))
    }
}

// === impl Figure ===

impl Figure {
    /// Combines the same measurement of two rounds.
    fn add(&mut self, other: Self) {
        match (self, other) {
            (Self::Count(_, count), Self::Count(_, more)) => *count += more,
            (Self::Time(_, longest), Self::Time(_, time)) => *longest = time.max(*longest),
            (Self::Memory(_, most), Self::Memory(_, other)) => *most = other.max(*most),
            (
                Self::Attack { percent, resident, .. },
                Self::Attack { percent: other, resident: others, .. },
            ) => {
                *percent = other.max(*percent);
                for (most, other) in resident.iter_mut().zip(others) {
                    *most = other.max(*most);
                }
            }
            (
                Self::Upstream { slowest, resident, .. },
                Self::Upstream { slowest: time, resident: other, .. },
            ) => {
                *slowest = time.max(*slowest);
                *resident = other.max(*resident);
            }
            (
                Self::Count(..)
                | Self::Time(..)
                | Self::Memory(..)
                | Self::Upstream { .. }
                | Self::Attack { .. },
                _,
            ) => {}
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Count(name, _)
            | Self::Time(name, _)
            | Self::Memory(name, _)
            | Self::Upstream { kind: name, .. }
            | Self::Attack { kind: name, .. } => name,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(name, count) => write!(f, "{count} {name}"),
            Self::Time(name, time) => write!(f, "{name} {time:.0?}"),
            Self::Memory(name, mib) => write!(f, "{name} {mib} MiB"),
            Self::Upstream { kind, slowest, resident } => {
                write!(f, "{kind} {slowest:.0?} ({resident} MiB)")
            }
            Self::Attack { kind, percent, resident: [before, most, after] } => {
                write!(f, "{kind} {percent} % ({before}, {most}, {after} MiB)")
            }
        }
    }
}

// === impl Total ===

impl Total {
    /// Adds a round.
    pub fn add(&mut self, round: &Round) {
        self.rounds += 1;
        self.differences += round.verdict.differences.len();
        for figure in round.figures() {
            match self.figures.iter_mut().find(|known| known.name() == figure.name()) {
                Some(known) => known.add(figure),
                None => self.figures.push(figure),
            }
        }
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.differences {
            0 => "nothing lost, nothing doubled",
            _ => "the logs differ",
        };
        write!(f, "{verdict} in {} rounds: ", self.rounds)?;
        for figure in &self.figures {
            if let Figure::Time(..) = figure {
                write!(f, "slowest ")?;
            }
            write!(f, "{figure}, ")?;
        }
        write!(f, "{} differences", self.differences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_sums_counts_takes_the_longest_time_and_reports_any_difference() {
        let round = |count, millis, differences: &[&str]| Round {
            verdict: Reconciliation {
                seen: count,
                differences: differences.iter().map(|&text| text.to_owned()).collect(),
                ..Reconciliation::default()
            },
            figures: vec![Figure::Time("restart", Duration::from_millis(millis))],
        };
        let mut total = Total::default();
        total.add(&round(2, 70, &[]));
        assert!(total.to_string().starts_with("nothing lost, nothing doubled in 1 rounds: "));
        total.add(&round(3, 50, &["a request has no record"]));
        let text = total.to_string();
        assert!(text.starts_with("the logs differ in 2 rounds: "), "{text}");
        assert!(
            text.contains("5 ends seen, ") && text.contains("slowest restart 70ms, "),
            "{text}"
        );
        assert!(text.ends_with("1 differences"), "{text}");
    }
}
