//! Conversion between the generated types of the admin API and the model types.
//!
//! Invariant: an absent message, an empty amount and an unset enum all become `None`, which means
//! unknown. `usage` converts the request log and usage totals, `traffic` live traffic, `catalogue`
//! models and upstreams.

mod catalogue;
mod operations;
mod traffic;
mod usage;

use jiff::Timestamp;
use proto::v1;

use super::change;
use crate::model::accounts::{Account, AccountStatus, Role};
use crate::model::audit::AuditEntry;
use crate::model::change::KeyEnd;
use crate::model::invites::Invite;
use crate::model::keys::Key;
use crate::model::ledger::LedgerEntry;
use crate::model::nodes::{Node, NodeState};
use crate::model::people::{Person, PersonRole};
use crate::model::plans::{Limits, Plan};
use crate::model::sessions::Session;

pub(super) use self::catalogue::{
    catalogue_model, to_deadlines, to_model, to_model_change, to_profile, upstream,
};
pub(super) use self::operations::{finding, route, verification};
pub(super) use self::traffic::{health, limit_use, traffic};
pub(super) use self::usage::{in_flight, record, usage};

pub(super) fn account(account: v1::Account) -> Account {
    Account {
        role: match account.role() {
            v1::Role::Unspecified => None,
            v1::Role::Member => Some(Role::Member),
            v1::Role::Support => Some(Role::Support),
            v1::Role::Operator => Some(Role::Operator),
            v1::Role::Owner => Some(Role::Owner),
        },
        status: match account.status() {
            v1::AccountStatus::Unspecified | v1::AccountStatus::Active => AccountStatus::Active,
            v1::AccountStatus::Suspended => AccountStatus::Suspended,
            v1::AccountStatus::Closed => AccountStatus::Closed,
            v1::AccountStatus::Deleted => AccountStatus::Deleted,
        },
        suspended_for: None,
        person_role: None,
        plan: present(account.plan),
        balance_usd: present(account.balance_usd),
        recent: None,
        created_at: time(account.created_at),
        id: account.id,
        name: account.name,
    }
}

pub(super) fn to_role(role: Role) -> v1::Role {
    match role {
        Role::Member => v1::Role::Member,
        Role::Support => v1::Role::Support,
        Role::Operator => v1::Role::Operator,
        Role::Owner => v1::Role::Owner,
    }
}

pub(super) fn person(person: v1::Person) -> Person {
    Person {
        role: match person.role() {
            v1::PersonRole::Unspecified => None,
            v1::PersonRole::Member => Some(PersonRole::Member),
            v1::PersonRole::Admin => Some(PersonRole::Admin),
        },
        id: person.id,
        name: person.name,
        is_removed: person.removed,
        created_at: time(person.created_at),
    }
}

/// Returns the role of the signed-in person. One that is unknown here counts as the smallest, because
/// only the owner has none.
pub(super) fn own_role(person: v1::Person) -> PersonRole {
    self::person(person).role.unwrap_or(PersonRole::Member)
}

pub(super) fn to_person_role(role: PersonRole) -> v1::PersonRole {
    match role {
        PersonRole::Member => v1::PersonRole::Member,
        PersonRole::Admin => v1::PersonRole::Admin,
    }
}

pub(super) fn key(key: v1::Key) -> Key {
    Key {
        limits: limits(key.limits),
        created_at: time(key.created_at),
        last_used_at: time(key.last_used_at),
        expires_at: time(key.expires_at),
        revoked_at: time(key.revoked_at),
        successor: present(key.successor),
        recent: None,
        as_of: None,
        spend_cap_usd: present(key.spend_cap_usd),
        id: key.id,
        account: key.account,
        label: key.label,
        models: key.models,
    }
}

/// Returns the differences between two keys, and the new end.
pub(super) fn to_key_change(
    before: &Key,
    after: Key,
    end: Option<KeyEnd>,
    now: Timestamp,
) -> v1::UpdateKeyRequest {
    use v1::update_key_request::Expiry;
    let changed =
        |before: Option<u64>, after: Option<u64>| (before != after).then_some(after.unwrap_or(0));
    let (old, new) = (before.limits, after.limits);
    let limits = v1::Limits {
        rpm: changed(old.rpm, new.rpm),
        tpm: changed(old.tpm, new.tpm),
        concurrency: changed(old.concurrency, new.concurrency),
        monthly_tokens: changed(old.monthly_tokens, new.monthly_tokens),
        observe: None,
    };
    let is_other_cap = before.spend_cap_usd != after.spend_cap_usd;
    let is_other_list = before.models != after.models;
    v1::UpdateKeyRequest {
        id: after.id,
        label: (before.label != after.label).then_some(after.label),
        limits: (limits != v1::Limits::default()).then_some(limits),
        spend_cap_usd: is_other_cap.then(|| after.spend_cap_usd.unwrap_or_default()),
        models: is_other_list.then_some(v1::KeyModels { models: after.models }),
        expiry: end.map(|end| match end {
            KeyEnd::Never => Expiry::Never(true),
            KeyEnd::After(seconds) => Expiry::ExpiresAt(change::after(now, seconds)),
        }),
        ..v1::UpdateKeyRequest::default()
    }
}

pub(super) fn plan(plan: v1::Plan) -> Plan {
    Plan {
        name: plan.name,
        trial_credit_usd: present(plan.trial_credit_usd),
        limits: limits(plan.limits),
        max_keys: plan.max_keys,
        models: plan.models,
    }
}

pub(super) fn to_plan(plan: Plan) -> v1::Plan {
    v1::Plan {
        name: plan.name,
        trial_credit_usd: plan.trial_credit_usd.unwrap_or_default(),
        limits: Some(to_limits(plan.limits)),
        max_keys: plan.max_keys,
        models: plan.models,
    }
}

pub(super) fn audit(entry: v1::AuditEntry) -> AuditEntry {
    AuditEntry {
        id: entry.id.to_string(),
        at: time(entry.at),
        actor: present(entry.actor),
        address: present(entry.address),
        action: entry.action,
        object: entry.object,
        account: present(entry.account),
        details: entry.details,
    }
}

pub(super) fn ledger_entry(entry: v1::LedgerEntry) -> LedgerEntry {
    LedgerEntry {
        kind: match entry.kind() {
            v1::EntryKind::Unspecified => None,
            v1::EntryKind::Trial => Some("trial"),
            v1::EntryKind::Credit => Some("credit"),
            v1::EntryKind::Charge => Some("charge"),
            v1::EntryKind::Correction => Some("correction"),
            v1::EntryKind::Overrun => Some("overrun"),
        },
        id: entry.number.to_string(),
        account: entry.account,
        amount_usd: present(entry.amount_usd),
        request: entry.request_id.and_then(present),
        note: entry.note.and_then(present),
        at: time(entry.created_at),
    }
}

pub(super) fn invite(invite: v1::Invite) -> Invite {
    Invite {
        id: invite.id,
        created_by: present(invite.created_by),
        plan: present(invite.plan),
        credit_usd: present(invite.credit_usd),
        created_at: time(invite.created_at),
        expires_at: time(invite.expires_at),
        used_at: time(invite.used_at),
    }
}

pub(super) fn session(session: v1::Session) -> Session {
    Session {
        id: session.id,
        created_at: time(session.created_at),
        expires_at: time(session.expires_at),
        is_current: session.current,
    }
}

pub(super) fn node(node: v1::Node) -> Node {
    Node {
        state: match node.state() {
            v1::NodeState::Unspecified => None,
            v1::NodeState::Serving => Some(NodeState::Serving),
            v1::NodeState::Draining => Some(NodeState::Draining),
            v1::NodeState::Silent => Some(NodeState::Silent),
            v1::NodeState::Stopped => Some(NodeState::Stopped),
        },
        name: node.name,
        epoch: node.epoch,
        version: node.version,
        address: node.address,
        started_at: time(node.started_at),
        silent_ms: node.silent_ms,
        in_flight: node.in_flight,
        requests_per_second: node.requests_per_second,
        waiting_records: node.waiting_records,
    }
}

pub(super) fn limits(limits: Option<v1::Limits>) -> Limits {
    let v1::Limits { rpm, tpm, concurrency, monthly_tokens, observe } = limits.unwrap_or_default();
    Limits { rpm, tpm, concurrency, monthly_tokens, observe: observe.unwrap_or_default() }
}

pub(super) fn to_limits(limits: Limits) -> v1::Limits {
    let Limits { rpm, tpm, concurrency, monthly_tokens, observe } = limits;
    v1::Limits { rpm, tpm, concurrency, monthly_tokens, observe: observe.then_some(true) }
}

fn time(time: Option<prost_types::Timestamp>) -> Option<Timestamp> {
    time.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok())
}

fn present(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_with_an_unknown_role_is_a_member() {
        let person = v1::Person { role: 99, ..v1::Person::default() };
        assert_eq!(own_role(person), PersonRole::Member);
    }
}
