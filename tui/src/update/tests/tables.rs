//! Tests of tables: order, marks and copied rows.

use secrecy::ExposeSecret;

use super::*;
use crate::model::catalogue::CatalogueModel;
use crate::model::change::AddedRow;

fn accounts() -> Model {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('6'));
    let account = |name: &str, balance: &str| Account {
        balance_usd: Some(balance.to_owned()),
        ..account(name, Role::Member)
    };
    let accounts = vec![account("bob", "9.5"), account("cleo", "10"), account("ada", "-1")];
    load(&mut model, Loaded::Accounts(accounts));
    model
}

fn names(model: &Model) -> Vec<&str> {
    model.data.accounts.visible().map(|it| it.name.as_str()).collect()
}

fn copied(effects: &[Effect]) -> &str {
    match effects {
        [Effect::Copy(text)] => text.expose_secret(),
        other => panic!("nothing copied: {other:?}"),
    }
}

#[test]
fn accounts_are_sorted_by_any_column_and_the_cursor_stays() {
    let mut model = accounts();
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Char('>'));
    assert_eq!(names(&model), ["ada", "bob", "cleo"]);
    assert_eq!(model.data.accounts.current().unwrap().name, "cleo");
    for _ in 0..4 {
        press(&mut model, KeyCode::Char('>'));
    }
    assert_eq!(names(&model), ["cleo", "bob", "ada"], "by balance, not by its text");
    press(&mut model, KeyCode::Char('='));
    assert_eq!(names(&model), ["ada", "bob", "cleo"]);
    press(&mut model, KeyCode::Char('<'));
    assert_eq!(model.data.accounts.table.sort.unwrap().column, "plan");
}

#[test]
fn the_cursor_stays_on_its_account_while_requests_change_the_order() {
    use crate::model::record::{LogBatch, Record};
    let mut model = accounts();
    press(&mut model, KeyCode::Down);
    for _ in 0..3 {
        press(&mut model, KeyCode::Char('<'));
    }
    let table = &model.data.accounts.table;
    assert_eq!(table.sort.map(|it| it.column), Some("recent"));
    assert_eq!(model.data.accounts.current().unwrap().name, "cleo");
    let records = ["ada", "ada", "bob"].into_iter().enumerate().map(|(id, account)| Record {
        id: id.to_string(),
        account: account.to_owned(),
        ..Record::default()
    });
    let batch = LogBatch { restarted: true, records: records.collect(), dropped: 0, live: true };
    update(&mut model, Message::LogReceived(batch));
    assert_eq!(names(&model)[2], "cleo", "it is the last one now");
    assert_eq!(model.data.accounts.current().unwrap().name, "cleo");
}

#[test]
fn the_cursor_stays_on_its_key_when_another_one_expires() {
    let mut model = signed_in(Role::Member);
    let at = |second| jiff::Timestamp::from_second(second).unwrap();
    update(&mut model, Message::Tick(at(1)));
    press(&mut model, KeyCode::Char('2'));
    let short = Key { expires_at: Some(at(5)), ..key("a") };
    load(&mut model, Loaded::Keys(vec![short, key("b"), key("c")]));
    write(&mut model, "/state:active");
    press(&mut model, KeyCode::Enter);
    press(&mut model, KeyCode::Down);
    assert_eq!(model.data.keys.current().unwrap().id, "b");
    update(&mut model, Message::Tick(at(9)));
    assert_eq!(model.data.keys.visible().count(), 2, "one has expired");
    assert_eq!(model.data.keys.current().unwrap().id, "b");
}

#[test]
fn marked_accounts_are_copied_and_suspended_together() {
    let mut model = accounts();
    write_marks(&mut model);
    assert_eq!(copied(&press(&mut model, KeyCode::Char('y'))), "id-of-bob\nid-of-cleo");
    let csv = copied(&press(&mut model, KeyCode::Char('Y'))).to_owned();
    assert!(csv.starts_with(
        "name,role,state,plan,balance,registered,recent,p50,p99\nbob,member,active,free,9.5,"
    ));
    assert_eq!(csv.lines().count(), 3);
    press(&mut model, KeyCode::Char('s'));
    let Some(Overlay::Form(form)) = &model.overlay else { panic!("{:?}", model.overlay) };
    assert_eq!(form.title, "Suspend 2 accounts");
    write(&mut model, "unpaid");
    let requested = change(&press(&mut model, KeyCode::Enter));
    assert!(requested.starts_with("Batch([Suspend { account: \"bob\""), "{requested}");
    assert!(requested.contains("account: \"cleo\", reason: \"unpaid\""), "{requested}");
    press(&mut model, KeyCode::Esc);
    press(&mut model, KeyCode::Esc);
    assert!(model.data.accounts.table.marked.is_empty());
}

fn write_marks(model: &mut Model) {
    press(model, KeyCode::Char(' '));
    press(model, KeyCode::Char(' '));
}

#[test]
fn marked_keys_are_revoked_after_one_question() {
    let mut model = signed_in(Role::Member);
    press(&mut model, KeyCode::Char('2'));
    let revoked = Key { revoked_at: jiff::Timestamp::new(1, 0).ok(), ..key("c") };
    load(&mut model, Loaded::Keys(vec![key("a"), key("b"), revoked]));
    write_marks(&mut model);
    press(&mut model, KeyCode::Char(' '));
    press(&mut model, KeyCode::Char('x'));
    let requested = change(&press(&mut model, KeyCode::Char('y')));
    assert_eq!(
        requested,
        "Batch([RevokeKey { id: \"a\", label: \"label of a\" }, RevokeKey { id: \"b\", label: \"label of b\" }])"
    );
    // Another screen fetches other keys into the same list.
    load(&mut model, Loaded::Keys(vec![key("b")]));
    assert_eq!(model.data.keys.marked().len(), 1);
    load(&mut model, Loaded::Keys(vec![key("a"), key("b")]));
    assert_eq!(model.data.keys.marked().len(), 2);
    let done =
        ChangeOutcome { notice: "done".to_owned(), is_batch: true, ..ChangeOutcome::default() };
    update(&mut model, Message::Changed(Ok(done)));
    assert!(model.data.keys.marked().is_empty());
}

#[test]
fn only_active_accounts_are_suspended_and_only_the_marked_ones() {
    use AccountStatus::{Active, Suspended};
    let mut model = accounts();
    let load_with = |model: &mut Model, statuses: [AccountStatus; 3]| {
        let names = ["amy", "bob", "cleo"].into_iter().zip(statuses);
        let accounts =
            names.map(|(name, status)| Account { status, ..account(name, Role::Member) });
        load(model, Loaded::Accounts(accounts.collect()));
    };
    load_with(&mut model, [Active, Suspended, Active]);
    press(&mut model, KeyCode::Home);
    press(&mut model, KeyCode::Char(' '));
    assert_eq!(model.data.accounts.current().unwrap().name, "bob");
    press(&mut model, KeyCode::Char('s'));
    write(&mut model, "unpaid");
    let requested = change(&press(&mut model, KeyCode::Enter));
    assert_eq!(requested, "Batch([Suspend { account: \"amy\", reason: \"unpaid\" }])");
    // A failure keeps the marks for the next attempt.
    update(&mut model, Message::Changed(Err("0 of 1 are done".to_owned())));
    press(&mut model, KeyCode::Esc);
    load_with(&mut model, [Suspended, Suspended, Active]);
    press(&mut model, KeyCode::End);
    press(&mut model, KeyCode::Char('s'));
    assert!(model.overlay.is_none(), "{:?}", model.overlay);
    assert!(matches!(&model.notice, Some(Notice::Problem(text)) if text.contains("Esc")));
    let done =
        ChangeOutcome { notice: "done".to_owned(), is_batch: true, ..ChangeOutcome::default() };
    update(&mut model, Message::Changed(Ok(done)));
    press(&mut model, KeyCode::Char('s'));
    write(&mut model, "unpaid");
    let requested = change(&press(&mut model, KeyCode::Enter));
    assert!(requested.contains("\"cleo\""), "{requested}");
}

#[test]
fn the_own_account_is_not_suspended_with_others() {
    let mut model = accounts();
    press(&mut model, KeyCode::Home);
    for _ in 0..3 {
        press(&mut model, KeyCode::Char(' '));
    }
    assert_eq!(model.data.accounts.marked().len(), 3);
    press(&mut model, KeyCode::Char('s'));
    assert!(model.overlay.is_none(), "{:?}", model.overlay);
    assert!(
        matches!(&model.notice, Some(Notice::Problem(text)) if text.contains("`ada` is your own"))
    );
}

#[test]
fn marks_that_the_filter_hides_do_not_count() {
    let mut model = accounts();
    press(&mut model, KeyCode::Char(' '));
    write(&mut model, "/cleo");
    press(&mut model, KeyCode::Enter);
    press(&mut model, KeyCode::Char('s'));
    write(&mut model, "unpaid");
    let requested = change(&press(&mut model, KeyCode::Enter));
    assert!(requested.contains("\"cleo\"") && !requested.contains("\"bob\""), "{requested}");
}

#[test]
fn the_question_about_marked_keys_names_their_owners() {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('2'));
    let of_bob = Key { account: "bob".to_owned(), ..key("0") };
    let others = (1..9).map(|id| key(&id.to_string()));
    load(&mut model, Loaded::Keys(std::iter::once(of_bob).chain(others).collect()));
    for _ in 0..9 {
        press(&mut model, KeyCode::Char(' '));
    }
    press(&mut model, KeyCode::Char('x'));
    let Some(Overlay::Confirm(confirm)) = &model.overlay else { panic!("{:?}", model.overlay) };
    assert_eq!(confirm.question, "Revoke 9 keys?");
    assert_eq!(
        confirm.consequence,
        "This cannot be undone: `label of 0` of `bob`, `label of 1`, `label of 2`, `label of 3` and 5 more."
    );
}

#[test]
fn the_filter_matches_all_words() {
    let mut model = accounts();
    write(&mut model, "/bo free");
    assert_eq!(names(&model), ["bob"]);
}

#[test]
fn a_sorted_log_is_paused_and_resumes_in_the_order_of_time() {
    use crate::model::record::{LogBatch, Record};
    let mut model = signed_in(Role::Member);
    press(&mut model, KeyCode::Char('4'));
    let record = |id: &str, cost: &str| Record {
        id: id.to_owned(),
        cost_usd: Some(cost.to_owned()),
        ..Record::default()
    };
    let records = vec![record("1", "0.2"), record("2", "0.10"), record("3", "0.3")];
    let batch = LogBatch { restarted: true, records, dropped: 0, live: true };
    update(&mut model, Message::LogReceived(batch));
    let ids =
        |model: &Model| model.data.log.records.iter().map(|it| it.id.clone()).collect::<String>();
    // The last three columns are cost, key and id.
    for _ in 0..3 {
        press(&mut model, KeyCode::Char('<'));
    }
    assert_eq!((ids(&model).as_str(), model.data.log.paused), ("312", true));
    press(&mut model, KeyCode::Char('p'));
    assert_eq!((ids(&model).as_str(), model.data.log.paused), ("321", false));
    press(&mut model, KeyCode::Char('<'));
    assert!(model.data.log.paused);
    press(&mut model, KeyCode::Char('>'));
    let log = &model.data.log;
    assert_eq!((ids(&model).as_str(), log.paused, log.following), ("321", false, true));
    press(&mut model, KeyCode::Char('<'));
    press(&mut model, KeyCode::Char('1'));
    assert_eq!((ids(&model).as_str(), model.data.log.paused), ("321", false), "left");
}

#[test]
fn columns_are_hidden_and_moved_at_once() {
    let mut model = accounts();
    let table = |model: &Model| {
        let table = &model.data.accounts.table;
        (table.hidden.iter().copied().collect::<Vec<_>>(), table.order.clone())
    };
    write(&mut model, "- ");
    assert_eq!(table(&model), (vec![], vec![]), "the first column stays");
    write(&mut model, "j Kj");
    assert_eq!(table(&model).0, ["role"]);
    write(&mut model, "K");
    assert_eq!(table(&model).1[..2], ["state", "role"]);
    write(&mut model, "r");
    assert_eq!(table(&model), (vec![], vec![]));
    press(&mut model, KeyCode::Esc);
    assert!(model.overlay.is_none());
}

#[test]
fn a_value_of_the_row_is_copied() {
    let mut model = accounts();
    write(&mut model, "v");
    let Some(Overlay::Values(choice)) = &model.overlay else { panic!("{:?}", model.overlay) };
    let (title, value) = choice.values[0].clone();
    assert_eq!(title, "name");
    let effects = press(&mut model, KeyCode::Enter);
    assert!(matches!(&effects[..], [Effect::Copy(text)] if text.expose_secret() == value));
}

#[test]
fn a_theme_is_shown_before_it_is_kept() {
    let mut model = signed_in(Role::Member);
    let before = model.theme;
    let choose = |model: &mut Model| {
        write(model, ":theme");
        press(model, KeyCode::Enter);
        press(model, KeyCode::Up);
        assert_ne!(model.theme, before);
    };
    choose(&mut model);
    press(&mut model, KeyCode::Esc);
    assert_eq!((model.theme, &model.chosen_theme), (before, &None));
    choose(&mut model);
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.chosen_theme.as_deref(), Some("16"));
}

#[test]
fn what_changes_one_account_is_refused_while_others_are_marked() {
    let mut model = accounts();
    press(&mut model, KeyCode::Char(' '));
    for key in ['x', 'c', 'p', 'N', 'w'] {
        assert!(press(&mut model, KeyCode::Char(key)).is_empty());
        assert!(model.overlay.is_none(), "{key}: {:?}", model.overlay);
        assert!(matches!(&model.notice, Some(Notice::Problem(text)) if text.contains("marked: 1")));
    }
    press(&mut model, KeyCode::Esc);
    press(&mut model, KeyCode::Char('x'));
    assert!(model.overlay.is_some());
}

#[test]
fn cancelling_names_the_request_and_never_meets_one_that_took_its_place() {
    use crate::model::in_flight::InFlight;
    let mut model = signed_in(Role::Operator);
    update(&mut model, Message::Act(crate::model::Action::Open(Screen::InFlight)));
    let show = |model: &mut Model, ids: &[&str]| {
        let request =
            |id: &&str| InFlight { id: (*id).to_owned(), age_ms: 7_400.0, ..InFlight::default() };
        let requests = ids.iter().map(request).collect();
        load(model, Loaded::InFlight { requests, has_more: false });
    };
    show(&mut model, &["a", "b"]);
    show(&mut model, &["b"]);
    press(&mut model, KeyCode::Char('x'));
    assert!(model.overlay.is_none() && matches!(model.notice, Some(Notice::Problem(_))));
    press(&mut model, KeyCode::Char('x'));
    let Some(Overlay::Confirm(confirm)) = &model.overlay else { panic!("{:?}", model.overlay) };
    assert!(confirm.consequence.contains("`b`, its age 7 s"), "{}", confirm.consequence);
}

#[test]
fn the_cursor_goes_to_an_added_row_once_it_is_fetched() {
    let mut model = signed_in(Role::Member);
    press(&mut model, KeyCode::Char('2'));
    load(&mut model, Loaded::Keys(vec![key("a"), key("b")]));
    let added = || {
        let added = Some(AddedRow { screen: Screen::Keys, id: "c".to_owned() });
        ChangeOutcome { added, ..ChangeOutcome::default() }
    };
    let selected = |model: &Model| model.data.keys.current().map(|key| key.id.clone());
    update(&mut model, Message::Changed(Ok(added())));
    // A fetch that began before the change, and the clock, do not end the wait.
    load(&mut model, Loaded::Keys(vec![key("a"), key("b")]));
    update(&mut model, Message::Tick(jiff::Timestamp::UNIX_EPOCH));
    load(&mut model, Loaded::Keys(vec![key("a"), key("b"), key("c")]));
    assert_eq!(selected(&model).as_deref(), Some("c"));
    press(&mut model, KeyCode::Home);
    load(&mut model, Loaded::Keys(vec![key("a"), key("b"), key("c")]));
    assert_eq!(selected(&model).as_deref(), Some("a"), "it was there once");
    load(&mut model, Loaded::Keys(vec![key("a"), key("b")]));
    update(&mut model, Message::Changed(Ok(added())));
    press(&mut model, KeyCode::Down);
    load(&mut model, Loaded::Keys(vec![key("a"), key("b"), key("c")]));
    assert_eq!(selected(&model).as_deref(), Some("b"), "the user moved the cursor before");
    // The answer arrives on another screen, which has an entry with this id, too.
    load(&mut model, Loaded::Keys(vec![key("a"), key("b")]));
    press(&mut model, KeyCode::Char('3'));
    update(&mut model, Message::Changed(Ok(added())));
    let entry = |id: &str| CatalogueModel { id: id.to_owned(), ..CatalogueModel::default() };
    load(&mut model, Loaded::Models(vec![entry("a"), entry("c")]));
    assert_eq!(model.data.models.current().unwrap().id, "a");
    press(&mut model, KeyCode::Char('2'));
    load(&mut model, Loaded::Keys(vec![key("a"), key("b"), key("c")]));
    assert_eq!(selected(&model).as_deref(), Some("c"));
}

#[test]
fn keys_that_need_a_row_say_why_there_is_none() {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('3'));
    let problem = |model: &mut Model, key| {
        press(model, key);
        match model.notice.take() {
            Some(Notice::Problem(text)) => text,
            other => panic!("{key:?}: {other:?}, {:?}", model.overlay),
        }
    };
    assert!(problem(&mut model, KeyCode::Enter).contains("being fetched"));
    load(&mut model, Loaded::Models(Vec::new()));
    for key in [KeyCode::Enter, KeyCode::Right, KeyCode::Char('w'), KeyCode::Char('t')] {
        assert!(problem(&mut model, key).contains("no row in `models`"), "{key:?}");
    }
    write(&mut model, "/x");
    press(&mut model, KeyCode::Enter);
    assert!(problem(&mut model, KeyCode::Char('y')).contains("Esc clears it"));
    press(&mut model, KeyCode::Char('n'));
    assert!(matches!(model.overlay, Some(Overlay::Form(_))), "{:?}", model.overlay);
}
