//! Checks of an upstream: reachability, listed models and streaming.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use serde_json::json;
use trust::TlsProblem;

use super::Finding;
use crate::control::Control;
use crate::upstream::{UpstreamClient, UpstreamError};
use domain::upstream::{MAX_CREDENTIALS, ProxyChoice, Upstream};
use translate::dialect::Dialect;

/// The output limit of test requests, in tokens; includes reasoning.
const MAX_OUTPUT_TOKENS: u32 = 16;

/// A model of the catalogue with its name at the upstream.
#[derive(Clone)]
pub(super) struct DeployedModel {
    model: String,
    upstream_model: Arc<str>,
}

/// Returns the models that are deployed on `upstream`.
pub(super) fn deployed(control: &Control, upstream: &Upstream) -> Vec<DeployedModel> {
    let catalogue = control.directory.catalogue();
    let models = catalogue.models.values();
    let deployments = models.flat_map(|model| {
        let here = model.deployments.iter().filter(|it| it.upstream == upstream.name);
        here.map(|it| DeployedModel {
            model: model.id.to_string(),
            upstream_model: it.upstream_model.clone(),
        })
    });
    deployments.collect()
}

/// Checks that the upstream responds and lists the deployed models.
pub(super) async fn listing(
    control: Arc<Control>,
    upstream: Arc<Upstream>,
    deployed: Vec<DeployedModel>,
) -> Vec<Finding> {
    let upstream_client = match upstream_client(&control, &upstream) {
        Ok(upstream_client) => upstream_client,
        Err(error) => return vec![failed("it cannot be used", &upstream, &error)],
    };
    let credentials: Vec<_> = upstream_client.usable_credentials().collect();
    // No more at once than the upstream has connections, so that none of them is refused for want of one.
    let bound = upstream.connection_bound.map(|bound| bound.max_connections as usize);
    let answers = stream::iter(credentials.clone()).map(|it| upstream_client.models(it));
    let answers: Vec<_> = answers.buffered(bound.unwrap_or(MAX_CREDENTIALS)).collect().await;
    let mut found = Vec::new();
    for (credential, answer) in credentials.into_iter().zip(answers) {
        let number = upstream_client.credential_number(credential);
        let with = number.map(|number| format!(" with credential {number}")).unwrap_or_default();
        match answer {
            Ok(listed) => {
                let count = listed.len();
                found.push(Finding::ok(format!("it answers{with}, and lists {count} models")));
                found.extend(missing(&deployed, &listed, &with));
            }
            Err(UpstreamError::Refused { status: 404 | 405, .. }) => {
                let text = format!("it answers{with}, but does not list its models");
                found.push(Finding::ok(text));
            }
            Err(error) => {
                let what = format!("it does not list its models{with}");
                found.push(failed(&what, &upstream, &error));
            }
        }
    }
    let problem = control.credentials.problem(&upstream);
    if !problem.is_empty() {
        found.push(failed(
            "it is not used in full",
            &upstream,
            &UpstreamError::Misconfigured(problem),
        ));
    }
    found.extend(miscounts(&control, &upstream));
    found
}

/// Returns a warning for each deployed model that is not in `listed`. `with` names the credential.
fn missing(
    deployed: &[DeployedModel],
    listed: &[String],
    with: &str,
) -> impl Iterator<Item = Finding> {
    // A query string in a model name is a parameter of the simulator.
    let plain = |name: &str| name.split('?').next().unwrap_or(name).to_owned();
    let missing = deployed.iter().filter(move |it| !listed.contains(&plain(&it.upstream_model)));
    missing.map(move |it| {
        let DeployedModel { model, upstream_model } = it;
        Finding::warning(
            format!("it does not list `{upstream_model}`{with}, on which model `{model}` is deployed"),
            format!("see what it calls the model, and set it with `ctl model update {model} --upstream …`"),
        )
    })
}

/// Checks that a model streams, and measures the time to the first token. Returns nothing if the
/// upstream has no usable client, which [`listing`] reports.
pub(super) async fn streaming(
    control: Arc<Control>,
    upstream: Arc<Upstream>,
    deployed: DeployedModel,
) -> Vec<Finding> {
    let Ok(upstream_client) = upstream_client(&control, &upstream) else { return Vec::new() };
    let DeployedModel { model, upstream_model } = deployed;
    let cap = Dialect::of(upstream.profile).output_cap_field();
    let body = json!({
        "model": &*upstream_model,
        "messages": [{ "role": "user", "content": "Say hello." }],
        "stream": true,
        cap: MAX_OUTPUT_TOKENS,
    });
    let start = control.clock.monotonic();
    let credential = upstream_client.choose_credential(start);
    let first_token = upstream_client.first_token(credential, body.to_string()).await;
    vec![match first_token {
        Ok(()) => {
            let first_token = control.clock.monotonic().saturating_sub(start);
            let text = format!(
                "`{upstream_model}` streams; its first token came after {} ms",
                first_token.as_millis()
            );
            Finding { first_token: Some(first_token), ..Finding::ok(text) }
        }
        Err(error) => failed(
            &format!("`{upstream_model}` (model `{model}`) does not stream"),
            &upstream,
            &error,
        ),
    }]
}

/// Returns a warning if the upstream reported implausible usage.
fn miscounts(control: &Control, upstream: &Arc<Upstream>) -> Option<Finding> {
    let health = control.upstream_clients.health(upstream, control.clock.monotonic())?;
    (health.miscounts > 0).then(|| {
        let count = health.miscounts;
        Finding::warning(
            format!("{count} of its answers in the last five minutes reported implausible usage"),
            format!(
                "see `ctl upstream health` for the last one, and the context window and longest answer of \
                 the models on `{}`; usage beyond these was not charged",
                upstream.name
            ),
        )
    })
}

/// Returns the client of an upstream.
fn upstream_client(
    control: &Control,
    upstream: &Arc<Upstream>,
) -> Result<Arc<UpstreamClient>, UpstreamError> {
    let credential = || control.credentials.resolved(upstream);
    control.upstream_clients.upstream_client(upstream, credential)
}

fn failed(what: &str, upstream: &Upstream, error: &UpstreamError) -> Finding {
    let name = &upstream.name;
    let remedy = match error {
        UpstreamError::Misconfigured(_) if upstream.proxy.login().is_some() => format!(
            "give it a credential, and a password for its proxy, that work: `ctl upstream update {name} --key-… \
             --proxy-user NAME --proxy-password-…`"
        ),
        UpstreamError::Misconfigured(_) | UpstreamError::Refused { status: 401 | 403, .. } => {
            format!("give it a credential that works: `ctl upstream update {name} --key-…`")
        }
        UpstreamError::Redirected { .. } => {
            format!("set its URL to the address that answers: `ctl upstream update {name} --url …`")
        }
        UpstreamError::Unreachable(source) => match TlsProblem::find(&**source) {
            Some(problem) => super::tls_remedy(&problem, upstream),
            None if matches!(upstream.proxy, ProxyChoice::Configured(_)) => format!(
                "see that its server and its proxy run, and that their addresses and the login for the proxy are \
                 right: `ctl upstream update {name} --url … --proxy … --proxy-user …`"
            ),
            None => format!(
                "see that its server runs and that its address is right: `ctl upstream update {name} --url …`"
            ),
        },
        UpstreamError::JournalUnavailable(_) => "see the log of the gateway".to_owned(),
        _ => "see the log of its server".to_owned(),
    };
    Finding::problem(format!("{what}: {}", error.for_operators()), remedy)
}
