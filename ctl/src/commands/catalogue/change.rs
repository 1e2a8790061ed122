//! The call that makes a gateway's catalogue be as it is wished.

use proto::client::Connection;
use proto::v1;
use proto::v1::catalogue_change::Change as Call;
use proto::v1::catalogue_service_client::CatalogueServiceClient;

use super::difference::{Action, Change, Kind};
use super::file::Catalogue;
use crate::Shell;
use crate::error::{Exit, Failure};

/// Has the gateway make all changes, or none.
pub(super) async fn carry_out(
    shell: &mut Shell<'_>,
    connection: Connection,
    changes: &[Change],
    there: &Catalogue,
    wished: &Catalogue,
) -> Result<(), Failure> {
    send(connection, changes, there, wished, false).await?;
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

/// Has the gateway say whether it would make the changes.
pub(super) async fn check(
    connection: Connection,
    changes: &[Change],
    there: &Catalogue,
    wished: &Catalogue,
) -> Result<(), Failure> {
    send(connection, changes, there, wished, true).await
}

async fn send(
    connection: Connection,
    changes: &[Change],
    there: &Catalogue,
    wished: &Catalogue,
    dry_run: bool,
) -> Result<(), Failure> {
    let calls = changes.iter().map(|change| call(change, there, wished));
    let changes = calls.map(|call| v1::CatalogueChange { change: Some(call) }).collect();
    let request = v1::ApplyChangesRequest { changes, dry_run };
    let sent = CatalogueServiceClient::new(connection).apply_changes(request).await;
    sent.map_err(|status| {
        let failure = Failure::from(status);
        // of a call whose answer did not come nobody knows whether it was made
        if failure.exit() == Exit::Unavailable {
            return failure;
        }
        let advice = failure.advice().map(|advice| format!("; {advice}")).unwrap_or_default();
        let nothing = "nothing was changed: the changes are made together or not at all";
        failure.advise(format!("{nothing}{advice}"))
    })?;
    Ok(())
}

/// The call that would make one change alone.
fn call(change: &Change, there: &Catalogue, wished: &Catalogue) -> Call {
    let name = &change.name;
    match change.kind {
        Kind::Upstream => match (there.upstreams.get(name), wished.upstreams.get(name)) {
            (None, Some(after)) => {
                let upstream = Some(after.whole(name));
                Call::AddUpstream(v1::AddUpstreamRequest { upstream })
            }
            (Some(before), Some(after)) => Call::UpdateUpstream(after.since(name, before)),
            (_, None) => Call::RemoveUpstream(v1::RemoveUpstreamRequest { name: name.clone() }),
        },
        Kind::Model => match (there.models.get(name), wished.models.get(name)) {
            (None, Some(after)) => {
                Call::AddModel(v1::AddModelRequest { model: Some(after.whole(name)) })
            }
            (Some(before), Some(after)) => Call::UpdateModel(after.since(name, before)),
            (_, None) => Call::RemoveModel(v1::RemoveModelRequest { id: name.clone() }),
        },
        Kind::Plan => {
            let plan = wished.plans.get(name).map(|plan| plan.whole(name));
            Call::PutPlan(v1::PutPlanRequest { plan })
        }
    }
}
