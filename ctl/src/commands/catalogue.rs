//! `ctl export` and `ctl apply`: plans, upstreams and models as a file that lives in git.
//!
//! `file` is how they are written down, `contract` how the gateway has them, `difference` what changes one
//! state into another, `change` the call that makes it so. Applying what was exported changes nothing.

mod change;
mod contract;
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
use file::{Catalogue, Credential};

/// What stands above an exported catalogue.
const PREFACE: &str = "# Plans, upstreams and models, for `ctl apply -f FILE`. It holds no secret: a \
    `sealed` credential is\n# kept by the gateway alone.\n\n";

/// Runs `ctl export`.
pub(super) async fn export(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let catalogue = fetch(shell.connect().await?).await?;
    if shell.output.format() != Format::Table {
        return shell.output.document(&catalogue);
    }
    let text = toml::to_string(&catalogue)
        .map_err(|error| Failure::new(Exit::Failed, format!("writing the catalogue: {error}")))?;
    shell.output.text(&format!("{PREFACE}{text}"))
}

/// Runs `ctl apply`.
pub(super) async fn apply(shell: &mut Shell<'_>, input: Apply) -> Result<(), Failure> {
    let mut wished = read(shell, &input.file)?;
    let connection = shell.connect().await?;
    let there = fetch(connection.clone()).await?;
    wished.settle(&there);
    check_sealed(&wished, &there)?;
    let changes = differences(&there, &wished, input.prune)?;
    print(shell, &changes)?;
    if changes.is_empty() {
        shell.output.note("no changes");
        return Ok(());
    }
    if input.dry_run {
        change::check(connection, &changes, &there, &wished).await?;
        shell.output.note("nothing was changed: this was a dry run");
        return Ok(());
    }
    let removed = changes.iter().filter(|change| change.action == Action::Remove).count();
    if removed > 0 {
        if !shell.environment.interactive && !shell.globals.yes {
            let message = format!("{removed} of the changes remove something");
            return Err(Failure::usage(message).advise("say that they may, with --yes"));
        }
        shell.confirm(&format!("Apply this, and remove {removed}?"))?;
    }
    change::carry_out(shell, connection, &changes, &there, &wished).await
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
            .advise("`ctl export >FILE` makes one of what the gateway has")
    })?;
    toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        let message = format!("`{}`, line {line}: {}", path.display(), error.message());
        Failure::usage(message).advise("`ctl export` prints a file as it should be")
    })
}

/// Asks the gateway for all that a catalogue holds.
async fn fetch(connection: Connection) -> Result<Catalogue, Failure> {
    // Upstreams first: whoever may see those sees everything.
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
    catalogue.settle(&Catalogue::default());
    Ok(catalogue)
}

/// A file cannot give what it does not hold: a credential that it calls sealed must be stored already.
fn check_sealed(wished: &Catalogue, there: &Catalogue) -> Result<(), Failure> {
    let sealed =
        wished.upstreams.iter().filter(|(_, it)| it.credential == Some(Credential::Sealed));
    for (name, upstream) in sealed {
        let verb = match there.upstreams.get(name) {
            Some(stored) if stored.credential == Some(Credential::Sealed) => continue,
            Some(_) => format!("update {name}"),
            None => format!("add {name} --url {}", upstream.url),
        };
        let message = format!("upstream `{name}` is sealed, but no credential is stored for it");
        return Err(Failure::new(Exit::Conflict, message)
            .advise(format!("store it: ctl upstream {verb} --key-stdin < FILE")));
    }
    Ok(())
}

fn print(shell: &mut Shell<'_>, changes: &[Change]) -> Result<(), Failure> {
    if shell.output.format() != Format::Table || shell.output.is_quiet() {
        return shell.output.many(changes);
    }
    let text: String = changes.iter().map(|change| change.draw(&shell.output)).collect();
    shell.output.text(&text)
}
