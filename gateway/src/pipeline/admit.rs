//! Whether a request may go on: the model, the balance, the limits.

use std::sync::Arc;

use super::AppState;
use super::authenticate::Principal;
use super::count::{InputText, InputTokens};
use super::coverage::{MAX_RETRIES, RETRY_INTERVAL, input_bound};
use super::request_guard::RequestGuard;
use crate::control::directory::Catalogue;
use crate::ledger::{Hold, InsufficientFunds, Size, UsageBound};
use crate::limits::{Cause, Exceeded, Moment, Permit, ReceiveGuard, Subject};
use domain::id::ModelId;
use domain::limit::LimitKind;
use domain::model::Model;
use domain::refusal::Refusal;

/// Hardly any request has more bytes for each of its tokens: where so few tokens cannot be paid for,
/// counting them would not help.
const MAX_BYTES_PER_TOKEN: u64 = 8;

/// Finds the model that the client calls `name`, if this principal may use it.
///
/// # Errors
/// [`Refusal::ModelNotFound`], with the right id if `name` is some model's display name, or
/// [`Refusal::ModelNotAllowed`].
pub fn find_model(
    app: &AppState,
    principal: &Principal,
    name: &str,
) -> Result<Arc<Model>, Refusal> {
    let catalogue = app.directory.catalogue();
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
    pub hold: Option<Hold>,
    /// What it may have used at most.
    pub usage_bound: UsageBound,
    /// An estimate of the tokens that its images, recordings and files are.
    pub media_tokens: u64,
}

/// What is asked of admission.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Who asks.
    pub principal: &'a Principal,
    /// For what.
    pub model: &'a Model,
    /// How much of it.
    pub size: &'a Size,
    /// Gathers its text, for when a bound on its input is too high.
    pub input: &'a (dyn Fn() -> InputText + Sync),
}

/// Why a request is not admitted.
struct NotAdmitted {
    refusal: Refusal,
    /// What may help.
    remedy: Option<Remedy>,
}

/// What may help a request that is not admitted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remedy {
    /// Its input may have fewer tokens than its length allows.
    Count,
    /// Requests under way may give back what they do not need.
    Wait,
}

/// Holds what the request may cost, and takes a place under every limit: in the balance first, so
/// that a request that nobody pays for counts under no limit. `guard` learns of both. Waits a while for
/// what requests under way give back, if that is all that is in the way.
///
/// # Errors
/// The balance or the key's cap does not pay for it, a limit is reached, or records cannot be written.
pub async fn admit(
    app: &AppState,
    asked: Asked<'_>,
    guard: &mut RequestGuard,
) -> Result<(), Refusal> {
    if app.ledger.is_behind() {
        return Err(Refusal::RecorderBehind);
    }
    match try_admit(app, asked, None, guard) {
        Ok(()) => Ok(()),
        Err(NotAdmitted { refusal, remedy: None }) => Err(refusal),
        // apart, since hardly any request needs the room that this takes
        Err(NotAdmitted { refusal, remedy: Some(remedy) }) => {
            Box::pin(admit_late(app, asked, guard, refusal, remedy)).await
        }
    }
}

/// Admits a request that was not admitted at once, after its input is counted or others gave back what it
/// lacked.
async fn admit_late(
    app: &AppState,
    asked: Asked<'_>,
    guard: &mut RequestGuard,
    mut refusal: Refusal,
    mut remedy: Remedy,
) -> Result<(), Refusal> {
    let (mut input_tokens, mut waiting) = (None, None);
    for _ in 0..MAX_RETRIES {
        match remedy {
            Remedy::Count => {
                let counted = app.counter.clone().count_for_admission((asked.input)()).await;
                let bound =
                    counted.map(|InputTokens(text)| asked.size.counted_input(input_bound(text)));
                let max_input = asked.size.max_input(asked.model);
                input_tokens = Some(bound.map_or(max_input, |bound| bound.min(max_input)));
            }
            Remedy::Wait => {
                if waiting.is_none() {
                    // Others give back only while a request waits; too many would wait in vain.
                    let Some(funds) = app.ledger.wait(&asked.principal.key) else { break };
                    waiting = Some((funds, app.limiter.wait(&asked.subject())));
                }
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
        match try_admit(app, asked, input_tokens, guard) {
            Ok(()) => return Ok(()),
            Err(NotAdmitted { refusal, remedy: None }) => return Err(refusal),
            Err(NotAdmitted { refusal: next, remedy: Some(next_remedy) }) => {
                (refusal, remedy) = (next, next_remedy);
            }
        }
    }
    Err(refusal)
}

fn try_admit(
    app: &AppState,
    asked: Asked<'_>,
    input_tokens: Option<u64>,
    guard: &mut RequestGuard,
) -> Result<(), NotAdmitted> {
    let Asked { principal, model, size, input: _ } = asked;
    let key = &principal.key;
    let hold = |input_tokens| app.ledger.hold(key, model, size, input_tokens);
    let hold = hold(input_tokens).map_err(|insufficient| {
        let (refusal, remedy) = match insufficient {
            InsufficientFunds::Spent => (Refusal::InsufficientBalance, None),
            InsufficientFunds::Held => (Refusal::BalanceHeld, Some(Remedy::Wait)),
            InsufficientFunds::CapSpent => {
                (Refusal::KeyCapSpent { cap: key.spend_cap.unwrap_or_default() }, None)
            }
            InsufficientFunds::CapHeld => (Refusal::KeyCapHeld, Some(Remedy::Wait)),
        };
        let least = || size.counted_input(size.input_bytes / MAX_BYTES_PER_TOKEN);
        let may_count = input_tokens.is_none() && hold(Some(least())).is_ok();
        NotAdmitted { refusal, remedy: if may_count { Some(Remedy::Count) } else { remedy } }
    })?;
    if input_tokens.is_none() && hold.as_ref().is_some_and(Hold::is_capped_by_input) {
        return Err(NotAdmitted::uncounted());
    }
    let subject = asked.subject();
    let demand = subject.counts_tokens().then(|| app.ledger.demand(model, size, input_tokens));
    let now = Moment { monotonic: app.clock.monotonic(), wall: guard.arrived_at() };
    let decision = app.limiter.admit(&subject, demand.as_ref(), now);
    guard.set_limit_status(decision.standing);
    let permit = decision.permit.map_err(|exceeded| {
        let is_monthly = exceeded.kind == LimitKind::MonthlyTokens;
        let is_too_large = matches!(exceeded.cause, Cause::TooLarge { .. });
        let is_held = is_monthly && matches!(exceeded.cause, Cause::Wait(_));
        let remedy = if input_tokens.is_none() && (is_monthly || is_too_large) {
            Some(Remedy::Count)
        } else {
            is_held.then_some(Remedy::Wait)
        };
        NotAdmitted { refusal: refusal(exceeded), remedy }
    });
    if input_tokens.is_none() && permit.as_ref().is_ok_and(Permit::is_capped_by_input) {
        return Err(NotAdmitted::uncounted());
    }
    if permit.as_ref().err().is_none_or(|not| not.remedy.is_none()) {
        let observed = decision.observed.iter();
        guard.noted(
            observed.map(|(scope, kind)| {
                format!("limit_observed={}.{}", scope.as_str(), kind.as_str())
            }),
        );
    }
    let usage_bound = UsageBound::of(model, size);
    let media_tokens = size.media_tokens;
    guard.admitted(Admission { permit: permit?, hold, usage_bound, media_tokens }, model);
    Ok(())
}

impl NotAdmitted {
    /// A request that could be admitted with a cap which a count of its input may make needless.
    const fn uncounted() -> Self {
        Self { refusal: Refusal::InsufficientBalance, remedy: Some(Remedy::Count) }
    }
}

impl<'a> Asked<'a> {
    fn subject(self) -> Subject<'a> {
        let Self { principal, model, .. } = self;
        Subject {
            account: (principal.account.id, &principal.plan.limits),
            model: (&model.id, &model.limits),
            key: (&principal.key.origin, &principal.key.limits),
        }
    }
}

/// The cap to send upstream where the client set none or a larger one: what its money and its quotas
/// leave, or else, for an answer that comes whole, the longest that the model gives. That is what was
/// held for it, and an upstream which gives more would be stopped by nothing, while a stream is stopped
/// where what was held ends and no more can be had.
pub fn output_cap(guard: &RequestGuard, model: &Model, size: &Size) -> Option<u64> {
    let longest = model.max_output_tokens.filter(|_| size.max_output.is_none() && !size.stream);
    guard.output_cap().or(longest.map(|tokens| tokens.0))
}

/// Takes a place for a request body that does not come all at once, before it is received.
///
/// # Errors
/// The account or the key receives as many bodies as it may have requests under way.
pub fn receive(app: &AppState, principal: &Principal) -> Result<ReceiveGuard, Refusal> {
    let account = (principal.account.id, &principal.plan.limits);
    let key = (&principal.key.origin, &principal.key.limits);
    app.limiter.receive(account, key).map_err(refusal)
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
