//! Conversions between protobuf messages and domain types.
//!
//! Unknown values are refused with the name of the field ([`ValidationError`](domain::ValidationError)), never replaced by a default.
//! [`request`], [`key_requests`] and [`response`] convert the messages about accounts, keys and the catalogue. Each of the
//! other files contains the conversions of one service.

mod catalogue;
mod diagnostics;
mod key_requests;
mod ledger;
mod node;
mod request;
mod response;
mod traffic;
mod usage;

pub(super) use catalogue::catalogue_change;
pub(super) use diagnostics::finding;
pub(super) use key_requests::{key_change, new_key};
pub(super) use ledger::{entry, verdict};
pub(super) use node::node;
pub(super) use request::{
    amount, audit_filter, invite_request, model_change, new_model, new_plan, new_upstream,
    person_role, role, upstream_change,
};
pub(super) use response::{
    account, audit_entry, expose_secret, invite, key, model, person, plan, route, session, time,
    upstream,
};
pub(super) use traffic::{limit_use, snapshot, upstream_health};
pub(super) use usage::{
    export, filter, record, requests_in_flight, response_chunks, summary, tail, tail_update,
    wire_message,
};
