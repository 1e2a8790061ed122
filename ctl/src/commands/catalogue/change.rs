//! The calls that make a gateway's catalogue be as it is wished.

use proto::client::Connection;
use proto::v1;
use proto::v1::credential::Source;
use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::plan_service_client::PlanServiceClient;
use proto::v1::upstream_service_client::UpstreamServiceClient;

use super::difference::{Action, Change, Kind};
use super::file::{Catalogue, Credential, Model, Plan, Upstream};
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

/// The new value, if it is another one.
fn changed<T: PartialEq + Clone>(before: &T, after: &T) -> Option<T> {
    (before != after).then(|| after.clone())
}

/// The same of a number that may be absent, for which 0 stands in the contract.
fn changed_number(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    changed(&before, &after).map(Option::unwrap_or_default)
}

/// The same of a text that may be absent, for which an empty one stands in the contract.
fn changed_text(before: &Option<String>, after: &Option<String>) -> Option<String> {
    changed(before, after).map(Option::unwrap_or_default)
}

// === entries in the contract's words ===

impl Plan {
    fn whole(&self, name: &str) -> v1::Plan {
        v1::Plan {
            name: name.to_owned(),
            trial_credit_usd: self.trial_credit_usd.clone().unwrap_or_default(),
            limits: Some(self.limits.clone().into()),
            models: self.models.clone(),
        }
    }
}

impl Upstream {
    fn whole(&self, name: &str) -> v1::Upstream {
        v1::Upstream {
            name: name.to_owned(),
            url: self.url.clone(),
            credential: Some(self.credential()),
            profile: v1::Profile::from(self.profile).into(),
            deadlines: Some(v1::Deadlines {
                connect_ms: self.connect_ms,
                first_byte_ms: self.first_byte_ms,
                idle_ms: self.idle_ms,
            }),
            ..v1::Upstream::default()
        }
    }

    fn since(&self, name: &str, before: &Self) -> v1::UpdateUpstreamRequest {
        v1::UpdateUpstreamRequest {
            name: name.to_owned(),
            url: changed(&before.url, &self.url),
            credential: (before.credential != self.credential).then(|| self.credential()),
            profile: changed(&before.profile, &self.profile)
                .map(|profile| v1::Profile::from(profile).into()),
            deadlines: Some(v1::Deadlines {
                connect_ms: changed_number(before.connect_ms, self.connect_ms),
                first_byte_ms: changed_number(before.first_byte_ms, self.first_byte_ms),
                idle_ms: changed_number(before.idle_ms, self.idle_ms),
            }),
        }
    }

    /// A sealed credential is never sent: it was checked to be there, and no change.
    fn credential(&self) -> v1::Credential {
        let source = self.credential.clone().and_then(|credential| match credential {
            Credential::Sealed => None,
            Credential::Env(name) => Some(Source::Env(name)),
            Credential::File(path) => Some(Source::File(path)),
        });
        v1::Credential { source }
    }
}

impl Model {
    fn whole(&self, id: &str) -> v1::Model {
        v1::Model {
            id: id.to_owned(),
            display_name: self.display_name.clone().unwrap_or_default(),
            description: self.description.clone().unwrap_or_default(),
            context_window: self.context_window,
            max_output_tokens: self.max_output_tokens,
            limits: Some(self.limits.clone().into()),
            price: Some(v1::Price {
                input_usd: self.input_usd.clone().unwrap_or_default(),
                cached_usd: self.cached_usd.clone().unwrap_or_default(),
                output_usd: self.output_usd.clone().unwrap_or_default(),
                version: 0,
            }),
            abilities: self.ability_list().abilities,
            aliases: self.aliases.clone(),
            deployments: self.deployment_list().deployments,
            created_at: None,
        }
    }

    fn since(&self, id: &str, before: &Self) -> v1::UpdateModelRequest {
        v1::UpdateModelRequest {
            id: id.to_owned(),
            display_name: changed_text(&before.display_name, &self.display_name),
            description: changed_text(&before.description, &self.description),
            context_window: changed_number(before.context_window, self.context_window),
            max_output_tokens: changed_number(before.max_output_tokens, self.max_output_tokens),
            limits: Some(self.limits.since(&before.limits)),
            input_usd: changed_text(&before.input_usd, &self.input_usd),
            cached_usd: changed_text(&before.cached_usd, &self.cached_usd),
            output_usd: changed_text(&before.output_usd, &self.output_usd),
            abilities: (before.abilities != self.abilities).then(|| self.ability_list()),
            aliases: changed(&before.aliases, &self.aliases)
                .map(|aliases| v1::AliasList { aliases }),
            deployments: (before.deployments != self.deployments).then(|| self.deployment_list()),
        }
    }

    fn ability_list(&self) -> v1::AbilityList {
        let abilities = self.abilities.iter().map(|it| v1::Ability::from(*it).into()).collect();
        v1::AbilityList { abilities }
    }

    fn deployment_list(&self) -> v1::DeploymentList {
        let deployments = self.deployments.iter().cloned().map(Into::into).collect();
        v1::DeploymentList { deployments }
    }
}
