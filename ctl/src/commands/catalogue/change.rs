//! The call that applies changes to the gateway's catalogue, or validates them.

use proto::client::Connection;
use proto::v1;
use proto::v1::catalogue_change::Change as Call;
use proto::v1::catalogue_service_client::CatalogueServiceClient;

use super::difference::{Action, Change, Kind};
use super::file::Catalogue;
use crate::Shell;
use crate::error::{Exit, Failure};

/// Applies all changes atomically, and prints a note for each.
pub(super) async fn apply(
    shell: &mut Shell<'_>,
    connection: Connection,
    changes: &[Change],
    current: &Catalogue,
    desired: &Catalogue,
) -> Result<(), Failure> {
    send(connection, changes, current, desired, false).await?;
    for change in changes {
        let done = match change.action {
            Action::Add => "added",
            Action::Change => "changed",
            Action::Remove => "removed",
        };
        shell.output.note(&format!("{done} {}", change.title()));
    }
    Ok(())
}

/// Lets the gateway validate the changes without applying them.
pub(super) async fn check(
    connection: Connection,
    changes: &[Change],
    current: &Catalogue,
    desired: &Catalogue,
) -> Result<(), Failure> {
    send(connection, changes, current, desired, true).await
}

async fn send(
    connection: Connection,
    changes: &[Change],
    current: &Catalogue,
    desired: &Catalogue,
    dry_run: bool,
) -> Result<(), Failure> {
    let calls = changes.iter().map(|change| call(change, current, desired));
    let changes = calls.map(|call| v1::CatalogueChange { change: Some(call) }).collect();
    let request = v1::ApplyChangesRequest { changes, dry_run };
    let sent = CatalogueServiceClient::new(connection).apply_changes(request).await;
    sent.map_err(|status| {
        let failure = Failure::from(status);
        // Without an answer, it is unknown whether the changes were applied.
        if failure.exit() == Exit::Unavailable {
            return failure;
        }
        let advice = failure.advice().map(|advice| format!("; {advice}")).unwrap_or_default();
        let nothing = "nothing was changed: changes are applied all together or not at all";
        failure.advise(format!("{nothing}{advice}"))
    })?;
    Ok(())
}

/// Returns the request for one change.
fn call(change: &Change, current: &Catalogue, desired: &Catalogue) -> Call {
    let name = &change.name;
    match change.kind {
        Kind::Upstream => match (current.upstreams.get(name), desired.upstreams.get(name)) {
            (None, Some(after)) => {
                let upstream = Some(after.to_proto(name));
                Call::AddUpstream(v1::AddUpstreamRequest { upstream })
            }
            (Some(before), Some(after)) => Call::UpdateUpstream(after.update_from(name, before)),
            (_, None) => Call::RemoveUpstream(v1::RemoveUpstreamRequest { name: name.clone() }),
        },
        Kind::Model => match (current.models.get(name), desired.models.get(name)) {
            (None, Some(after)) => {
                Call::AddModel(v1::AddModelRequest { model: Some(after.to_proto(name)) })
            }
            (Some(before), Some(after)) => Call::UpdateModel(after.update_from(name, before)),
            (_, None) => Call::RemoveModel(v1::RemoveModelRequest { id: name.clone() }),
        },
        Kind::Plan => {
            let plan = desired.plans.get(name).map(|plan| plan.to_proto(name));
            Call::PutPlan(v1::PutPlanRequest { plan })
        }
    }
}
