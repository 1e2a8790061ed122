//! Tests of catalogue changes and model health.

use super::*;
use crate::model::catalogue::{CatalogueModel, Deployment, Price};
use crate::model::change::Change;
use crate::model::upstreams::{BreakerState, Health, HealthStatus, Upstream};

fn catalogue(role: Role) -> Model {
    let mut model = signed_in(role);
    press(&mut model, KeyCode::Char('3'));
    model
}

fn deployment(upstream: &str, model: &str) -> Deployment {
    let [upstream, model] = [upstream, model].map(str::to_owned);
    Deployment { upstream, model, weight: 1, priority: 0 }
}

/// Returns the model in the requested change, and the previous entry in case of an update.
fn requested_models(effects: Vec<Effect>) -> (Option<CatalogueModel>, CatalogueModel) {
    match effects.into_iter().next() {
        Some(Effect::Change(Change::AddModel(entry))) => (None, *entry),
        Some(Effect::Change(Change::UpdateModel { before, after })) => (Some(*before), *after),
        other => panic!("not a catalogue change: {other:?}"),
    }
}

#[test]
fn operators_add_a_model() {
    let mut model = catalogue(Role::Operator);
    press(&mut model, KeyCode::Char('n'));
    write(&mut model, "llama");
    assert!(press(&mut model, KeyCode::Enter).is_empty(), "a deployment is required");
    write(&mut model, "local:meta/llama:8b, spare:,");
    assert!(press(&mut model, KeyCode::Enter).is_empty(), "`spare:` names no model");
    for _ in 0..2 {
        press(&mut model, KeyCode::Backspace);
    }
    for (steps, text) in [(2, "128k"), (2, "0.1"), (2, "0.40"), (1, "60")] {
        for _ in 0..steps {
            press(&mut model, KeyCode::Down);
        }
        write(&mut model, text);
    }
    let (before, entry) = requested_models(press(&mut model, KeyCode::Enter));
    let price = Price {
        input_usd: Some("0.1".to_owned()),
        output_usd: Some("0.40".to_owned()),
        ..Price::default()
    };
    let expected = CatalogueModel {
        id: "llama".to_owned(),
        deployments: vec![deployment("local", "meta/llama:8b"), deployment("spare", "")],
        context: Some(128_000),
        limits: Limits { rpm: Some(60), ..Limits::default() },
        price,
        ..CatalogueModel::default()
    };
    assert_eq!((before, entry), (None, expected));
}

#[test]
fn editing_a_model_keeps_unchanged_values() {
    let mut model = catalogue(Role::Operator);
    let entry = CatalogueModel {
        id: "llama".to_owned(),
        aliases: vec!["default".to_owned()],
        deployments: vec![Deployment { weight: 3, priority: 2, ..deployment("local", "llama") }],
        limits: Limits { tpm: Some(5), concurrency: Some(7), ..Limits::default() },
        ..CatalogueModel::default()
    };
    load(&mut model, Loaded::Models(vec![entry.clone()]));
    press(&mut model, KeyCode::Char('e'));
    write(&mut model, ", spare:llama");
    press(&mut model, KeyCode::Up);
    press(&mut model, KeyCode::Backspace);
    let (before, after) = requested_models(press(&mut model, KeyCode::Enter));
    let mut expected = entry.clone();
    expected.deployments.push(deployment("spare", "llama"));
    expected.limits.tpm = None;
    assert_eq!((before, after), (Some(entry), expected));
}

#[test]
fn removing_a_model_requires_confirmation() {
    let mut model = catalogue(Role::Operator);
    load(
        &mut model,
        Loaded::Models(vec![CatalogueModel {
            id: "llama".to_owned(),
            ..CatalogueModel::default()
        }]),
    );
    press(&mut model, KeyCode::Char('x'));
    let requested = change(&press(&mut model, KeyCode::Char('y')));
    assert_eq!(requested, "RemoveModel { id: \"llama\" }");
}

#[test]
fn members_cannot_change_the_catalogue() {
    let mut model = catalogue(Role::Member);
    load(
        &mut model,
        Loaded::Models(vec![CatalogueModel {
            id: "llama".to_owned(),
            ..CatalogueModel::default()
        }]),
    );
    for letter in ['n', 'e', 'x'] {
        assert!(press(&mut model, KeyCode::Char(letter)).is_empty());
        assert!(model.overlay.is_none());
        assert!(matches!(&model.notice, Some(Notice::Problem(text)) if text.contains("operators")));
    }
}

#[test]
fn model_health_is_that_of_its_best_upstream() {
    let upstream = |name: &str, breaker, failures| Upstream {
        name: name.to_owned(),
        health: Some(Health { breaker, failures, requests: 9, ..Health::default() }),
        ..Upstream::default()
    };
    let upstreams = [
        upstream("down", Some(BreakerState::Open), 9),
        upstream("shaky", Some(BreakerState::Closed), 1),
        upstream("new", None, 0),
    ];
    for (names, health_status) in [
        (&["down", "shaky"][..], Some(HealthStatus::Shaky)),
        (&["down", "gone"], Some(HealthStatus::Down)),
        (&["new"], None),
        (&[], None),
    ] {
        let deployments = names.iter().map(|it| deployment(it, "llama")).collect();
        let entry = CatalogueModel { deployments, ..CatalogueModel::default() };
        assert_eq!(entry.health_status(&upstreams), health_status, "{names:?}");
    }
}
