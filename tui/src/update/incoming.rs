//! Handles messages from the gateway.

use jiff::Timestamp;

use crate::effect::Effect;
use crate::message::{Loaded, Message};
use crate::model::change::{AddedRow, ChangeOutcome, IssuedSecret};
use crate::model::fetched::FetchState;
use crate::model::overlay::{Overlay, Secret, SecretState};
use crate::model::recent::by_name;
use crate::model::record::{Record, RequestStatus};
use crate::model::subscription::Topic;
use crate::model::upstreams::{Health, Upstream};
use crate::model::usage::Range;
use crate::model::{Action, BaseUrl, Data, Model, Screen};

use super::{list, route, shell, sign_in, trial};

/// Applies a message from the connection.
pub(super) fn handle(model: &mut Model, message: Message) -> Vec<Effect> {
    match message {
        Message::TokenFound(token) => {
            sign_in::accept(model);
            return vec![Effect::Connect { token, is_kept: false }];
        }
        Message::SignedIn { token, kept } => {
            sign_in::accept(model);
            if let Err(problem) = &kept {
                model.set_problem(format!("the session is not kept for the next start: {problem}"));
            }
            return vec![Effect::Connect { token, is_kept: kept == Ok(true) }];
        }
        Message::NoToken => return vec![Effect::CheckGateway],
        Message::SignInFailed(refusal) => sign_in::refuse(model, refusal),
        Message::GatewayChecked(problem) => model.sign_in.unreachable = problem,
        // Results of the previous session may arrive late; ignore them on the sign-in screen.
        Message::SignedOut(_) if model.screen == Screen::SignIn => {}
        Message::SignedOut(reason) => {
            sign_in::leave(model, Some(reason));
            return vec![Effect::StopTrial, Effect::StopOperations, Effect::ClearScreen];
        }
        _ if model.screen == Screen::SignIn => {}
        Message::ApiUrlDiscovered(url) => {
            if let BaseUrl::Discovered(known) = &mut model.base_url {
                *known = url;
            }
        }
        Message::ConnectionChanged(connection) => model.connection = connection,
        Message::Loaded(loaded) => {
            model.is_refreshing = false;
            let subject = model.trail.last().and_then(|visit| visit.subject.clone());
            store(&mut model.data, *loaded, subject.as_ref(), model.now);
            leave_forbidden_screen(model);
            attach_recent(model);
        }
        Message::NotLoaded(topic, fetch) => {
            model.is_refreshing = false;
            store_failure(&mut model.data, topic, fetch);
        }
        Message::LogReceived(batch) => {
            model.data.log.append(batch);
            attach_recent(model);
        }
        Message::Operation(run, event) => model.data.operations.apply(run, event),
        Message::RouteExplained(id, route) => route::show(model, &id, route),
        Message::Trial(run, event) => trial::apply(model, run, event),
        Message::OlderReceived(page) => {
            if page.filter == model.data.log.filter.expression {
                model.data.log.append_older(page);
            }
        }
        Message::Changed(Ok(done)) => changed(model, done),
        Message::Changed(Err(problem)) => match &mut model.overlay {
            Some(Overlay::Form(form)) if form.is_submitting => {
                form.reject(problem);
            }
            _ => model.set_problem(problem),
        },
        // `update` handles these.
        Message::Act(_) | Message::Pasted(_) | Message::Resized(..) | Message::Tick(_) => {}
    }
    Vec::new()
}

/// Shows the result of a change. The secret of a new key replaces any overlay, because it arrives
/// only once.
fn changed(model: &mut Model, outcome: ChangeOutcome) {
    let ChangeOutcome { notice, secret, is_batch, added } = outcome;
    if let Some(AddedRow { screen, id }) = added
        && let Some(rows) = list::rows_of(&mut model.data, screen)
    {
        rows.await_row(id);
    }
    if is_batch {
        model.data.keys.table.marked.clear();
        model.data.accounts.table.marked.clear();
    }
    if matches!(&model.overlay, Some(Overlay::Form(form)) if form.is_submitting) {
        model.overlay = None;
    }
    model.set_success(notice);
    if let Some(IssuedSecret { kind, label, secret: text, models }) = secret {
        let secret = Secret { kind, label, text, models, state: SecretState::Shown };
        model.overlay = Some(Overlay::Secret(secret));
    }
}

/// Opens the overview if the role of the account does not include the open screen.
fn leave_forbidden_screen(model: &mut Model) {
    let screen = model.screen;
    if model.data.account.value.is_none() {
        return;
    }
    let start = model.start.take();
    if !model.allows(Action::Open(screen)) {
        shell::open(model, Screen::Overview);
        if start.is_none_or(|start| start.is_asked) {
            model.set_problem(format!("`{}` is for operators", screen.name()));
        }
    }
}

/// Lets keys expire in filters and in the order of the rows.
pub(super) fn date_keys(model: &mut Model) {
    let now = model.now;
    model.data.keys.change_entries(|keys| {
        for key in keys {
            key.as_of = now;
        }
    });
}

/// Attaches the recent requests to the rows of the open screen.
fn attach_recent(model: &mut Model) {
    let data = &mut model.data;
    let (records, _) = data.log.newest();
    let name: fn(&Record) -> Option<&str> = match model.screen {
        Screen::Keys => |it| Some(&it.key),
        Screen::Models => |it| it.model.as_deref(),
        Screen::Accounts => |it| Some(&it.account),
        Screen::Upstreams => |it| it.deployment.as_deref()?.split('/').next(),
        // A refused or failed request says nothing about how long an answer takes.
        Screen::Live | Screen::InFlight => |it| {
            let status = it.status?;
            let is_answered =
                matches!(status, RequestStatus::Completed | RequestStatus::Incomplete);
            it.model.as_deref().filter(|_| is_answered)
        },
        _ => return,
    };
    let mut found = by_name(&records, name);
    match model.screen {
        Screen::Keys => data.keys.change_entries(|keys| {
            for it in keys {
                it.recent = found.remove(&*it.id);
                // The keys are fetched more seldom than the log.
                let last_at = it.recent.as_ref().and_then(|recent| recent.last_at);
                it.last_used_at = it.last_used_at.max(last_at);
            }
        }),
        Screen::Models => data.models.change_entries(|models| {
            for it in models {
                it.recent = found.remove(&*it.id);
            }
        }),
        Screen::Live | Screen::InFlight => data.in_flight.change_entries(|requests| {
            for it in requests {
                it.recent = found.get(&*it.model).cloned();
            }
        }),
        Screen::Accounts => data.accounts.change_entries(|accounts| {
            for it in accounts {
                it.recent = found.remove(&*it.name);
            }
        }),
        _ => data.upstreams.change_entries(|upstreams| {
            for it in upstreams {
                it.recent = found.remove(&*it.name);
            }
        }),
    }
}

/// Stores fetched data. Entries about another account than `subject` were requested earlier.
fn store(data: &mut Data, loaded: Loaded, subject: Option<&String>, now: Option<Timestamp>) {
    match loaded {
        Loaded::Account(account) => data.account.set(account),
        Loaded::Limits { account: None, limits } => data.overview.limits.set(limits),
        Loaded::Limits { account: Some(account), limits } => {
            data.account_limits = Some((account, limits));
        }
        Loaded::Suspension { account, reason } => data.suspension = Some((account, reason)),
        Loaded::Usage { range, filter, usage } => {
            if range == Range::Month && filter.is_empty() {
                data.overview.month.set(usage.clone());
            }
            if range == data.usage.range && filter == data.usage.expression {
                data.usage.sums.set(usage);
            }
        }
        Loaded::Matching { filter, requests } => {
            if filter == data.usage.expression {
                data.log.matching = Some(requests);
            }
        }
        Loaded::Minutes(minutes) => data.overview.minutes = minutes,
        Loaded::UsageBefore { range, filter, usage } => {
            if range == data.usage.range && filter == data.usage.expression {
                data.usage.before.set(usage);
            }
        }
        Loaded::Errors(errors) => data.overview.errors = errors,
        Loaded::Keys(mut keys) => {
            for key in &mut keys {
                key.as_of = now;
            }
            data.keys.set(keys);
        }
        Loaded::Models(models) => data.models.set(models),
        Loaded::Accounts(accounts) => data.accounts.set(accounts),
        Loaded::Upstreams(mut upstreams) => {
            attach_health(&mut upstreams, &data.health);
            data.upstreams.set(upstreams);
        }
        Loaded::Health(health) => {
            data.upstreams.change_entries(|upstreams| attach_health(upstreams, &health));
            data.health = health;
        }
        Loaded::Plans(plans) => data.plans.set(plans),
        Loaded::Audit { subject: about, entries, has_more } => {
            if about.as_ref() == subject {
                data.audit.has_more = has_more;
                data.audit.set(entries);
            }
        }
        Loaded::Ledger { subject: about, entries, has_more } => {
            if about.as_ref() == subject {
                data.ledger.has_more = has_more;
                data.ledger.set(entries);
            }
        }
        Loaded::Nodes(nodes) => data.nodes.set(nodes),
        Loaded::Invites(invites) => data.invites.set(invites),
        Loaded::People { subject: about, people } => {
            if about.as_ref() == subject {
                data.people.set(people);
            }
        }
        Loaded::Sessions(sessions) => data.sessions.set(sessions),
        Loaded::InFlight { requests, has_more } => {
            data.in_flight.has_more = has_more;
            data.in_flight.set(requests);
        }
        Loaded::Traffic(traffic) => data.traffic.set(traffic),
    }
}

/// Sets the health of each upstream by name.
fn attach_health(upstreams: &mut [Upstream], health: &[Health]) {
    for upstream in upstreams {
        upstream.health = health.iter().find(|it| it.name == upstream.name).cloned();
    }
}

fn store_failure(data: &mut Data, topic: Topic, fetch: FetchState) {
    let state = match topic {
        Topic::Account => &mut data.account.fetch,
        Topic::Limits => &mut data.overview.limits.fetch,
        Topic::Usage => {
            data.overview.month.fetch = fetch.clone();
            &mut data.usage.sums.fetch
        }
        Topic::Keys => &mut data.keys.fetch,
        Topic::Models => &mut data.models.fetch,
        Topic::Accounts => &mut data.accounts.fetch,
        Topic::Upstreams => &mut data.upstreams.fetch,
        Topic::UsageBefore => &mut data.usage.before.fetch,
        // The screens work without these.
        Topic::Health | Topic::Matching | Topic::Minutes | Topic::Errors | Topic::Suspension => {
            return;
        }
        Topic::Plans => &mut data.plans.fetch,
        Topic::Audit => &mut data.audit.fetch,
        Topic::Nodes => &mut data.nodes.fetch,
        Topic::Ledger => &mut data.ledger.fetch,
        Topic::Invites => &mut data.invites.fetch,
        Topic::People => &mut data.people.fetch,
        Topic::Sessions => &mut data.sessions.fetch,
        Topic::InFlight => &mut data.in_flight.fetch,
        Topic::Traffic => &mut data.traffic.fetch,
        Topic::Log => {
            // The existing records belong to the previous filter.
            let filter = std::mem::take(&mut data.log.filter);
            data.log.restart(filter);
            data.log.fetch = fetch;
            return;
        }
    };
    *state = fetch;
}
