//! `ctl export` and `ctl apply`: plans, upstreams and models as a file, for example under version
//! control.
//!
//! `file` is the file format, `convert` maps it to and from proto, `difference` computes the
//! changes between two catalogues, `change` sends them. Invariant: applying an exported file
//! changes nothing.

mod change;
mod convert;
mod difference;
mod file;
mod limits;

use std::io::Read;
use std::path::Path;

use proto::client::Connection;
use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::plan_service_client::PlanServiceClient;
use proto::v1::upstream_service_client::UpstreamServiceClient;
use proto::v1::{ListModelsRequest, ListPlansRequest, ListUpstreamsRequest};

use crate::Shell;
use crate::cli::catalogue::Apply;
use crate::error::{Exit, Failure};
use crate::output::Format;
use difference::{Action, Change, differences};
use file::{Catalogue, Upstream};

/// The comment at the top of an exported catalogue.
const HEADER: &str = "# Plans, upstreams and models, for `ctl apply -f FILE`. The file contains no secrets: a `sealed`\n\
     # credential is stored only in the gateway.\n\n";

/// Runs `ctl export`.
pub(super) async fn export(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let catalogue = fetch(shell.connect().await?).await?;
    if shell.output.format() != Format::Table {
        return shell.output.document(&catalogue);
    }
    let text = toml::to_string(&catalogue)
        .map_err(|error| Failure::new(Exit::Failed, format!("writing the catalogue: {error}")))?;
    shell.output.text(&format!("{HEADER}{text}"))
}

/// Runs `ctl apply`.
pub(super) async fn apply(shell: &mut Shell<'_>, input: Apply) -> Result<(), Failure> {
    let mut desired = read(shell, &input.file)?;
    let connection = shell.connect().await?;
    let current = fetch(connection.clone()).await?;
    desired.normalize(&current);
    check_sealed(&desired, &current)?;
    let changes = differences(&current, &desired, input.prune)?;
    print(shell, &changes)?;
    if changes.is_empty() {
        shell.output.note("no changes");
        return Ok(());
    }
    if input.dry_run {
        change::check(connection, &changes, &current, &desired).await?;
        shell.output.note("nothing was changed: this was a dry run");
        return Ok(());
    }
    let removed = changes.iter().filter(|change| change.action == Action::Remove).count();
    if removed > 0 {
        if !shell.environment.interactive && !shell.globals.yes {
            let message = format!("{removed} of the changes remove something");
            return Err(Failure::usage(message).advise("confirm the removal with --yes"));
        }
        shell.confirm(&format!("Apply the changes, and remove {removed}?"))?;
    }
    change::apply(shell, connection, &changes, &current, &desired).await
}

/// Reads a catalogue file, or stdin for `-`.
fn read(shell: &mut Shell<'_>, path: &Path) -> Result<Catalogue, Failure> {
    let mut text = String::new();
    let reading = if path == Path::new("-") {
        shell.stdin.read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text))
    };
    reading.map_err(|error| {
        Failure::file("reading", path, &error)
            .advise("`ctl export > FILE` writes the current catalogue")
    })?;
    toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        let message = format!("`{}`, line {line}: {}", path.display(), error.message());
        Failure::usage(message).advise("`ctl export` prints a valid file")
    })
}

/// Fetches the complete catalogue from the gateway.
async fn fetch(connection: Connection) -> Result<Catalogue, Failure> {
    // Upstreams first: listing them requires the operator role, with which the other lists are
    // complete.
    let upstreams = UpstreamServiceClient::new(connection.clone())
        .list_upstreams(ListUpstreamsRequest {})
        .await?
        .into_inner();
    let models = ModelServiceClient::new(connection.clone())
        .list_models(ListModelsRequest {})
        .await?
        .into_inner();
    let plans =
        PlanServiceClient::new(connection).list_plans(ListPlansRequest {}).await?.into_inner();
    let mut catalogue = Catalogue {
        plans: plans.plans.into_iter().map(|it| (it.name.clone(), it.into())).collect(),
        upstreams: upstreams.upstreams.into_iter().map(|it| (it.name.clone(), it.into())).collect(),
        models: models.models.into_iter().map(|it| (it.id.clone(), it.into())).collect(),
    };
    catalogue.normalize(&Catalogue::default());
    Ok(catalogue)
}

/// Checks that the gateway already stores each credential that the file marks as sealed, because
/// the file does not contain it. A file with fewer sealed credentials would not say which ones.
fn check_sealed(desired: &Catalogue, current: &Catalogue) -> Result<(), Failure> {
    for (name, upstream) in &desired.upstreams {
        let stored = current.upstreams.get(name);
        if let Some(login) = upstream.sealed_proxy_login()
            && stored.and_then(Upstream::sealed_proxy_login).is_none()
        {
            let message = format!("the password for the proxy of upstream `{name}` is not stored");
            let verb = if stored.is_some() { "update" } else { "add" };
            let advice = format!(
                "store it: ctl upstream {verb} {name} --proxy-user {} --proxy-password-stdin < FILE",
                login.user
            );
            return Err(Failure::new(Exit::Conflict, message).advise(advice));
        }
        let (listed, count) =
            (upstream.sealed_count(), stored.map(Upstream::sealed_count).unwrap_or_default());
        if listed == 0 || listed == count {
            continue;
        }
        let message = match count {
            0 => format!("upstream `{name}` is sealed, but no credential is stored for it"),
            _ => {
                format!("upstream `{name}` has {count} stored credentials, but {listed} are listed")
            }
        };
        let advice = match stored {
            Some(_) if count > 0 => {
                format!("change them: ctl upstream update {name} --key-keep NUMBER --key-stdin")
            }
            Some(_) => format!("store it: ctl upstream update {name} --key-stdin < FILE"),
            None => {
                format!(
                    "store it: ctl upstream add {name} --url {} --key-stdin < FILE",
                    upstream.url
                )
            }
        };
        return Err(Failure::new(Exit::Conflict, message).advise(advice));
    }
    Ok(())
}

fn print(shell: &mut Shell<'_>, changes: &[Change]) -> Result<(), Failure> {
    if shell.output.format() != Format::Table || shell.output.is_quiet() {
        return shell.output.many(changes);
    }
    let text: String = changes.iter().map(|change| change.render(&shell.output)).collect();
    shell.output.text(&text)
}
