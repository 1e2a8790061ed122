//! What operators run from time to time: the diagnosis, the verification of the ledger, the backup.
//!
//! Each operation keeps the results of its last run until the end of the session.

use jiff::Timestamp;

/// An operation that the user starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Checks the gateway and what it depends on.
    Diagnosis,
    /// The diagnosis, with a request to each model of each upstream.
    TestRequests,
    /// Recomputes balances, charges and sums.
    Verification,
    /// Copies the database to a file.
    Backup,
}

/// A run of an operation to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationRequest {
    /// The number of the run.
    pub run: u64,
    /// The operation.
    pub kind: OperationKind,
    /// The file that a backup writes.
    pub file: Option<String>,
}

/// The state of the operations screen.
#[derive(Debug, Default)]
pub struct Operations {
    /// The index of the selected operation.
    pub selected: usize,
    /// The last run of each operation, in the order of [`OperationKind::ALL`].
    pub runs: [OperationRun; OperationKind::ALL.len()],
}

/// A run of an operation.
#[derive(Debug, Default)]
pub struct OperationRun {
    /// Its number. Events of earlier runs are ignored.
    pub number: u64,
    /// Its state.
    pub state: RunState,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// What a diagnosis found so far.
    pub findings: Vec<Finding>,
    /// What a verification found.
    pub verification: Option<Verification>,
    /// The bytes that a backup has copied, and their total.
    pub copied: Option<(u64, u64)>,
    /// The file that a backup writes.
    pub file: Option<String>,
}

/// The state of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    /// It was not started in this session.
    #[default]
    New,
    /// It runs.
    Running,
    /// It is complete.
    Done,
    /// The user stopped it.
    Stopped,
    /// It failed; the text says why.
    Failed(String),
}

/// What happened in a run.
#[derive(Debug)]
pub enum OperationEvent {
    /// It began.
    Started(Timestamp),
    /// A check of the diagnosis has ended.
    Found(Finding),
    /// The verification has ended.
    Verified(Verification),
    /// A backup writes the file with this absolute path.
    Writing(String),
    /// A backup has copied this number of bytes of a total.
    Copied(u64, u64),
    /// It is complete, or failed; the text says why.
    Ended(Timestamp, Result<(), String>),
}

/// The result of a check of the diagnosis.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What was checked, such as `disk`.
    pub area: String,
    /// The object, where an area has several.
    pub subject: Option<String>,
    /// Whether it is as it should be.
    pub severity: Severity,
    /// The finding.
    pub text: String,
    /// What to do.
    pub remedy: Option<String>,
    /// The duration of the check, in milliseconds.
    pub elapsed_ms: f64,
}

/// The severity of a finding. Ordered from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works.
    Ok,
    /// It works, but may fail soon.
    Warning,
    /// It does not work.
    Problem,
}

/// The result of a verification of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Whether everything adds up.
    pub is_ok: bool,
    /// The number of balances.
    pub balances: u64,
    /// The number of ledger entries.
    pub entries: u64,
    /// The number of entries that are charges.
    pub charges: u64,
    /// The number of request records.
    pub requests: u64,
    /// The number of rows of sums.
    pub sums: u64,
    /// The number of balances that kept changing, and were not compared with those in memory.
    pub under_way: u64,
    /// The number of differences.
    pub found: u64,
    /// The first differences.
    pub differences: Vec<String>,
}

// === impl OperationKind ===

impl OperationKind {
    /// All operations, in the order of the screen.
    pub const ALL: [Self; 4] =
        [Self::Diagnosis, Self::TestRequests, Self::Verification, Self::Backup];

    /// Returns the name on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Diagnosis => "check the gateway",
            Self::TestRequests => "check with test requests",
            Self::Verification => "verify the ledger",
            Self::Backup => "back up the database",
        }
    }

    /// Returns the arguments of the `ctl` command that does the same. A backup without a `file` names
    /// an example.
    pub fn arguments(self, file: Option<&str>) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Diagnosis => &["doctor"],
            Self::TestRequests => &["doctor", "--send-requests"],
            Self::Verification => &["ledger", "verify"],
            Self::Backup => &["backup", file.unwrap_or("tollgate.db")],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// Returns whether it needs the role `operator`; the others need `support`.
    pub fn needs_operator(self) -> bool {
        matches!(self, Self::TestRequests | Self::Backup)
    }
}

// === impl Operations ===

impl Operations {
    /// Returns the selected operation.
    pub fn kind(&self) -> OperationKind {
        OperationKind::ALL[self.selected]
    }

    /// Returns the last run of the selected operation.
    pub fn current(&mut self) -> &mut OperationRun {
        &mut self.runs[self.selected]
    }

    /// Returns whether any operation runs.
    pub fn is_any_running(&self) -> bool {
        self.runs.iter().any(OperationRun::is_running)
    }

    /// Applies an event of the run with this number, if it still matters.
    pub fn apply(&mut self, number: u64, event: OperationEvent) {
        let run = self.runs.iter_mut().find(|run| run.number == number && run.is_running());
        if let Some(run) = run {
            run.apply(event);
        }
    }
}

// === impl OperationRun ===

impl OperationRun {
    /// Returns whether it runs.
    pub fn is_running(&self) -> bool {
        self.state == RunState::Running
    }

    /// Returns the number of findings of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|it| it.severity == severity).count()
    }

    /// Returns the findings, the worst first.
    pub fn sorted_findings(&self) -> Vec<&Finding> {
        let mut sorted: Vec<_> = self.findings.iter().collect();
        sorted.sort_by_key(|it| std::cmp::Reverse(it.severity));
        sorted
    }

    fn apply(&mut self, event: OperationEvent) {
        match event {
            OperationEvent::Started(at) => self.started_at = Some(at),
            OperationEvent::Found(finding) => self.findings.push(finding),
            OperationEvent::Verified(verification) => self.verification = Some(verification),
            OperationEvent::Writing(file) => self.file = Some(file),
            OperationEvent::Copied(bytes, total) => self.copied = Some((bytes, total)),
            OperationEvent::Ended(at, result) => {
                self.ended_at = Some(at);
                self.state = match result {
                    Ok(()) => RunState::Done,
                    Err(problem) => RunState::Failed(problem),
                };
            }
        }
    }
}

// === impl Severity ===

impl Severity {
    /// Returns the name, as in `ctl doctor`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}
