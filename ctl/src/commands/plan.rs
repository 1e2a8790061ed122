//! `ctl plan …`, and the printed form of plans.

use proto::v1::plan_service_client::PlanServiceClient;
use proto::v1::{GetPlanRequest, ListPlansRequest, Plan, PutPlanRequest};
use serde::Serialize;
use tonic::Code;

use super::limits::LimitFields;
use super::{non_empty, required, without_empty};
use crate::Shell;
use crate::cli::plan::{PlanCommand, Set, Show};
use crate::error::Failure;
use crate::output::Record;

/// A plan, as printed.
#[derive(Serialize)]
struct PlanRecord {
    name: String,
    trial_credit_usd: Option<String>,
    #[serde(flatten)]
    limits: LimitFields,
    max_keys: Option<u32>,
    models: Vec<String>,
}

/// Runs `ctl plan …`.
pub(super) async fn run(shell: &mut Shell<'_>, command: PlanCommand) -> Result<(), Failure> {
    match command {
        PlanCommand::List => list(shell).await,
        PlanCommand::Show(input) => show(shell, input).await,
        PlanCommand::Set(input) => set(shell, input).await,
    }
}

async fn list(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let mut client = PlanServiceClient::new(shell.connect().await?);
    let answer = client.list_plans(ListPlansRequest {}).await?.into_inner();
    let plans: Vec<_> = answer.plans.into_iter().map(PlanRecord::from).collect();
    shell.output.many(&plans)
}

async fn show(shell: &mut Shell<'_>, input: Show) -> Result<(), Failure> {
    let mut client = PlanServiceClient::new(shell.connect().await?);
    let answer = client.get_plan(GetPlanRequest { name: input.name }).await?.into_inner();
    shell.output.one(&PlanRecord::from(required(answer.plan, "plan")?))
}

/// Creates a plan or changes the given fields. `PutPlan` replaces a whole plan, so this reads it
/// first.
async fn set(shell: &mut Shell<'_>, input: Set) -> Result<(), Failure> {
    let mut client = PlanServiceClient::new(shell.connect().await?);
    let mut plan = match client.get_plan(GetPlanRequest { name: input.name.clone() }).await {
        Ok(answer) => required(answer.into_inner().plan, "plan")?,
        Err(status) if status.code() == Code::NotFound => {
            Plan { name: input.name, ..Plan::default() }
        }
        Err(status) => return Err(status.into()),
    };
    if let Some(trial_credit) = input.trial_credit {
        plan.trial_credit_usd = trial_credit;
    }
    if let Some(max_keys) = input.max_keys {
        plan.max_keys = Some(max_keys).filter(|max| *max > 0);
    }
    if let Some(models) = input.models {
        plan.models = without_empty(models);
    }
    input.limits.apply_to(plan.limits.get_or_insert_default());
    let answer = client.put_plan(PutPlanRequest { plan: Some(plan) }).await?.into_inner();
    shell.output.one(&PlanRecord::from(required(answer.plan, "plan")?))
}

// === impl PlanRecord ===

impl From<Plan> for PlanRecord {
    fn from(plan: Plan) -> Self {
        Self {
            name: plan.name,
            trial_credit_usd: non_empty(plan.trial_credit_usd),
            limits: plan.limits.into(),
            max_keys: plan.max_keys,
            models: plan.models,
        }
    }
}

impl Record for PlanRecord {
    const FIELDS: &'static [&'static str] = &[
        "name",
        "trial_credit_usd",
        "rpm",
        "tpm",
        "concurrency",
        "monthly_tokens",
        "limit_mode",
        "max_keys",
        "models",
    ];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;

    fn text(&self, field: &str) -> Option<String> {
        (field == "models" && self.models.is_empty()).then(|| "all".to_owned())
    }
}
