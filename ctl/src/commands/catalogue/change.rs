//! The calls that make a gateway's catalogue be as it is wished.

use proto::client::Connection;
use proto::v1;
use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::plan_service_client::PlanServiceClient;
use proto::v1::upstream_service_client::UpstreamServiceClient;

use super::difference::{Action, Change, Kind};
use super::file::Catalogue;
use crate::Shell;
use crate::error::{Exit, Failure};

/// Makes the changes. One that conflicts with what another will change waits for that: an alias may go
/// from one model to the next.
pub(super) async fn carry_out(
    shell: &mut Shell<'_>,
    connection: &Connection,
    changes: Vec<Change>,
    there: &Catalogue,
    wished: &Catalogue,
) -> Result<(), Failure> {
    let (whole, mut made) = (changes.len(), 0);
    let stopped = |made: usize, change: &Change, failure: &Failure| {
        let advice = failure.advice().map(|advice| format!("; {advice}")).unwrap_or_default();
        let message = format!("{}: {failure}; {made} of {whole} changes were made", change.title());
        Failure::new(failure.exit(), message)
            .advise(format!("mend it and apply again: what was made is not made twice{advice}"))
    };
    let mut waiting = changes;
    loop {
        let mut conflicts = Vec::new();
        let before = made;
        for change in waiting {
            match make(connection, &change, there, wished).await {
                Ok(()) => {
                    made += 1;
                    let done = match change.action {
                        Action::Add => "added",
                        Action::Change => "changed",
                        Action::Remove => "removed",
                    };
                    shell.output.note(&format!("{done} {}", change.title()));
                }
                Err(failure) if failure.exit() == Exit::Conflict => {
                    conflicts.push((change, failure));
                }
                Err(failure) => return Err(stopped(made, &change, &failure)),
            }
        }
        match conflicts.first() {
            None => return Ok(()),
            Some((change, failure)) if made == before => {
                return Err(stopped(made, change, failure));
            }
            Some(_) => waiting = conflicts.into_iter().map(|(change, _)| change).collect(),
        }
    }
}

/// Makes one change.
async fn make(
    connection: &Connection,
    change: &Change,
    there: &Catalogue,
    wished: &Catalogue,
) -> Result<(), Failure> {
    let name = &change.name;
    match change.kind {
        Kind::Upstream => {
            let mut client = UpstreamServiceClient::new(connection.clone());
            match (there.upstreams.get(name), wished.upstreams.get(name)) {
                (None, Some(after)) => {
                    let upstream = Some(after.whole(name));
                    client.add_upstream(v1::AddUpstreamRequest { upstream }).await?;
                }
                (Some(before), Some(after)) => {
                    client.update_upstream(after.since(name, before)).await?;
                }
                (_, None) => {
                    let name = name.clone();
                    client.remove_upstream(v1::RemoveUpstreamRequest { name }).await?;
                }
            }
        }
        Kind::Model => {
            let mut client = ModelServiceClient::new(connection.clone());
            match (there.models.get(name), wished.models.get(name)) {
                (None, Some(after)) => {
                    let model = Some(after.whole(name));
                    client.add_model(v1::AddModelRequest { model }).await?;
                }
                (Some(before), Some(after)) => {
                    client.update_model(after.since(name, before)).await?;
                }
                (_, None) => {
                    client.remove_model(v1::RemoveModelRequest { id: name.clone() }).await?;
                }
            }
        }
        Kind::Plan => {
            let plan = wished.plans.get(name).map(|plan| plan.whole(name));
            let mut client = PlanServiceClient::new(connection.clone());
            client.put_plan(v1::PutPlanRequest { plan }).await?;
        }
    }
    Ok(())
}
