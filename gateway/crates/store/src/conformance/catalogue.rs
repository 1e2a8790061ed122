//! Plans, models and upstreams.

use std::time::Duration;

use super::{at, audit_entry, expect_conflict, expect_not_found};
use crate::{CatalogueUpdate, Store};
use domain::id::{ModelId, PlanName, UpstreamName};
use domain::limit::Limits;
use domain::model::{Ability, Deployment, Modality, Model, Routing};
use domain::money::Nanos;
use domain::plan::Plan;
use domain::price::Price;
use domain::upstream::{
    ClientCertificate, ConnectionBound, CredentialSource, Deadlines, HealthCheck, Profile, Proxy,
    ProxyChoice, ProxyLogin, Upstream,
};
use domain::usage::Tokens;

pub(super) async fn run(store: &dyn Store) {
    let mut plans = vec![plan("free", 5)];
    let mut upstreams = vec![upstream("sim", &[])];
    let mut models = vec![model("echo", &["echo-latest", "e"], &["sim"])];
    seeds_once(store, &plans, &upstreams, &models).await;

    plans[0] = plan("free", 7);
    plans.push(plan("pro", 100));
    for plan in &plans {
        store.put_plan(plan, &audit_entry("plan")).await.unwrap();
    }
    let env = |name: &str| CredentialSource::Env(name.into());
    let file = CredentialSource::File("/run/key".into());
    let sealed = CredentialSource::Sealed(vec![0, 159, 146, 150]);
    for (name, credentials) in [
        ("local", &[file.clone()][..]),
        ("openai", &[env("OPENAI_KEY"), sealed.clone(), file.clone(), env("OTHER_KEY")]),
        ("sealed", &[sealed.clone(), sealed.clone()]),
        ("sim", &[env("replaced"), env("replaced too"), env("and this")]),
        ("sim", &[file, sealed]),
    ] {
        store.put_upstream(&upstream(name, credentials), &audit_entry("u")).await.unwrap();
        upstreams.retain(|old| old.name.as_str() != name);
        upstreams.push(upstream(name, credentials));
    }

    models.push(model("gpt", &["g"], &["openai", "local", "sealed"]));
    store.put_model(&models[1], &audit_entry("m")).await.unwrap();
    model_names_are_unique(store).await;
    expect_not_found(
        store.put_model(&model("lost", &[], &["sim", "nowhere"]), &audit_entry("m")).await,
    );
    models[1] = model("gpt", &["g2", "g"], &["local", "openai"]);
    store.put_model(&models[1], &audit_entry("m")).await.unwrap();

    expect_conflict(
        store.remove_upstream(&UpstreamName::new("openai"), &audit_entry("u")).await,
        "`gpt`",
    );
    expect_not_found(store.remove_upstream(&UpstreamName::new("nowhere"), &audit_entry("u")).await);
    store.remove_upstream(&UpstreamName::new("sealed"), &audit_entry("u")).await.unwrap();
    upstreams.retain(|upstream| upstream.name.as_str() != "sealed");

    store.put_model(&model("gone", &["going"], &["sim"]), &audit_entry("m")).await.unwrap();
    store.remove_model(&ModelId::new("gone"), &audit_entry("m")).await.unwrap();
    expect_not_found(store.remove_model(&ModelId::new("gone"), &audit_entry("m")).await);
    expect_not_found(store.remove_model(&ModelId::new("g"), &audit_entry("m")).await);
    models.push(model("going", &[], &[]));
    store.put_model(&models[2], &audit_entry("m")).await.unwrap();

    update_is_atomic(store).await;
    let update = CatalogueUpdate {
        plans: vec![plan("team", 50)],
        upstreams: vec![upstream("new", &[])],
        // The alias moves from `gpt`, which is replaced, to `echo-2`.
        models: vec![model("gpt", &["g2"], &["new"]), model("echo-2", &["g"], &["new"])],
        removed_models: vec![ModelId::new("going")],
        removed_upstreams: vec![UpstreamName::new("local")],
    };
    store.update_catalogue(&update, &[audit_entry("u"), audit_entry("m")]).await.unwrap();
    plans.extend(update.plans);
    upstreams.retain(|upstream| upstream.name.as_str() != "local");
    upstreams.extend(update.upstreams);
    models.retain(|model| model.id.as_str() == "echo");
    models.extend(update.models);

    let mut kept = store.load().await.unwrap();
    plans.sort_by_key(|plan| plan.name.clone());
    upstreams.sort_by_key(|upstream| upstream.name.clone());
    kept.plans.sort_by_key(|plan| plan.name.clone());
    kept.upstreams.sort_by_key(|upstream| upstream.name.clone());
    kept.models.sort_by_key(|model| model.id.clone());
    models.sort_by_key(|model| model.id.clone());
    assert_eq!(kept.plans, plans);
    assert_eq!(kept.upstreams, upstreams);
    assert_eq!(kept.models, models);
}

async fn seeds_once(store: &dyn Store, plans: &[Plan], upstreams: &[Upstream], models: &[Model]) {
    let broken = model("broken", &[], &["nowhere"]);
    expect_not_found(store.seed(plans, upstreams, &[broken]).await);
    assert!(store.load().await.unwrap().plans.is_empty(), "all or nothing");
    assert!(store.seed(plans, upstreams, models).await.unwrap());
    assert!(!store.seed(&[plan("other", 1)], upstreams, models).await.unwrap());
    assert_eq!(store.load().await.unwrap().plans, plans);
}

async fn update_is_atomic(store: &dyn Store) {
    let before = format!("{:?}", store.load().await.unwrap());
    let lost = CatalogueUpdate {
        plans: vec![plan("lost", 1)],
        models: vec![model("lost", &[], &["nowhere"])],
        ..CatalogueUpdate::default()
    };
    expect_not_found(store.update_catalogue(&lost, &[]).await);
    let in_use = CatalogueUpdate {
        removed_models: vec![ModelId::new("going")],
        removed_upstreams: vec![UpstreamName::new("openai")],
        ..CatalogueUpdate::default()
    };
    expect_conflict(store.update_catalogue(&in_use, &[]).await, "`gpt`");
    assert_eq!(format!("{:?}", store.load().await.unwrap()), before);
}

async fn model_names_are_unique(store: &dyn Store) {
    expect_conflict(store.put_model(&model("new", &["e"], &[]), &audit_entry("m")).await, "`echo`");
    expect_conflict(
        store.put_model(&model("new", &["echo"], &[]), &audit_entry("m")).await,
        "`echo`",
    );
    expect_conflict(store.put_model(&model("e", &[], &[]), &audit_entry("m")).await, "`echo`");
    expect_conflict(
        store.put_model(&model("new", &["new"], &[]), &audit_entry("m")).await,
        "`new`",
    );
    assert!(store.load().await.unwrap().models.iter().all(|model| model.id.as_str() != "new"));
}

fn plan(name: &str, credit: i64) -> Plan {
    Plan {
        name: PlanName::new(name),
        trial_credit: Nanos(credit * 1_000_000_000),
        max_keys: 100 + u32::try_from(credit).unwrap_or_default(),
        limits: Limits {
            rpm: Some(60),
            concurrency: Some(u64::MAX / 2),
            monthly_tokens: Some(9),
            observe: true,
            ..Limits::default()
        },
        models: vec![ModelId::new("gpt"), ModelId::new("echo")],
    }
}

fn upstream(name: &str, credentials: &[CredentialSource]) -> Upstream {
    Upstream {
        name: UpstreamName::new(name),
        url: format!("http://{name}/v1"),
        credentials: credentials.to_vec(),
        profile: Profile::LlamaCpp,
        deadlines: Deadlines {
            connect: Some(Duration::from_millis(1_500)),
            first_byte: None,
            idle: Some(Duration::ZERO),
            total: Some(Duration::from_micros(7)),
        },
        proxy: match name {
            "openai" => ProxyChoice::Direct,
            "local" => ProxyChoice::Environment,
            _ => ProxyChoice::Configured(Proxy {
                url: "socks5://p.example:1080".to_owned(),
                login: credentials.first().map(|password| ProxyLogin {
                    user: "user".to_owned(),
                    password: password.clone(),
                }),
            }),
        },
        ca_certificates: Some("a certificate".to_owned()),
        client_certificate: Some(ClientCertificate {
            chain: "a chain".to_owned(),
            sealed_key: vec![1, 0, 255],
        }),
        connection_bound: Some(ConnectionBound { max_connections: u32::MAX, max_waiting: 7 }),
        health_check: Some(HealthCheck {
            path: "/up".to_owned(),
            interval: Duration::from_secs(9),
        }),
        created_at: at(0),
    }
}

fn model(id: &str, aliases: &[&str], upstreams: &[&str]) -> Model {
    let deployment = |(weight, name): (u32, &&str)| Deployment {
        upstream: UpstreamName::new(*name),
        upstream_model: format!("{id}@{name}").into(),
        weight: weight + 1,
        priority: u32::MAX,
    };
    Model {
        id: ModelId::new(id),
        display_name: format!("The {id}"),
        description: String::new(),
        context_window: Some(Tokens(128_000)),
        max_output_tokens: None,
        limits: Limits { monthly_tokens: Some(5), ..Limits::default() },
        price: Price { input: Nanos(3), cached: Nanos(1), output: Nanos(15), version: 4 },
        abilities: vec![Ability::StructuredOutput, Ability::Tools],
        inputs: vec![Modality::Text, Modality::File],
        aliases: aliases.iter().map(|alias| ModelId::new(*alias)).collect(),
        deployments: (0..).zip(upstreams).map(deployment).collect(),
        routing: Routing::PrefixAffinity,
        hedge_after: Some(Duration::from_millis(250)),
        created_at: at(1),
    }
}
