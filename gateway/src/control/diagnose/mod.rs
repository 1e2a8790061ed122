//! Diagnosis of an installation: findings with remedies.
//!
//! Checks run one after another, each with a timeout. Driven by the caller: a check runs only when
//! its findings are read. Each area is a file; [`Control::diagnose`] defines the order.

mod collector;
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
use trust::TlsProblem;

use super::access::Permission;
use super::{Caller, Control, ControlError};

use domain::upstream::Upstream;

/// The timeout of a check of the host or of an upstream.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);
/// The timeout of a check that reads the whole database.
const LONG_CHECK_TIMEOUT: Duration = Duration::from_mins(2);

/// The area of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The program and its schema.
    Version,
    /// The gateway's clock.
    Clock,
    /// Space on the disk of the data directory.
    Disk,
    /// Integrity of the database, and whether it can be written.
    Database,
    /// Scheduled backups.
    Backups,
    /// Scrapes of the metrics.
    Metrics,
    /// The export to an OpenTelemetry collector.
    Collector,
    /// Deliveries of webhooks to one endpoint.
    Webhooks,
    /// Consistency of balances with entries, and of records with charges.
    Ledger,
    /// One upstream.
    Upstream,
    /// The certificate of an upstream or of the gateway.
    Tls,
    /// Permissions of files with secrets.
    Secrets,
    /// The limit of open files of the process.
    Files,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is wrong.
    Ok,
    /// It works, but may fail soon or under load.
    Warning,
    /// It does not work.
    Problem,
}

/// A result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The result, in a sentence.
    pub text: String,
    /// The remedy; empty if none is needed.
    pub remedy: String,
    /// The time to the first token, if the check sent a request.
    pub first_token: Option<Duration>,
}

/// A finding with its area, subject and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindingView {
    /// The examined area.
    pub area: Area,
    /// The examined object; empty if the area has only one.
    pub subject: String,
    /// The finding.
    pub finding: Finding,
    /// The duration of the check; the time to the first token, if there is one.
    pub elapsed: Duration,
    /// The time of the finding.
    pub at: Timestamp,
}

/// A check to run.
struct Check {
    area: Area,
    subject: String,
    timeout: Duration,
    work: Pin<Box<dyn Future<Output = Vec<Finding>> + Send>>,
}

impl Control {
    /// Streams the findings of all checks. Stops when the stream is dropped. With `send_requests`,
    /// also sends a short request to each upstream for each deployed model.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members.
    pub fn diagnose(
        self: &Arc<Self>,
        caller: &Caller,
        send_requests: bool,
    ) -> Result<impl Stream<Item = FindingView> + Send + use<>, ControlError> {
        let sends = send_requests.then_some(Permission::SendTestRequests);
        caller.require(sends.unwrap_or(Permission::ReadAll))?;
        let control = self.clone();
        let checks = stream::iter(self.checks(caller, send_requests));
        Ok(checks.then(move |check| run(control.clone(), check)).flat_map(stream::iter))
    }

    /// Returns all checks, in the order of their dependencies.
    fn checks(self: &Arc<Self>, caller: &Caller, send_requests: bool) -> Vec<Check> {
        let dir = self.data_dir.clone();
        let place = dir.display().to_string();
        let now = self.clock.now();
        let running = format!("gateway {}, {}", version::LONG, self.schema);
        let mut checks = vec![
            Check::new(Area::Version, "", async move { vec![Finding::ok(running)] }),
            Check::new(Area::Clock, "", async move { vec![host::clock(now)] }),
            Check::new(Area::Files, "", host::files()),
            Check::new(Area::Disk, &place, host::disk(dir.clone())),
        ];
        let files = secrets::files(
            &dir,
            self.tls.as_ref().map(|tls| tls.files()),
            &self.directory.catalogue(),
        );
        checks.extend(files.into_iter().map(|file| {
            Check::new(Area::Secrets, &file.path.display().to_string(), secrets::check(file))
        }));
        if let Some(tls) = &self.tls {
            let path = tls.files().certificate.clone();
            let subject = path.display().to_string();
            checks.push(Check::new(Area::Tls, &subject, tls::check_own(path, now)));
        }
        checks.push(Check::long(Area::Database, database::integrity(self.clone())));
        if let Some(backups) = &self.backups {
            let dir = backups.settings().dir.display().to_string();
            let finding = database::backups(backups, now);
            checks.push(Check::new(Area::Backups, &dir, async move { vec![finding] }));
        }
        if let Some(scrapes) = &self.scrapes {
            let finding = host::metrics(scrapes.last(), now);
            let address = scrapes.address().to_string();
            checks.push(Check::new(Area::Metrics, &address, async move { vec![finding] }));
        }
        if let Some(exporter) = &self.telemetry {
            let address = exporter.status().address().to_owned();
            checks.push(Check::new(Area::Collector, &address, collector::check(exporter.clone())));
        }
        for (endpoint, status) in self.webhooks.iter().flat_map(|webhooks| webhooks.statuses()) {
            let finding = host::webhooks(&status);
            checks.push(Check::new(Area::Webhooks, &endpoint, async move { vec![finding] }));
        }
        checks.push(Check::long(Area::Ledger, database::ledger(self.clone(), caller.clone())));
        for upstream in self.directory.catalogue().upstreams.values() {
            let name = upstream.name.as_str();
            let deployed = upstream::deployed(self, upstream);
            let work = upstream::listing(self.clone(), upstream.clone(), deployed.clone());
            checks.push(Check::new(Area::Upstream, name, work));
            // A model may take long to load, so each has a separate check with its own timeout.
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

/// Returns the remedy for a failed TLS connection to an upstream.
fn tls_remedy(problem: &TlsProblem, upstream: &Upstream) -> String {
    let update = format!("ctl upstream update {}", upstream.name);
    problem.advice(
        &format!("`{update} --upstream-ca-file FILE`"),
        &format!("`{update} --client-cert FILE --client-key FILE`"),
    )
}

async fn run(control: Arc<Control>, check: Check) -> Vec<FindingView> {
    let Check { area, subject, timeout, work } = check;
    let start = control.clock.monotonic();
    let found = tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| {
        let seconds = timeout.as_secs();
        vec![if area == Area::Upstream {
            let text = format!("it did not answer within {seconds} s");
            Finding::problem(text, "see the log of its server, which may be loading a model")
        } else {
            let text = format!("the check did not finish within {seconds} s");
            Finding::warning(text, "try again under less load")
        }]
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
        Self { area, subject: subject.to_owned(), timeout: CHECK_TIMEOUT, work: Box::pin(work) }
    }

    fn long(area: Area, work: impl Future<Output = Vec<Finding>> + Send + 'static) -> Self {
        Self { timeout: LONG_CHECK_TIMEOUT, ..Self::new(area, "", work) }
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

/// Runs disk IO on the blocking pool.
async fn blocking(work: impl FnOnce() -> Vec<Finding> + Send + 'static) -> Vec<Finding> {
    tokio::task::spawn_blocking(work).await.unwrap_or_default()
}
