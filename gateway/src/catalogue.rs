//! The initial catalogue: the built-in simulator with two models, so that the gateway can be tried without a
//! model server.

use jiff::Timestamp;

use crate::control::bootstrap::Seed;
use domain::id::{ModelId, UpstreamName};
use domain::model::{Ability, Deployment, Model};
use domain::money::Nanos;
use domain::price::Price;
use domain::upstream::Upstream;
use domain::usage::Tokens;
use simulator::CONTEXT_WINDOW;

const SIMULATOR_NAME: &str = "simulator";
const SIMULATOR_URL: &str = "sim:";

/// Returns the simulator and two models deployed on it, created at `now`.
pub fn simulated(now: Timestamp) -> Seed {
    let upstream = Upstream::new(UpstreamName::new(SIMULATOR_NAME), SIMULATOR_URL, now);
    let chat = model(
        "sim-chat",
        "Simulated Chat",
        "Simulated: answers at once, calls the tools that a message names; costs nothing real",
        &[Ability::Tools, Ability::StructuredOutput],
        now,
    );
    let reasoner = model(
        "sim-reasoner",
        "Simulated Reasoner",
        "Simulated: the same, with its reasoning",
        &[Ability::Tools, Ability::Reasoning, Ability::StructuredOutput],
        now,
    );
    Seed { upstreams: vec![upstream], models: vec![chat, reasoner] }
}

fn model(
    id: &str,
    display_name: &str,
    description: &str,
    abilities: &[Ability],
    now: Timestamp,
) -> Model {
    Model {
        display_name: display_name.to_owned(),
        description: description.to_owned(),
        context_window: Some(Tokens(CONTEXT_WINDOW)),
        max_output_tokens: Some(Tokens(16_384)),
        price: Price {
            input: Nanos(500_000_000),
            cached: Nanos(50_000_000),
            output: Nanos(1_500_000_000),
            version: 1,
        },
        abilities: abilities.to_vec(),
        deployments: vec![Deployment {
            upstream: UpstreamName::new(SIMULATOR_NAME),
            upstream_model: id.into(),
            weight: 1,
            priority: 0,
        }],
        ..Model::new(ModelId::new(id), now)
    }
}
