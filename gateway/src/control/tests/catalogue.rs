//! Plans and models.

use super::super::catalogue::{Apply, CatalogueChange};
use super::super::models::CachedPrice;
use super::super::plans::NewPlan;
use super::*;
use domain::id::PlanName;
use domain::limit::Limits;
use domain::model::Model;

fn change() -> ModelChange {
    ModelChange::default()
}

async fn add(bench: &Bench, id: &str, change: ModelChange) -> Result<(), ControlError> {
    let change = ModelChange { deployments: Some(on_sim()), ..change };
    bench.control.add_model(&bench.operator, ModelId::new(id), change).await.map(|_| ())
}

async fn update(bench: &Bench, change: ModelChange) -> Result<Arc<Model>, ControlError> {
    bench.control.update_model(&bench.operator, "m".into(), change).await
}

#[tokio::test]
async fn each_price_change_increments_the_price_version() {
    let bench = Bench::new(Registration::Open).await;
    bench.model("m").await;
    let version = async |change| update(&bench, change).await.unwrap().price.version;
    assert_eq!(version(change()).await, 1);
    assert_eq!(version(ModelChange { input: Some(Nanos(5)), ..change() }).await, 2);
    assert_eq!(version(ModelChange { input: Some(Nanos(5)), ..change() }).await, 2);
    let cached = Some(CachedPrice::Own(Nanos(1)));
    let all = ModelChange { cached, output: Some(Nanos(9)), ..change() };
    assert_eq!(version(all).await, 3);
    assert_eq!(version(ModelChange { description: Some("d".into()), ..change() }).await, 3);
    assert_eq!(bench.control.store.load().await.unwrap().models[0].price.version, 3);
}

#[tokio::test]
async fn the_price_of_cached_input_can_follow_the_input_price() {
    let bench = Bench::new(Registration::Open).await;
    bench.model("m").await;
    let price = async |input, cached| {
        let change = ModelChange { input, cached, ..change() };
        let price = update(&bench, change).await.unwrap().price;
        (price.input.0, price.cached.0)
    };
    assert_eq!(price(Some(Nanos(5)), Some(CachedPrice::LikeInput)).await, (5, 5));
    assert_eq!(price(Some(Nanos(6)), None).await, (6, 5));
    assert_eq!(price(None, Some(CachedPrice::LikeInput)).await, (6, 6));
    assert_eq!(price(None, Some(CachedPrice::Own(Nanos(0)))).await, (6, 0));
}

#[tokio::test]
async fn refuses_ambiguous_model_names() {
    let bench = Bench::new(Registration::Open).await;
    bench.model("m").await;
    let aliases = |names: &[&str]| Some(names.iter().copied().map(ModelId::new).collect());
    let shown = ModelChange {
        aliases: aliases(&["m-latest", "m-latest"]),
        display_name: Some("Shown".into()),
        ..change()
    };
    assert_eq!(update(&bench, shown).await.unwrap().aliases.len(), 1);

    for (id, change) in [
        ("m", change()),
        ("m-latest", change()),
        ("Shown", change()),
        ("n", ModelChange { aliases: aliases(&["m"]), ..change() }),
        ("n", ModelChange { aliases: aliases(&["m-latest"]), ..change() }),
        ("n", ModelChange { display_name: Some("m".into()), ..change() }),
        ("n", ModelChange { display_name: Some("m-latest".into()), ..change() }),
    ] {
        let taken = add(&bench, id, change).await;
        assert!(matches!(taken, Err(ControlError::Exists(_))), "{id}: {taken:?}");
    }
    let own = ModelChange { aliases: aliases(&["n"]), ..change() };
    assert_eq!(field(add(&bench, "n", own).await), "aliases");
    let own = ModelChange { display_name: Some("n".into()), ..change() };
    add(&bench, "n", own).await.unwrap();
    let moved = ModelChange { aliases: aliases(&["n"]), ..change() };
    assert!(matches!(update(&bench, moved).await, Err(ControlError::Exists(_))));
}

#[tokio::test]
async fn validates_models_and_fills_in_defaults() {
    let bench = Bench::new(Registration::Open).await;
    bench.model("m").await;
    let model = bench.control.get_model(&bench.operator, "m").unwrap();
    let deployment = &model.deployments[0];
    assert_eq!((&*deployment.upstream_model, deployment.weight), ("m", 1));

    let undeployed = ModelChange { deployments: Some(Vec::new()), ..change() };
    let twice = on_sim().into_iter().chain(on_sim()).collect();
    let mut elsewhere = on_sim();
    elsewhere[0].upstream = UpstreamName::new("nix");
    for (change, expected) in [
        (undeployed, "deployments"),
        (ModelChange { deployments: Some(twice), ..change() }, "deployments"),
        (ModelChange { deployments: Some(elsewhere), ..change() }, "deployments"),
        (ModelChange { input: Some(Nanos(-1)), ..change() }, "price.input_usd"),
        (ModelChange { display_name: Some("a\u{1b}b".into()), ..change() }, "display_name"),
        (ModelChange { context_window: Some(u64::MAX), ..change() }, "context_window"),
    ] {
        assert_eq!(field(update(&bench, change).await), expected);
    }

    let rpm = |rpm| Limits { rpm, ..Limits::default() };
    let limited = ModelChange { limits: rpm(Some(5)), context_window: Some(9), ..change() };
    let model = update(&bench, limited).await.unwrap();
    assert_eq!((model.limits, model.context_window), (rpm(Some(5)), Some(Tokens(9))));
    let model = update(&bench, change()).await.unwrap();
    assert_eq!((model.limits, model.context_window), (rpm(Some(5)), Some(Tokens(9))));
    let freed = ModelChange { limits: rpm(Some(0)), context_window: Some(0), ..change() };
    let model = update(&bench, freed).await.unwrap();
    assert_eq!((model.limits, model.context_window), (rpm(None), None));
    for (observe_limits, observed) in [(Some(true), true), (None, true), (Some(false), false)] {
        let model = update(&bench, ModelChange { observe_limits, ..change() }).await.unwrap();
        assert_eq!(model.limits.observe, observed);
    }
    let zero = ModelChange { limits: rpm(Some(0)), ..change() };
    assert_eq!(field(add(&bench, "n", zero).await), "limits.rpm");
}

#[tokio::test]
async fn members_see_the_models_of_their_plan_without_deployments() {
    let bench = Bench::new(Registration::Open).await;
    bench.model("m").await;
    bench.model("secret").await;
    let ann = bench.member("ann").await;
    assert_eq!(bench.control.list_models(&ann).unwrap().len(), 2);
    let plan = NewPlan {
        name: PlanName::new("free"),
        trial_credit: Nanos::ZERO,
        limits: Limits::default(),
        max_keys: None,
        models: vec!["m".into()],
    };
    bench.control.put_plan(&bench.operator, plan).await.unwrap();

    let models = bench.control.list_models(&ann).unwrap();
    assert_eq!(models.len(), 1);
    assert!(models[0].deployments.is_empty());
    assert!(bench.control.get_model(&ann, "m").unwrap().deployments.is_empty());
    let hidden = bench.control.get_model(&ann, "secret").unwrap_err().to_string();
    let missing = bench.control.get_model(&ann, "nix").unwrap_err().to_string();
    assert_eq!(hidden.replace("secret", "nix"), missing);
    assert_eq!(bench.control.list_models(&bench.operator).unwrap().len(), 2);
    // The plan has no trial credit now.
    let bob = bench.member("bob").await;
    assert_eq!(bench.control.view(bob.account).await.unwrap().balance, Nanos::ZERO);
}

#[tokio::test]
async fn a_removed_model_cannot_be_found() {
    let bench = Bench::new(Registration::Open).await;
    bench.model("m").await;
    let remove = async || bench.control.remove_model(&bench.operator, "m".into()).await;
    remove().await.unwrap();
    assert!(matches!(remove().await, Err(ControlError::NotFound(_))));
    assert!(bench.control.directory.catalogue().find_model("m").is_none());
}

#[tokio::test]
async fn validates_plans() {
    let bench = Bench::new(Registration::Open).await;
    let put = async |trial_credit, models: &[&str]| {
        let plan = NewPlan {
            name: PlanName::new("pro"),
            trial_credit,
            limits: Limits::default(),
            max_keys: None,
            models: models.iter().map(ToString::to_string).collect(),
        };
        bench.control.put_plan(&bench.operator, plan).await
    };
    assert_eq!(field(put(Nanos(-1), &[]).await), "trial_credit_usd");
    assert_eq!(field(put(Nanos::ZERO, &["nix"]).await), "models");
    put(Nanos(1), &[]).await.unwrap();
    assert_eq!(bench.control.list_plans(&bench.operator).unwrap().len(), 2);
    let ann = bench.member("ann").await;
    assert_eq!(bench.control.list_plans(&ann).unwrap().len(), 1);
    assert!(matches!(bench.control.get_plan(&ann, "pro"), Err(ControlError::NotFound(_))));
    assert!(bench.control.get_plan(&ann, "free").is_ok());
}

/// Returns a change that deploys a model on `upstream`.
fn on(upstream: &str) -> ModelChange {
    let deployment = NewDeployment { upstream: UpstreamName::new(upstream), ..on_sim().remove(0) };
    ModelChange { deployments: Some(vec![deployment]), ..change() }
}

fn at(url: &str) -> UpstreamChange {
    UpstreamChange { url: Some(url.into()), ..UpstreamChange::default() }
}

async fn apply(bench: &Bench, changes: Vec<CatalogueChange>) -> Result<(), ControlError> {
    bench.control.apply_changes(&bench.operator, changes, Apply::Commit).await
}

#[tokio::test]
async fn applies_interdependent_changes_in_any_order() {
    use CatalogueChange::{
        AddModel, AddUpstream, PutPlan, RemoveModel, RemoveUpstream, UpdateModel,
    };
    let bench = Bench::new(Registration::Open).await;
    bench.model("m").await;
    bench.model("gone").await;
    let aliases = |names: &[&str]| Some(names.iter().copied().map(ModelId::new).collect());
    update(&bench, ModelChange { aliases: aliases(&["best"]), ..change() }).await.unwrap();
    let plan = NewPlan {
        name: PlanName::new("pro"),
        trial_credit: Nanos::ZERO,
        limits: Limits::default(),
        max_keys: None,
        models: vec!["best".into()],
    };
    let changes = vec![
        PutPlan(plan),
        AddModel(ModelId::new("n"), ModelChange { aliases: aliases(&["best"]), ..on("new") }),
        UpdateModel("m".into(), ModelChange { aliases: aliases(&[]), ..on("new") }),
        RemoveUpstream("sim".into()),
        RemoveModel("gone".into()),
        AddUpstream(UpstreamName::new("new"), at("http://new/v1")),
    ];
    apply(&bench, changes).await.unwrap();
    let stored = bench.control.store.load().await.unwrap();
    let catalogue = bench.control.directory.catalogue().clone();
    let ids: Vec<_> = stored.models.iter().map(|model| model.id.as_str()).collect();
    assert_eq!(ids, ["m", "n"]);
    assert_eq!(stored.plans[1].models, [ModelId::new("n")]);
    assert_eq!(stored.upstreams.len(), 1);
    assert_eq!(catalogue.find_model("best").unwrap().id.as_str(), "n");
    let in_memory: Vec<_> = catalogue.models.values().map(|model| Model::clone(model)).collect();
    assert_eq!(in_memory, stored.models);
}

#[tokio::test]
async fn one_invalid_change_rejects_the_whole_batch() {
    use CatalogueChange::{AddModel, AddUpstream, RemoveUpstream, UpdateModel};
    let bench = Bench::new(Registration::Open).await;
    bench.model("m").await;
    bench.model("n").await;
    let before = bench.control.store.load().await.unwrap();
    let good = || AddUpstream(UpstreamName::new("good"), at("sim:"));
    let named = |name: &str| {
        let aliases = Some(vec![ModelId::new(name)]);
        UpdateModel("m".into(), ModelChange { aliases, ..change() })
    };
    for apply in [Apply::DryRun, Apply::Commit] {
        for (bad, message) in [
            (AddModel(ModelId::new("o"), on("nix")), "model o: upstream `nix` does not exist"),
            (AddModel(ModelId::new("m"), on("sim")), "model m: it exists already"),
            (AddUpstream(UpstreamName::new("u"), at("nix")), "upstream u: `url` must be"),
            (UpdateModel("o".into(), change()), "model o: model `o` does not exist"),
            (RemoveUpstream("sim".into()), "upstream `sim` serves `m`, `n`"),
            (named("n"), "model m: `n` is a name of model `n`"),
        ] {
            let changes = vec![good(), bad];
            let refused = bench.control.apply_changes(&bench.operator, changes, apply).await;
            let refused = refused.unwrap_err().to_string();
            assert!(refused.starts_with(message), "{message}: {refused}");
        }
    }
    let dry = bench.control.apply_changes(&bench.operator, vec![good()], Apply::DryRun).await;
    dry.unwrap();
    let after = bench.control.store.load().await.unwrap();
    assert_eq!((after.models, after.upstreams), (before.models, before.upstreams));
    assert_eq!(bench.control.directory.catalogue().upstreams.len(), 1);
    let ann = bench.member("ann").await;
    let refused = bench.control.apply_changes(&ann, vec![good()], Apply::DryRun).await;
    assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");
}

#[tokio::test]
async fn a_batch_refuses_a_limit_of_zero_for_a_new_model() {
    let bench = Bench::new(Registration::Open).await;
    bench.model("m").await;
    let limits = Limits { rpm: Some(0), ..Limits::default() };
    let new = || ModelChange { limits, deployments: Some(on_sim()), ..change() };
    let changes = vec![CatalogueChange::AddModel(ModelId::new("n"), new())];
    let refused = bench.control.apply_changes(&bench.operator, changes, Apply::Commit).await;
    assert_eq!(field(refused), "limits.rpm");
    // For an existing model, zero removes the limit.
    let changes = vec![CatalogueChange::UpdateModel("m".into(), new())];
    bench.control.apply_changes(&bench.operator, changes, Apply::Commit).await.unwrap();
}
