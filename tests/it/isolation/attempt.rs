//! One RPC, called in every way that its request allows.

use std::fmt::Debug;

use tests::Session;
use tonic::{Code, Response, Status};

use super::{Rule, Victim, accounts, catalogue, usage};

/// What an answer shows, or why there is none.
pub(super) type Attempt = Result<String, Status>;

/// The rule that an RPC has to keep, and what it answered.
pub(super) type Case = (Rule, Vec<Attempt>);

/// Has `who` call `rpc` for what is the victim's.
pub(super) async fn attempt(rpc: &str, who: &Session, victim: &Victim) -> Case {
    let case = match rpc.split_once('/') {
        Some(("AccountService" | "KeyService" | "AuditService", _)) => {
            accounts::attempt(rpc, who, victim).await
        }
        Some(("PlanService" | "ModelService" | "UpstreamService" | "CatalogueService", _)) => {
            catalogue::attempt(rpc, who).await
        }
        _ => usage::attempt(rpc, who, victim).await,
    };
    case.unwrap_or_else(|| panic!("`{rpc}` has no case here: say what a member may get from it"))
}

pub(super) fn shown<T: Debug>(answer: Result<Response<T>, Status>) -> Attempt {
    answer.map(|answer| format!("{:?}", answer.into_inner()))
}

/// Checks that a member was refused with `code`, and a anonymous in any case.
#[track_caller]
pub(super) fn refused<T: Debug>(answer: Result<Response<T>, Status>, code: Code) {
    let refusal = answer.unwrap_err();
    assert!([code, Code::Unauthenticated].contains(&refusal.code()), "{refusal}");
}
