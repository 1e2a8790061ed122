//! Calls one RPC in every way that its request permits.

use std::fmt::Debug;

use tests::Session;
use tonic::{Code, Response, Status};

use super::{Rule, Victim, accounts, catalogue, people, usage};

/// The text of an answer, or the error.
pub(super) type Attempt = Result<String, Status>;

/// The rule for an RPC and its answers.
pub(super) struct Case {
    pub(super) rule: Rule,
    pub(super) attempts: Vec<Attempt>,
    /// Answers to requests for data of another account, by an RPC that otherwise answers with the
    /// caller's own data, and the codes with which members are refused.
    pub(super) foreign: Vec<(Attempt, Code)>,
}

/// Calls `rpc` as `caller`, for the victim's data.
pub(super) async fn attempt(rpc: &str, caller: &Session, victim: &Victim) -> Case {
    let case = match rpc.split_once('/') {
        Some(("AccountService" | "KeyService" | "AuditService", _)) => {
            accounts::attempt(rpc, caller, victim).await
        }
        Some(("PeopleService", _)) => people::attempt(rpc, caller, victim).await,
        Some(("PlanService" | "ModelService" | "UpstreamService" | "CatalogueService", _)) => {
            catalogue::attempt(rpc, caller).await
        }
        _ => usage::attempt(rpc, caller, victim).await,
    };
    case.unwrap_or_else(|| panic!("`{rpc}` has no case: add one in the file of its service"))
}

pub(super) fn shown<T: Debug>(answer: Result<Response<T>, Status>) -> Attempt {
    answer.map(|answer| format!("{:?}", answer.into_inner()))
}
