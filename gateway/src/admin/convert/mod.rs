//! Between the messages of the admin contract and the domain. Total: what the domain does not know is
//! an [`Invalid`](domain::Invalid) field, never a guess.
//!
//! A file per direction and size: [`given`] reads requests, [`answer`] writes answers, [`usage`]
//! does both for the request log, [`catalogue`] reads changes that are made together, [`ledger`] writes what is in the ledger, [`traffic`] what goes on now
//! and [`diagnostics`] what is wrong.

mod answer;
mod catalogue;
mod diagnostics;
mod given;
mod ledger;
mod traffic;
mod usage;

pub(super) use answer::{account, audit_entry, key, model, plan, reveal, session, time, upstream};
pub(super) use catalogue::catalogue_change;
pub(super) use diagnostics::finding;
pub(super) use given::{
    amount, audit_choice, key_wish, model_change, new_model, new_upstream, plan_wish,
    upstream_change,
};
pub(super) use ledger::{entry, verdict};
pub(super) use traffic::{limit_use, picture, upstream_health};
pub(super) use usage::{choice, export, news, record, summary, tail};
