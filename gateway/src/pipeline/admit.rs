//! Admission: finds the model, holds the possible cost, and reserves a place under each limit.

use std::sync::Arc;
use std::time::Duration;

use super::AppState;
use super::authenticate::Principal;
use super::count::{InputText, InputTokens};
use super::coverage::{self, MAX_RETRIES, RETRY_INTERVAL, input_bound};
use super::open_request::OpenRequest;
use crate::directory::Catalogue;
use crate::ledger::{Hold, InsufficientFunds, RequestSize, UsageBound};
use crate::limits::{Exceeded, ExceededCause, LimitedSubjects, Moment, Permit, ReceiveGuard};
use domain::id::ModelId;
use domain::limit::LimitKind;
use domain::model::Model;
use domain::price::Price;
use domain::refusal::Refusal;

/// Hardly any request has more bytes per token. If the budget does not cover even this many tokens, counting
/// the input would not help.
const MAX_BYTES_PER_TOKEN: u64 = 8;

/// Finds the model that the client calls `name`, if this principal may use it.
///
/// # Errors
/// [`Refusal::ModelNotFound`], with the right id if `name` is a model's display name, or
/// [`Refusal::ModelNotAllowed`].
pub fn find_model(
    app: &AppState,
    principal: &Principal,
    name: &str,
) -> Result<Arc<Model>, Refusal> {
    let catalogue = app.directory.catalogue();
    let Some(model) = catalogue.find_model(name) else {
        let suggestion = catalogue
            .find_model_displayed_as(name)
            .filter(|model| may_use(principal, &model.id).is_ok())
            .map(|model| model.id.to_string());
        return Err(Refusal::ModelNotFound { model: name.to_owned(), suggestion });
    };
    may_use(principal, &model.id).map_err(|excluded| Refusal::ModelNotAllowed {
        model: name.to_owned(),
        by_key: excluded == Excluded::ByKey,
    })?;
    Ok(model.clone())
}

/// Returns the models that this principal may use, by id.
pub fn usable_models<'a>(
    catalogue: &'a Catalogue,
    principal: &'a Principal,
) -> impl Iterator<Item = &'a Arc<Model>> {
    catalogue.models.values().filter(|model| may_use(principal, &model.id).is_ok())
}

/// A request whose possible cost is held and that has a place under each limit. Dropping it releases both.
pub struct AdmittedRequest {
    /// The request.
    pub open: Box<OpenRequest>,
    /// The reservation under the limits.
    pub(super) permit: Permit,
    /// The hold of its possible cost; `None` if the model is free.
    pub(super) hold: Option<Hold>,
    /// The price of its model.
    pub(super) price: Price,
    /// The bound on its usage.
    pub(super) usage_bound: UsageBound,
    /// An estimate of the tokens of its images, audio and files.
    pub(super) media_tokens: u64,
    /// The number of requested choices.
    pub(super) choices: u64,
}

/// A request that is refused.
pub struct RefusedRequest {
    /// The reason.
    pub refusal: Refusal,
    /// The request.
    pub request: Box<OpenRequest>,
}

/// The resources that let a request in.
struct Admission {
    permit: Permit,
    hold: Option<Hold>,
}

/// A request for admission.
#[derive(Clone, Copy)]
pub struct AdmissionRequest<'a> {
    /// The authenticated caller.
    pub principal: &'a Principal,
    /// The requested model.
    pub model: &'a Model,
    /// The size of the request.
    pub size: &'a RequestSize,
    /// Returns the request's text, which is counted if the bound on its input is too high.
    pub input: &'a (dyn Fn() -> InputText + Sync),
}

/// Why one attempt to admit a request did not succeed.
struct AdmissionRefusal {
    /// The refusal that the client gets if there is no remedy, or it does not help.
    refusal: Refusal,
    /// What may still let the request in.
    remedy: Option<Remedy>,
}

/// What excludes a model.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Excluded {
    ByKey,
    ByPlan,
}

/// What may let a refused request in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remedy {
    /// Counting the input, which may have fewer tokens than its length allows.
    Count,
    /// Waiting for requests in progress to release what they do not need.
    Wait,
    /// Waiting for a larger part of what is shared with other gateways.
    Obtain,
}

/// Holds the possible cost of the request and reserves a place under each limit. The hold is taken first, so
/// that a request without money counts under no limit. If only requests in progress are in the way, this waits
/// for them to release what they do not need.
///
/// # Errors
/// The balance or the key's cap does not cover the request, a limit is reached, or records cannot be written.
pub async fn admit(
    app: &AppState,
    asked: AdmissionRequest<'_>,
    mut open: Box<OpenRequest>,
) -> Result<AdmittedRequest, RefusedRequest> {
    let admission = match try_admit(app, asked, None, &mut open) {
        Ok(admission) => Ok(admission),
        Err(AdmissionRefusal { refusal, remedy: None }) => Err(refusal),
        // Boxed because it is rare: the future of every request would have to hold it.
        Err(AdmissionRefusal { refusal, remedy: Some(remedy) }) => {
            Box::pin(admit_late(app, asked, &mut open, refusal, remedy)).await
        }
    };
    let Admission { permit, hold } = match admission {
        Ok(admission) => admission,
        Err(refusal) => return Err(RefusedRequest { refusal, request: open }),
    };
    let AdmissionRequest { model, size, .. } = asked;
    open.set_model(model);
    Ok(AdmittedRequest {
        open,
        permit,
        hold,
        price: model.price,
        usage_bound: UsageBound::of(model, size),
        media_tokens: size.media_tokens,
        choices: size.choices,
    })
}

/// Admits a request that was refused at first, after its input was counted or other requests released what it
/// lacked.
async fn admit_late(
    app: &AppState,
    asked: AdmissionRequest<'_>,
    open: &mut OpenRequest,
    mut refusal: Refusal,
    mut remedy: Remedy,
) -> Result<Admission, Refusal> {
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
                    // Others release money only while a request waits; too many would wait in vain.
                    let Some(funds) = app.ledger.register_waiter(&asked.principal.key) else {
                        break;
                    };
                    waiting = Some((funds, app.limiter.register_waiter(&asked.subject())));
                }
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            Remedy::Obtain => tokio::time::sleep(RETRY_INTERVAL).await,
        }
        match try_admit(app, asked, input_tokens, open) {
            Ok(admission) => return Ok(admission),
            Err(AdmissionRefusal { refusal, remedy: None }) => return Err(refusal),
            Err(AdmissionRefusal { refusal: next, remedy: Some(next_remedy) }) => {
                (refusal, remedy) = (next, next_remedy);
            }
        }
    }
    Err(refusal)
}

fn try_admit(
    app: &AppState,
    asked: AdmissionRequest<'_>,
    input_tokens: Option<u64>,
    open: &mut OpenRequest,
) -> Result<Admission, AdmissionRefusal> {
    if app.ledger.is_behind() {
        return Err(AdmissionRefusal { refusal: Refusal::RecorderBehind, remedy: None });
    }
    if app.ledger.is_handed_over() {
        return Err(AdmissionRefusal { refusal: Refusal::ShuttingDown, remedy: None });
    }
    let AdmissionRequest { principal, model, size, input: _ } = asked;
    let key = &principal.key;
    let try_hold = |input_tokens| app.ledger.hold(key, model, size, input_tokens);
    let hold = try_hold(input_tokens).map_err(|insufficient| {
        let (refusal, remedy) = match insufficient {
            InsufficientFunds::Spent => (Refusal::InsufficientBalance, None),
            InsufficientFunds::Held => (Refusal::BalanceHeld, Some(Remedy::Wait)),
            InsufficientFunds::CapSpent => {
                (Refusal::KeyCapSpent { cap: key.spend_cap.unwrap_or_default() }, None)
            }
            InsufficientFunds::CapHeld => (Refusal::KeyCapHeld, Some(Remedy::Wait)),
            InsufficientFunds::Requested => (Refusal::BalanceHeld, Some(Remedy::Obtain)),
            InsufficientFunds::HandedOver => (Refusal::ShuttingDown, None),
        };
        if remedy == Some(Remedy::Obtain) {
            return AdmissionRefusal { refusal, remedy };
        }
        let least = || size.counted_input(size.input_bytes / MAX_BYTES_PER_TOKEN);
        let may_count = input_tokens.is_none() && try_hold(Some(least())).is_ok();
        AdmissionRefusal { refusal, remedy: if may_count { Some(Remedy::Count) } else { remedy } }
    })?;
    if input_tokens.is_none() && hold.as_ref().is_some_and(Hold::is_capped_by_input) {
        return Err(AdmissionRefusal::uncounted());
    }
    let subject = asked.subject();
    let demand = subject.counts_tokens().then(|| app.ledger.demand(model, size, input_tokens));
    let now = Moment { monotonic: app.clock.monotonic(), wall: open.arrived_at() };
    let decision = app.limiter.admit(&subject, demand.as_ref(), now);
    open.set_limit_status(decision.limit_status);
    let permit = decision.permit.map_err(|exceeded| {
        let is_monthly = exceeded.kind == LimitKind::MonthlyTokens;
        let is_too_large = matches!(exceeded.cause, ExceededCause::TooLarge { .. });
        let is_held = is_monthly && matches!(exceeded.cause, ExceededCause::Wait(_));
        let remedy = if exceeded.cause == ExceededCause::Requested {
            Some(Remedy::Obtain)
        } else if input_tokens.is_none() && (is_monthly || is_too_large) {
            Some(Remedy::Count)
        } else {
            is_held.then_some(Remedy::Wait)
        };
        AdmissionRefusal { refusal: refusal(exceeded), remedy }
    });
    if input_tokens.is_none() && permit.as_ref().is_ok_and(Permit::is_capped_by_input) {
        return Err(AdmissionRefusal::uncounted());
    }
    if permit.as_ref().err().is_none_or(|not| not.remedy.is_none()) {
        let observed = decision.observed.iter();
        open.add_notes(
            observed.map(|(scope, kind)| {
                format!("limit_observed={}.{}", scope.as_str(), kind.as_str())
            }),
        );
    }
    Ok(Admission { permit: permit?, hold })
}

impl AdmissionRefusal {
    /// Returns the outcome of an attempt that would succeed with a cap that counting the input may make
    /// unnecessary. Its refusal is a placeholder: the next attempt, with the count, replaces it.
    const fn uncounted() -> Self {
        Self { refusal: Refusal::InsufficientBalance, remedy: Some(Remedy::Count) }
    }
}

impl<'a> AdmissionRequest<'a> {
    fn subject(self) -> LimitedSubjects<'a> {
        let Self { principal, model, .. } = self;
        LimitedSubjects {
            account: (principal.account.id, &principal.plan.limits),
            model: (&model.id, &model.limits),
            key: (&principal.key.origin, &principal.key.limits),
        }
    }
}

impl AdmittedRequest {
    /// Returns the cap on each choice that the balance and the monthly quota allow, if the client's own is
    /// higher; tokens.
    pub fn output_cap(&self) -> Option<u64> {
        coverage::output_cap(self.hold.as_ref(), Some(&self.permit))
    }

    /// Returns the cap to send upstream if the client set none or a larger one: what its money and quotas leave,
    /// or, for a plain answer, the longest that the model allows. Invariant: this is what was held for. A stream
    /// is ended when its hold cannot grow; a plain answer is bounded only by this cap.
    pub fn cap_to_send(&self, model: &Model, size: &RequestSize) -> Option<u64> {
        let longest = model.max_output_tokens.filter(|_| size.max_output.is_none() && !size.stream);
        self.output_cap().or(longest.map(|tokens| tokens.0))
    }
}

/// Takes a slot for a request body that does not arrive at once, before it is received.
///
/// # Errors
/// The account or the key already receives as many bodies as it may have concurrent requests.
pub fn reserve_receive_slot(
    app: &AppState,
    principal: &Principal,
) -> Result<ReceiveGuard, Refusal> {
    let account = (principal.account.id, &principal.plan.limits);
    let key = (&principal.key.origin, &principal.key.limits);
    app.limiter.receive(account, key).map_err(refusal)
}

fn refusal(Exceeded { scope, kind, limit, cause }: Exceeded) -> Refusal {
    match cause {
        ExceededCause::Wait(retry_after) => {
            Refusal::RateLimited { scope, kind, limit, retry_after }
        }
        // Not obtained in time.
        ExceededCause::Requested => {
            let retry_after = Duration::from_secs(1);
            Refusal::RateLimited { scope, kind, limit, retry_after }
        }
        ExceededCause::Spent { until } => Refusal::QuotaSpent { scope, limit, until },
        ExceededCause::TooLarge { needed } => {
            Refusal::LargerThanLimit { scope, kind, limit, needed }
        }
    }
}

/// Returns whether the principal may use the model. If both exclude it, it is excluded by the key.
fn may_use(principal: &Principal, model: &ModelId) -> Result<(), Excluded> {
    let lists = |models: &[ModelId]| models.is_empty() || models.contains(model);
    match (lists(&principal.key.models), lists(&principal.plan.models)) {
        (true, true) => Ok(()),
        (false, _) => Err(Excluded::ByKey),
        (true, false) => Err(Excluded::ByPlan),
    }
}
