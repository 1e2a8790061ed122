//! What the gateway said, and what that changes.

use crate::effect::Effect;
use crate::message::{Loaded, Message};
use crate::model::change::Done;
use crate::model::interest::Topic;
use crate::model::log::Log;
use crate::model::overlay::{Overlay, Secret};
use crate::model::remote::Fetch;
use crate::model::upstreams::{Health, Upstream};
use crate::model::usage::Range;
use crate::model::{BaseUrl, Data, Model, Screen};

use super::sign_in;

/// Takes in what came from outside.
pub(super) fn take(model: &mut Model, message: Message) -> Vec<Effect> {
    match message {
        Message::TokenFound(token) | Message::SignedIn(token) => {
            sign_in::accept(model);
            return vec![Effect::Follow { token }];
        }
        Message::SignInFailed(problem) => sign_in::refuse(model, problem),
        // what was under way when the user left says nothing about who comes next
        Message::SignedOut(_) if model.screen == Screen::SignIn => {}
        Message::SignedOut(reason) => {
            sign_in::leave(model, Some(reason));
            return vec![Effect::Wipe];
        }
        _ if model.screen == Screen::SignIn => {}
        Message::ApiFound(url) => {
            if let BaseUrl::Found(known) = &mut model.base_url {
                *known = url;
            }
        }
        Message::LinkChanged(link) => model.link = link,
        Message::Loaded(loaded) => {
            model.refreshing = false;
            keep(&mut model.data, *loaded);
        }
        Message::NotLoaded(topic, fetch) => {
            model.refreshing = false;
            fail(&mut model.data, topic, fetch);
        }
        Message::Tailed(tailed) => model.data.log.extend(tailed),
        Message::Changed(Ok(done)) => changed(model, done),
        Message::Changed(Err(problem)) => match &mut model.overlay {
            Some(Overlay::Form(form)) if form.busy => {
                form.busy = false;
                form.problem = Some(problem);
            }
            _ => model.complain(problem),
        },
        // the others are no news
        Message::Act(_) | Message::Pasted(_) | Message::Resized(..) | Message::Tick(_) => {}
    }
    Vec::new()
}

/// Says that a change was made. A key's text goes before all else: it comes only once.
fn changed(model: &mut Model, Done { notice, key }: Done) {
    if matches!(&model.overlay, Some(Overlay::Form(form)) if form.busy) {
        model.overlay = None;
    }
    model.say(notice);
    if let Some(key) = key {
        let secret = Secret { label: key.label, text: key.secret, copied: false };
        model.overlay = Some(Overlay::Secret(secret));
    }
}

fn keep(data: &mut Data, loaded: Loaded) {
    match loaded {
        Loaded::Account(account) => data.account.set(account),
        Loaded::Limits(limits) => data.overview.limits.set(limits),
        Loaded::Usage(range, usage) => {
            if range == Range::Month {
                data.overview.month.set(usage.clone());
            }
            if range == data.usage.range {
                data.usage.sums.set(usage);
            }
        }
        Loaded::Keys(keys) => data.keys.set(keys),
        Loaded::Models(offers) => data.offers.set(offers),
        Loaded::Accounts(accounts) => data.accounts.set(accounts),
        Loaded::Upstreams(upstreams) => {
            data.upstreams.set(upstreams);
            attend(&mut data.upstreams.entries, &data.health);
        }
        Loaded::Health(health) => {
            data.health = health;
            attend(&mut data.upstreams.entries, &data.health);
        }
        Loaded::Plans(plans) => data.plans.set(plans),
        Loaded::Audit(entries) => data.audit.set(entries),
        Loaded::Traffic(traffic) => data.traffic.set(traffic),
    }
}

/// Gives each upstream how it does.
fn attend(upstreams: &mut [Upstream], health: &[Health]) {
    for upstream in upstreams {
        upstream.health = health.iter().find(|it| it.name == upstream.name).cloned();
    }
}

fn fail(data: &mut Data, topic: Topic, fetch: Fetch) {
    let place = match topic {
        Topic::Account => &mut data.account.fetch,
        Topic::Limits => &mut data.overview.limits.fetch,
        Topic::Usage => {
            data.overview.month.fetch = fetch.clone();
            &mut data.usage.sums.fetch
        }
        Topic::Keys => &mut data.keys.fetch,
        Topic::Models => &mut data.offers.fetch,
        Topic::Accounts => &mut data.accounts.fetch,
        Topic::Upstreams => &mut data.upstreams.fetch,
        // upstreams are shown without it
        Topic::Health => return,
        Topic::Plans => &mut data.plans.fetch,
        Topic::Audit => &mut data.audit.fetch,
        Topic::Traffic => &mut data.traffic.fetch,
        Topic::Log => {
            // what is there is of another filter
            data.log = Log { fetch, ..Log::default() };
            return;
        }
    };
    *place = fetch;
}
