//! Examines an installation: what is wrong with it, and what to do about it.
//!
//! One check after another, each with a deadline, pulled by who asks: nothing is examined that nobody
//! waits for. A check is a file; [`Control::diagnose`] has the order.

mod database;
mod host;
mod secrets;
mod tls;
mod upstream;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use jiff::Timestamp;

use super::{Caller, Control, ControlError};
use domain::upstream::Upstream;

/// How long a check of the host or of an upstream may take, and one that reads the whole database.
const DEADLINE: Duration = Duration::from_secs(20);
const LONG_DEADLINE: Duration = Duration::from_mins(2);

/// What is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The gateway's clock.
    Clock,
    /// Space on the disk of the data directory.
    Disk,
    /// The database's integrity, and that it can be written.
    Database,
    /// Balances against entries, records against charges.
    Ledger,
    /// One upstream.
    Upstream,
    /// The certificate of an upstream, or our own.
    Tls,
    /// Files with secrets.
    Secrets,
    /// How many files the process may open.
    Files,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is wrong.
    Ok,
    /// It works, but will not for long, or not under load.
    Warning,
    /// It does not work.
    Problem,
}

/// What a check found of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was found, in a sentence.
    pub text: String,
    /// What to do about it; empty if nothing need be done.
    pub remedy: String,
    /// The time to the first token, of what was sent a request.
    pub first_token: Option<Duration>,
}

/// A finding, where it belongs and when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindingView {
    /// What was examined.
    pub area: Area,
    /// Which one, where there are several.
    pub subject: String,
    /// What was found.
    pub finding: Finding,
    /// How long that took; the time to the first token where there is one.
    pub elapsed: Duration,
    /// When.
    pub at: Timestamp,
}

/// Something to examine.
struct Check {
    area: Area,
    subject: String,
    deadline: Duration,
    work: Pin<Box<dyn Future<Output = Vec<Finding>> + Send>>,
}

impl Control {
    /// Examines one thing after another, for as long as somebody reads what is found; with
    /// `send_requests`, each upstream is also sent a short request for each of its models.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members.
    pub fn diagnose(
        self: &Arc<Self>,
        caller: &Caller,
        send_requests: bool,
    ) -> Result<impl Stream<Item = FindingView> + Send + use<>, ControlError> {
        caller.require_operator("examine the gateway")?;
        let control = self.clone();
        let checks = stream::iter(self.checks(caller, send_requests));
        Ok(checks.then(move |check| run(control.clone(), check)).flat_map(stream::iter))
    }

    /// All checks, in the order of what depends on what.
    fn checks(self: &Arc<Self>, caller: &Caller, send_requests: bool) -> Vec<Check> {
        let dir = self.data_dir.clone();
        let place = dir.display().to_string();
        let now = self.clock.now();
        let mut checks = vec![
            Check::new(Area::Clock, "", async move { vec![host::clock(now)] }),
            Check::new(Area::Files, "", host::files()),
            Check::new(Area::Disk, &place, host::disk(dir.clone())),
        ];
        let files = secrets::files(&dir, self.tls.as_ref(), &self.directory.catalogue());
        checks.extend(files.into_iter().map(|file| {
            Check::new(Area::Secrets, &file.path.display().to_string(), secrets::check(file))
        }));
        if let Some(files) = &self.tls {
            let path = files.certificate.clone();
            let subject = path.display().to_string();
            checks.push(Check::new(Area::Tls, &subject, tls::check_own(path, now)));
        }
        checks.push(Check::long(Area::Database, database::integrity(self.clone())));
        checks.push(Check::long(Area::Ledger, database::ledger(self.clone(), caller.clone())));
        for upstream in self.directory.catalogue().upstreams.values() {
            let name = upstream.name.as_str();
            let deployed = upstream::deployed(self, upstream);
            let work = upstream::listing(self.clone(), upstream.clone(), deployed.clone());
            checks.push(Check::new(Area::Upstream, name, work));
            // a model may take long to load: each has a deadline of its own
            checks.extend(deployed.into_iter().filter(|_| send_requests).map(|deployed| {
                let work = upstream::streaming(self.clone(), upstream.clone(), deployed);
                Check::new(Area::Upstream, name, work)
            }));
            if let Some(host) = tls::host(&upstream.url) {
                checks.push(Check::new(Area::Tls, name, tls::check(upstream.clone(), host, now)));
            }
        }
        checks
    }
}

/// How an operator has an upstream's certificate trusted.
fn ca_option(upstream: &Upstream) -> String {
    format!("`ctl upstream update {} --upstream-ca-file FILE`", upstream.name)
}

async fn run(control: Arc<Control>, check: Check) -> Vec<FindingView> {
    let Check { area, subject, deadline, work } = check;
    let start = control.clock.monotonic();
    let found = tokio::time::timeout(deadline, work).await.unwrap_or_else(|_| {
        let text = format!("this could not be found out within {} s", deadline.as_secs());
        vec![Finding::warning(text, "try again when the gateway has less to do")]
    });
    let elapsed = control.clock.monotonic().saturating_sub(start);
    let view = |finding: Finding| FindingView {
        area,
        subject: subject.clone(),
        elapsed: finding.first_token.unwrap_or(elapsed),
        at: control.clock.now(),
        finding,
    };
    found.into_iter().map(view).collect()
}

// === impl Check ===

impl Check {
    fn new(
        area: Area,
        subject: &str,
        work: impl Future<Output = Vec<Finding>> + Send + 'static,
    ) -> Self {
        Self { area, subject: subject.to_owned(), deadline: DEADLINE, work: Box::pin(work) }
    }

    fn long(area: Area, work: impl Future<Output = Vec<Finding>> + Send + 'static) -> Self {
        Self { deadline: LONG_DEADLINE, ..Self::new(area, "", work) }
    }
}

// === impl Finding ===

impl Finding {
    fn ok(text: impl Into<String>) -> Self {
        Self::new(Severity::Ok, text, "")
    }

    fn warning(text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Severity::Warning, text, remedy)
    }

    fn problem(text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Severity::Problem, text, remedy)
    }

    fn new(severity: Severity, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity, text: text.into(), remedy: remedy.into(), first_token: None }
    }
}

/// Runs what waits for a disk where that keeps nobody from working.
async fn blocking(work: impl FnOnce() -> Vec<Finding> + Send + 'static) -> Vec<Finding> {
    tokio::task::spawn_blocking(work).await.unwrap_or_default()
}
