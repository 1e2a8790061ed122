//! Whether a request may go on: the model, the balance, the limits.

use std::sync::Arc;

use super::Gate;
use super::authenticate::Principal;
use super::tally::Tally;
use crate::control::directory::Catalogue;
use crate::domain::id::ModelId;
use crate::domain::model::Model;
use crate::domain::refusal::Refusal;
use crate::ledger::{Broke, Cover, Size};
use crate::limits::{Cause, Exceeded, Moment, Permit, Subject};

/// Finds the model that the client calls `name`, if this principal may use it.
///
/// # Errors
/// [`Refusal::ModelNotFound`], with the right id if `name` is some model's display name, or
/// [`Refusal::ModelNotAllowed`].
pub fn find_model(gate: &Gate, principal: &Principal, name: &str) -> Result<Arc<Model>, Refusal> {
    let catalogue = gate.directory.catalogue();
    let Some(model) = catalogue.find_model(name) else {
        let meant = catalogue
            .find_model_displayed_as(name)
            .filter(|model| may_use(principal, &model.id).is_ok())
            .map(|model| model.id.to_string());
        return Err(Refusal::ModelNotFound { model: name.to_owned(), meant });
    };
    may_use(principal, &model.id)
        .map_err(|by_key| Refusal::ModelNotAllowed { model: name.to_owned(), by_key })?;
    Ok(model.clone())
}

/// The models that this principal may use, by id.
pub fn usable_models<'a>(
    catalogue: &'a Catalogue,
    principal: &'a Principal,
) -> impl Iterator<Item = &'a Arc<Model>> {
    catalogue.models.values().filter(|model| may_use(principal, &model.id).is_ok())
}

/// A request's place: under every limit, and in the balance.
pub struct Admission {
    /// Its place under the limits.
    pub permit: Permit,
    /// What is held for it; `None` if it costs nothing.
    pub cover: Option<Cover>,
}

/// Holds what the request may cost, and takes a place under every limit: in the balance first, so
/// that a request that nobody pays for counts under no limit. `tally` learns of both.
///
/// # Errors
/// The balance or the key's cap does not pay for it, a limit is reached, or records cannot be written.
pub fn admit(
    gate: &Gate,
    principal: &Principal,
    model: &Model,
    size: &Size,
    tally: &mut Tally,
) -> Result<(), Refusal> {
    if gate.ledger.is_behind() {
        return Err(Refusal::RecorderBehind);
    }
    let key = &principal.key;
    let cover = gate.ledger.hold(key, model, size).map_err(|broke| match broke {
        Broke::Spent => Refusal::InsufficientBalance,
        Broke::Held => Refusal::BalanceHeld,
        Broke::CapSpent => Refusal::KeyCapSpent { cap: key.spend_cap.unwrap_or_default() },
        Broke::CapHeld => Refusal::KeyCapHeld,
    })?;
    let subject = Subject {
        account: (principal.account.id, &principal.plan.limits),
        model: (&model.id, &model.limits),
        key: (&key.origin, &key.limits),
    };
    let demand = subject.counts_tokens().then(|| gate.ledger.demand(model, size));
    let now = Moment { monotonic: gate.clock.monotonic(), wall: tally.arrived_at() };
    let decision = gate.limiter.admit(&subject, demand.as_ref(), now);
    tally.stands(decision.standing);
    let observed = decision.observed.iter();
    tally.noted(
        observed
            .map(|(scope, kind)| format!("limit_observed={}.{}", scope.as_str(), kind.as_str())),
    );
    let permit = decision.outcome.map_err(refusal)?;
    tally.admitted(Admission { permit, cover }, model);
    Ok(())
}

/// The cap to send upstream where the client set none or a larger one: what its money and its quotas
/// leave, or else, for an answer that comes whole, the longest that the model gives. That is what was
/// held for it, and an upstream which gives more would be stopped by nothing, while a stream is stopped
/// where what was held ends and no more can be had.
pub fn output_cap(tally: &Tally, model: &Model, size: &Size) -> Option<u64> {
    let longest = model.max_output_tokens.filter(|_| size.max_output.is_none() && !size.stream);
    tally.output_cap().or(longest.map(|tokens| tokens.0))
}

fn refusal(Exceeded { scope, kind, limit, cause }: Exceeded) -> Refusal {
    match cause {
        Cause::Wait(retry_after) => Refusal::RateLimited { scope, kind, limit, retry_after },
        Cause::Spent { until } => Refusal::QuotaSpent { scope, limit, until },
        Cause::TooLarge { needed } => Refusal::LargerThanLimit { scope, kind, limit, needed },
    }
}

/// `Err(by_key)` if the key or else the plan leaves the model out.
fn may_use(principal: &Principal, model: &ModelId) -> Result<(), bool> {
    let lists = |models: &[ModelId]| models.is_empty() || models.contains(model);
    match (lists(&principal.key.models), lists(&principal.plan.models)) {
        (true, true) => Ok(()),
        (false, _) => Err(true),
        (true, false) => Err(false),
    }
}
