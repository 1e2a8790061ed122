//! The catalogue's models: changes, and validation of names, prices and deployments.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::access::Permission;
use super::access::allows;
use super::change::{ChangeContext, ReplayExt};
use super::plans::check_limits;
use super::{Caller, Control, ControlError};
use crate::directory::Catalogue;
use domain::ValidationError;
use domain::audit::AuditAction;
use domain::audit_diff;
use domain::id::{ModelId, UpstreamName};
use domain::limit::Limits;
use domain::model::{Ability, Deployment, Modality, Model, Routing};
use domain::money::Nanos;
use domain::text::has_hidden;
use domain::usage::Tokens;

/// A change of a model; `None` leaves a field unchanged.
#[derive(Clone, Debug, Default)]
pub struct ModelChange {
    /// The name for display.
    pub display_name: Option<String>,
    /// A short description.
    pub description: Option<String>,
    /// Input and output tokens together; zero means unknown.
    pub context_window: Option<u64>,
    /// The maximum output tokens; zero means unknown.
    pub max_output_tokens: Option<u64>,
    /// Limits over all accounts. `None` leaves a limit unchanged; zero removes it on an update. Its
    /// `observe` is ignored in favour of `observe_limits`.
    pub limits: Limits,
    /// Whether requests over the limits are served and noted instead of refused.
    pub observe_limits: Option<bool>,
    /// The price per million input tokens.
    pub input: Option<Nanos>,
    /// The price per million cached input tokens.
    pub cached: Option<CachedPrice>,
    /// The price per million output tokens.
    pub output: Option<Nanos>,
    /// The model's abilities.
    pub abilities: Option<Vec<Ability>>,
    /// The input modalities; an empty list means unknown.
    pub inputs: Option<Vec<Modality>>,
    /// Alternative names that requests may use.
    pub aliases: Option<Vec<ModelId>>,
    /// The deployments, which replace all earlier ones.
    pub deployments: Option<Vec<NewDeployment>>,
    /// How requests are spread over the deployments.
    pub routing: Option<Routing>,
    /// How long an upstream may take to begin its answer before the request is also sent to the next deployment, in
    /// milliseconds; zero for never.
    pub hedge_after_ms: Option<u64>,
}

/// The requested price of cached input tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedPrice {
    /// The price of uncached input after the change.
    LikeInput,
    /// A separate price.
    Own(Nanos),
}

/// A request for a deployment.
#[derive(Clone, Debug)]
pub struct NewDeployment {
    /// The upstream.
    pub upstream: UpstreamName,
    /// The upstream's name of the model; empty means the model's id.
    pub upstream_model: String,
    /// The share among deployments of the same priority; zero means one.
    pub weight: u32,
    /// Lower values are tried first.
    pub priority: u32,
}

const MAX_DISPLAY_NAME_BYTES: usize = 256;
const MAX_DESCRIPTION_BYTES: usize = 4_096;
const MAX_UPSTREAM_MODEL_BYTES: usize = 512;
const MAX_TOKENS: u64 = 1_000_000_000_000;
/// The shortest wait for an answer before a request is sent twice, and the longest. Nearly all answers take longer than the
/// shortest; hardly any takes longer than the longest.
const HEDGE_AFTER: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_mins(10);

// === impl Control ===

impl Control {
    /// Lists models by id. Members see the models of their plan, without deployments.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the caller's plan no longer exists.
    pub fn list_models(&self, caller: &Caller) -> Result<Vec<Arc<Model>>, ControlError> {
        let catalogue = self.directory.catalogue();
        if caller.sees_all() {
            return Ok(catalogue.models.values().cloned().collect());
        }
        let plan = self.plan_of(&caller.account)?;
        let allowed = catalogue.models.values().filter(|model| allows(&plan, model));
        Ok(allowed.map(|model| for_caller(caller, model)).collect())
    }

    /// Returns a model by its id or an alias.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if it does not exist or the caller may not see it.
    pub fn get_model(&self, caller: &Caller, name: &str) -> Result<Arc<Model>, ControlError> {
        Ok(for_caller(caller, &self.visible_model(caller, name)?))
    }

    /// Adds a model.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::Exists`] if a name is taken,
    /// [`ControlError::Invalid`] if a field is invalid.
    pub async fn add_model(
        self: &Arc<Self>,
        caller: &Caller,
        id: ModelId,
        change: ModelChange,
    ) -> Result<Arc<Model>, ControlError> {
        caller.require(Permission::ChangeCatalogue)?;
        check_limits(&change.limits)?;
        self.write(Some(caller), move |control| async move {
            if control.directory.catalogue().models.contains_key(&id) {
                return Err(ControlError::Exists(format!(
                    "model `{id}` exists; change it with `ctl model update`"
                )));
            }
            let model = change.into_new(id, control.clock.now());
            let details = audit_diff::describe(&model);
            put_model(&control, AuditAction::ModelAdd, model, details).await
        })
        .await
        .or_replay(|done| self.get_model(caller, &done.object))
    }

    /// Changes a model. Increments the price version if a price changes.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::NotFound`] if it does not exist,
    /// [`ControlError::Exists`] if a new name is taken, [`ControlError::Invalid`] if a field is
    /// invalid.
    pub async fn update_model(
        self: &Arc<Self>,
        caller: &Caller,
        id: String,
        change: ModelChange,
    ) -> Result<Arc<Model>, ControlError> {
        caller.require(Permission::ChangeCatalogue)?;
        self.write(Some(caller), move |control| async move {
            let model = control.directory.catalogue().models.get(id.as_str()).cloned();
            let model = model.ok_or_else(|| ControlError::missing("model", &id))?;
            let changed = change.apply_to(&model);
            let details = audit_diff::describe_changes(&*model, &changed);
            put_model(&control, AuditAction::ModelUpdate, changed, details).await
        })
        .await
        .or_replay(|done| self.get_model(caller, &done.object))
    }

    /// Removes a model. Its request records remain.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::NotFound`] if it does not exist.
    pub async fn remove_model(
        self: &Arc<Self>,
        caller: &Caller,
        id: String,
    ) -> Result<(), ControlError> {
        caller.require(Permission::ChangeCatalogue)?;
        self.write(Some(caller), move |control| async move {
            let model = control.directory.catalogue().models.get(id.as_str()).cloned();
            let model = model.ok_or_else(|| ControlError::missing("model", &id))?;
            let details = audit_diff::describe(&*model);
            let entry =
                control.audit_entry(AuditAction::ModelRemove, model.id.as_str(), None, details);
            control.store.remove_model(&model.id, &entry).await?;
            control.directory.change_catalogue(|catalogue| {
                catalogue.models.remove(&model.id);
            });
            Ok(())
        })
        .await
        .or_replay(|_| Ok(()))
    }
}

async fn put_model(
    control: &ChangeContext,
    action: AuditAction,
    model: Model,
    details: String,
) -> Result<Arc<Model>, ControlError> {
    check(&model, &control.directory.catalogue())?;
    let entry = control.audit_entry(action, model.id.as_str(), None, details);
    control.store.put_model(&model, &entry).await?;
    let model = Arc::new(model);
    control.directory.change_catalogue(|catalogue| {
        catalogue.models.insert(model.id.clone(), model.clone());
    });
    Ok(model)
}

// === impl ModelChange ===

impl ModelChange {
    /// Builds a new model with the defaults for fields that are not set.
    pub(super) fn into_new(self, id: ModelId, created_at: Timestamp) -> Model {
        let mut model = self.apply_to(&Model::new(id, created_at));
        model.price.version = 1;
        model
    }

    pub(super) fn apply_to(self, old: &Model) -> Model {
        let mut model = old.clone();
        let tokens = |new: Option<u64>, old| match new {
            None => old,
            Some(new) => (new != 0).then_some(Tokens(new)),
        };
        model.context_window = tokens(self.context_window, old.context_window);
        model.max_output_tokens = tokens(self.max_output_tokens, old.max_output_tokens);
        let limit = |new: Option<u64>, old| new.or(old).filter(|&limit| limit != 0);
        model.limits = Limits {
            rpm: limit(self.limits.rpm, old.limits.rpm),
            tpm: limit(self.limits.tpm, old.limits.tpm),
            concurrency: limit(self.limits.concurrency, old.limits.concurrency),
            monthly_tokens: limit(self.limits.monthly_tokens, old.limits.monthly_tokens),
            observe: self.observe_limits.unwrap_or(old.limits.observe),
        };
        model.price.input = self.input.unwrap_or(old.price.input);
        model.price.cached = match self.cached {
            None => old.price.cached,
            Some(CachedPrice::LikeInput) => model.price.input,
            Some(CachedPrice::Own(price)) => price,
        };
        model.price.output = self.output.unwrap_or(old.price.output);
        if model.price != old.price {
            model.price.version = old.price.version.saturating_add(1);
        }
        if let Some(name) = self.display_name {
            name.trim().clone_into(&mut model.display_name);
        }
        if let Some(description) = self.description {
            description.trim().clone_into(&mut model.description);
        }
        if let Some(abilities) = self.abilities {
            model.abilities = without_repeats(abilities);
        }
        if let Some(inputs) = self.inputs {
            model.inputs = without_repeats(inputs);
        }
        if let Some(aliases) = self.aliases {
            model.aliases = without_repeats(aliases);
        }
        model.routing = self.routing.unwrap_or(old.routing);
        if let Some(millis) = self.hedge_after_ms {
            model.hedge_after = (millis != 0).then(|| Duration::from_millis(millis));
        }
        if let Some(deployments) = self.deployments {
            let id = model.id.as_str();
            model.deployments =
                deployments.into_iter().map(|deployment| deployment.into_domain(id)).collect();
        }
        model
    }
}

impl NewDeployment {
    fn into_domain(self, id: &str) -> Deployment {
        let name = if self.upstream_model.is_empty() { id } else { self.upstream_model.as_str() };
        Deployment {
            upstream: self.upstream,
            upstream_model: name.into(),
            weight: self.weight.max(1),
            priority: self.priority,
        }
    }
}

fn without_repeats<T: PartialEq>(items: Vec<T>) -> Vec<T> {
    items.into_iter().fold(Vec::new(), |mut kept, item| {
        if !kept.contains(&item) {
            kept.push(item);
        }
        kept
    })
}

/// Validates a model against the rest of `catalogue`, which may contain an earlier version of it.
pub(super) fn check(model: &Model, catalogue: &Catalogue) -> Result<(), ControlError> {
    check_limits(&model.limits)?;
    check_texts(model)?;
    check_names(model, catalogue)?;
    let price = &model.price;
    for (field, amount) in [
        ("price.input_usd", price.input),
        ("price.cached_usd", price.cached),
        ("price.output_usd", price.output),
    ] {
        if amount < Nanos::ZERO {
            return Err(
                ValidationError::new(field, format!("`{field}` must not be negative")).into()
            );
        }
    }
    if let Some(after) = model.hedge_after.filter(|after| !HEDGE_AFTER.contains(after)) {
        let (least, most) = (HEDGE_AFTER.start().as_millis(), HEDGE_AFTER.end().as_millis());
        let after = after.as_millis();
        let message =
            format!("`hedge_after_ms` must be from {least} to {most}, or 0 for never, not {after}");
        return Err(ValidationError::new("hedge_after_ms", message).into());
    }
    if model.deployments.is_empty() {
        return Err(
            ValidationError::new("deployments", "a model needs at least one deployment").into()
        );
    }
    for (index, deployment) in model.deployments.iter().enumerate() {
        let upstream = &deployment.upstream;
        if !catalogue.upstreams.contains_key(upstream) {
            let message =
                format!("upstream `{upstream}` does not exist; add it with `ctl upstream add`");
            return Err(ValidationError::new("deployments", message).into());
        }
        let same = |other: &Deployment| {
            other.upstream == *upstream && other.upstream_model == deployment.upstream_model
        };
        if model.deployments[..index].iter().any(same) {
            let name = &deployment.upstream_model;
            let message = format!("`{upstream}:{name}` is given twice; use its weight instead");
            return Err(ValidationError::new("deployments", message).into());
        }
    }
    Ok(())
}

fn check_texts(model: &Model) -> Result<(), ValidationError> {
    let upstream_models = model.deployments.iter().map(|deployment| &*deployment.upstream_model);
    let texts = [
        ("display_name", model.display_name.as_str(), MAX_DISPLAY_NAME_BYTES),
        ("description", model.description.as_str(), MAX_DESCRIPTION_BYTES),
    ];
    let names = upstream_models.map(|name| ("upstream_model", name, MAX_UPSTREAM_MODEL_BYTES));
    for (field, text, longest) in texts.into_iter().chain(names) {
        if text.len() > longest {
            return Err(ValidationError::new(
                field,
                format!("`{field}` is longer than {longest} bytes"),
            ));
        }
        if has_hidden(text) {
            let message = format!("`{field}` must not contain control or invisible characters");
            return Err(ValidationError::new(field, message));
        }
    }
    for (field, tokens) in
        [("context_window", model.context_window), ("max_output_tokens", model.max_output_tokens)]
    {
        if tokens.is_some_and(|tokens| tokens.0 > MAX_TOKENS) {
            return Err(ValidationError::new(
                field,
                format!("`{field}` must be at most {MAX_TOKENS}"),
            ));
        }
    }
    Ok(())
}

/// Checks that names are unambiguous: no id or alias may equal another model's id, alias or display
/// name.
fn check_names(model: &Model, catalogue: &Catalogue) -> Result<(), ControlError> {
    if model.aliases.contains(&model.id) {
        let message = format!("`{}` is the model's own id; leave it out", model.id);
        return Err(ValidationError::new("aliases", message).into());
    }
    let taken = |name: &str, other: &Model| {
        ControlError::Exists(format!("`{name}` is a name of model `{}`; choose another", other.id))
    };
    // The catalogue's index has only one model per name, so it cannot find a conflict.
    let is_named = |other: &Model, name: &str| {
        other.id.as_str() == name || other.aliases.iter().any(|alias| alias.as_str() == name)
    };
    for other in catalogue.models.values().filter(|other| other.id != model.id) {
        let mut names = std::iter::once(&model.id).chain(&model.aliases).map(ModelId::as_str);
        if let Some(name) = names.find(|name| is_named(other, name) || other.display_name == *name)
        {
            return Err(taken(name, other));
        }
        if is_named(other, &model.display_name) {
            return Err(taken(&model.display_name, other));
        }
    }
    Ok(())
}

/// Returns the caller's view of a model: members do not see its deployments.
fn for_caller(caller: &Caller, model: &Arc<Model>) -> Arc<Model> {
    if caller.sees_all() {
        return model.clone();
    }
    Arc::new(Model { deployments: Vec::new(), ..Model::clone(model) })
}
