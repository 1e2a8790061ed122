//! Tests of the ways from a row to what belongs to it, and back.

use super::*;
use crate::model::catalogue::{CatalogueModel, Deployment};
use crate::model::ledger::LedgerEntry;
use crate::model::upstreams::Upstream;

fn operator(screen: char) -> Model {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char(screen));
    model
}

#[test]
fn an_account_leads_to_its_requests_and_back() {
    let mut model = operator('6');
    let accounts = ["ada", "bob"].map(|name| account(name, Role::Member));
    load(&mut model, Loaded::Accounts(accounts.into()));
    model.data.usage.filter = "status:failed".to_owned();
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Right);
    let effects = press(&mut model, KeyCode::Enter);
    assert_eq!(subscribed(&effects).filter, "account:bob");
    // A filter typed on the way is cleared first.
    write(&mut model, "/ cost>1");
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.data.usage.filter, "account:bob cost>1");
    press(&mut model, KeyCode::Esc);
    assert_eq!((model.screen, model.data.usage.filter.as_str()), (Screen::Usage, "account:bob"));
    press(&mut model, KeyCode::Esc);
    assert_eq!(
        (model.screen, model.data.usage.filter.as_str()),
        (Screen::Accounts, "status:failed")
    );
    assert_eq!(model.data.accounts.current().unwrap().name, "bob");
}

#[test]
fn ways_lead_on_and_another_screen_forgets_them() {
    let mut model = operator('6');
    load(&mut model, Loaded::Accounts(vec![account("ada", Role::Member)]));
    press(&mut model, KeyCode::Char('l'));
    press(&mut model, KeyCode::Char('j'));
    press(&mut model, KeyCode::Char('l'));
    assert_eq!((model.screen, model.data.keys.filter.as_str()), (Screen::Keys, "account:ada"));
    load(&mut model, Loaded::Keys(vec![key("k1")]));
    let effects = press(&mut model, KeyCode::Char('l'));
    assert_eq!(subscribed(&effects).filter, "key:k1");
    assert_eq!(model.trail.len(), 2);
    press(&mut model, KeyCode::Char('2'));
    assert_eq!((model.trail.len(), model.data.keys.filter.as_str()), (0, ""));
    assert_eq!(model.data.usage.filter, "");
}

#[test]
fn the_keys_of_an_account_are_only_its_own() {
    let mut model = operator('6');
    load(&mut model, Loaded::Accounts(vec![account("ann", Role::Member)]));
    press(&mut model, KeyCode::Char('l'));
    press(&mut model, KeyCode::Char('j'));
    press(&mut model, KeyCode::Char('l'));
    let of = |account: &str, id: &str, label: &str| {
        let (account, label) = (account.to_owned(), label.to_owned());
        Key { account, label, ..key(id) }
    };
    let keys = vec![
        of("joanna", "k1", "laptop"),
        of("ada", "k2", "planner"),
        of("ann", "k3", "laptop"),
        of("Ann", "k4", "laptop"),
    ];
    load(&mut model, Loaded::Keys(keys));
    let ids = |model: &Model| model.data.keys.visible().map(|it| it.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&model), ["k3"]);
    write(&mut model, "/ phone");
    assert_eq!(ids(&model), [""; 0]);
}

#[test]
fn the_accounts_on_a_plan_are_only_its_own() {
    use crate::model::plans::Plan;
    let mut model = operator('8');
    load(&mut model, Loaded::Plans(vec![Plan { name: "free".to_owned(), ..Plan::default() }]));
    press(&mut model, KeyCode::Right);
    let on = |name: &str, plan: &str| Account {
        plan: Some(plan.to_owned()),
        ..account(name, Role::Member)
    };
    let accounts = vec![on("ada", "free"), on("bob", "free-2"), on("freeman", "team")];
    load(&mut model, Loaded::Accounts(accounts));
    let names: Vec<_> = model.data.accounts.visible().map(|it| it.name.as_str()).collect();
    assert_eq!((model.screen, names), (Screen::Accounts, vec!["ada"]));
}

#[test]
fn filter_and_order_of_the_ledger_and_the_audit_log_come_back() {
    let mut model = operator('9');
    write(&mut model, "/suspend");
    press(&mut model, KeyCode::Enter);
    press(&mut model, KeyCode::Char('>'));
    let before = (model.data.audit.filter.clone(), model.data.audit.table.sort);
    assert!(model.screen == Screen::Audit && before.1.is_some());
    press(&mut model, KeyCode::Char('6'));
    load(&mut model, Loaded::Accounts(vec![account("ada", Role::Member)]));
    press(&mut model, KeyCode::Right);
    for _ in 0..3 {
        press(&mut model, KeyCode::Down);
    }
    press(&mut model, KeyCode::Enter);
    assert_eq!((model.screen, model.data.audit.filter.as_str()), (Screen::Audit, ""));
    press(&mut model, KeyCode::Left);
    assert_eq!((model.data.audit.filter.clone(), model.data.audit.table.sort), before);
}

#[test]
fn the_ledger_of_an_account_ignores_entries_of_others() {
    use crate::model::ledger::LedgerEntry;
    let mut model = operator('6');
    load(&mut model, Loaded::Accounts(vec![account("ada", Role::Member)]));
    press(&mut model, KeyCode::Right);
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Down);
    let effects = press(&mut model, KeyCode::Enter);
    assert_eq!(subscribed(&effects).subject.as_deref(), Some("ada"));
    let ledger = |subject| {
        let entries = vec![LedgerEntry::default()];
        Loaded::Ledger { subject, entries, has_more: false }
    };
    load(&mut model, ledger(None));
    assert!(model.data.ledger.entries.is_empty(), "requested before");
    load(&mut model, ledger(Some("ada".to_owned())));
    assert_eq!(model.data.ledger.entries.len(), 1);
    let effects = press(&mut model, KeyCode::Left);
    assert_eq!((subscribed(&effects).subject.as_deref(), model.screen), (None, Screen::Accounts));
    assert!(model.data.ledger.entries.is_empty());
}

#[test]
fn an_upstream_leads_to_the_failures_of_its_models() {
    let mut model = operator('7');
    let upstream = |name: &str| Upstream { name: name.to_owned(), ..Upstream::default() };
    load(&mut model, Loaded::Upstreams(vec![upstream("local"), upstream("spare")]));
    let serves = |id: &str, upstream: &str| CatalogueModel {
        id: id.to_owned(),
        deployments: Deployment::parse(upstream).into_iter().collect(),
        ..CatalogueModel::default()
    };
    load(&mut model, Loaded::Models(vec![serves("a", "local"), serves("b", "local:x")]));
    let effects = press(&mut model, KeyCode::Right);
    assert_eq!(subscribed(&effects).filter, "status:failed model:a,b");
    press(&mut model, KeyCode::Esc);
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Right);
    assert_eq!(model.screen, Screen::Upstreams);
    assert!(matches!(&model.notice, Some(Notice::Problem(text)) if text.contains("spare")));
}

#[test]
fn the_overview_leads_to_the_errors_of_the_last_hour() {
    let mut model = signed_in(Role::Member);
    let effects = press(&mut model, KeyCode::Char('e'));
    assert_eq!(subscribed(&effects).filter, "status:failed,rejected,interrupted since:1h");
    press(&mut model, KeyCode::Esc);
    assert_eq!((model.screen, model.data.usage.filter.as_str()), (Screen::Overview, ""));
}

#[test]
fn a_charge_leads_to_its_request() {
    let mut model = operator('6');
    load(&mut model, Loaded::Accounts(vec![account("ann", Role::Member)]));
    press(&mut model, KeyCode::Char('l'));
    press(&mut model, KeyCode::Char('j'));
    press(&mut model, KeyCode::Char('j'));
    press(&mut model, KeyCode::Enter);
    let entry = |request: Option<&str>| LedgerEntry {
        account: "ann".to_owned(),
        request: request.map(str::to_owned),
        ..LedgerEntry::default()
    };
    let request = Some("01a2171f-056e-70a4-abfa-8b99892c09b8");
    let entries = vec![entry(request), entry(None), entry(Some("of another kind"))];
    let subject = Some("ann".to_owned());
    load(&mut model, Loaded::Ledger { subject, entries, has_more: false });
    let effects = press(&mut model, KeyCode::Right);
    assert_eq!(
        subscribed(&effects).filter,
        "account:ann since:2026-11-26T09:10:38.702Z until:2026-11-26T09:10:38.703Z"
    );
    press(&mut model, KeyCode::Esc);
    assert_eq!((model.screen, model.subject()), (Screen::Ledger, Some("ann")));
    for _ in 0..2 {
        press(&mut model, KeyCode::Down);
        press(&mut model, KeyCode::Right);
        assert_eq!(model.screen, Screen::Ledger);
        let problem = "this entry is not the charge of a request".to_owned();
        assert_eq!(model.notice, Some(Notice::Problem(problem)));
    }
}
