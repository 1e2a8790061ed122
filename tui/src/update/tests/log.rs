//! Tests of the request log.

use jiff::Timestamp;

use super::*;
use crate::model::fetched::FetchState;
use crate::model::log::{HISTORY_RECORDS, MAX_LOADED_RECORDS, MAX_LOG_RECORDS};
use crate::model::record::{LogBatch, OlderPage, Record, Totals};
use crate::model::usage::{Period, Usage};

fn usage() -> Model {
    let mut model = signed_in(Role::Member);
    press(&mut model, KeyCode::Char('4'));
    model
}

fn tail(model: &mut Model, names: &[&str], restarted: bool, dropped: u64) {
    let records =
        names.iter().map(|name| Record { id: (*name).to_owned(), ..Record::default() }).collect();
    assert!(
        update(model, Message::LogReceived(LogBatch { restarted, records, dropped, live: true }))
            .is_empty()
    );
}

fn selected(model: &Model) -> &str {
    &model.data.log.current().unwrap().id
}

#[test]
fn the_cursor_follows_on_the_newest_row_and_otherwise_keeps_its_record() {
    let mut model = usage();
    tail(&mut model, &["a", "b"], true, 0);
    assert_eq!(selected(&model), "b");
    tail(&mut model, &["c"], false, 0);
    assert_eq!(selected(&model), "c");
    press(&mut model, KeyCode::Char('j'));
    assert_eq!(selected(&model), "b");
    tail(&mut model, &["d", "e"], false, 0);
    assert_eq!((selected(&model), model.data.log.arrived_above), ("b", 2));
    press(&mut model, KeyCode::Char('k'));
    press(&mut model, KeyCode::Char('k'));
    assert_eq!((selected(&model), model.data.log.arrived_above), ("d", 1), "one was passed");
    press(&mut model, KeyCode::Char('G'));
    press(&mut model, KeyCode::Down);
    assert_eq!(selected(&model), "a");
    press(&mut model, KeyCode::Char('g'));
    press(&mut model, KeyCode::Up);
    assert_eq!((selected(&model), model.data.log.arrived_above), ("e", 0));
}

#[test]
fn an_open_detail_keeps_its_record_selected() {
    let mut model = usage();
    tail(&mut model, &["a", "b"], true, 0);
    press(&mut model, KeyCode::Enter);
    tail(&mut model, &["c"], false, 0);
    assert_eq!((selected(&model), model.data.log.following), ("b", false));
    press(&mut model, KeyCode::Esc);
    press(&mut model, KeyCode::Char('g'));
    tail(&mut model, &["d"], false, 0);
    assert_eq!((selected(&model), model.data.log.following), ("d", true));
}

#[test]
fn the_log_pauses_before_evicting_the_selected_record() {
    let mut model = usage();
    tail(&mut model, &["x"; 10], true, 0);
    tail(&mut model, &["mine", "y"], false, 0);
    press(&mut model, KeyCode::Char('j'));
    tail(&mut model, &vec!["z"; MAX_LOADED_RECORDS - 2], false, 0);
    assert_eq!((selected(&model), model.data.log.selected), ("mine", MAX_LOADED_RECORDS - 1));
    assert!(!model.data.log.paused);
    tail(&mut model, &["late", "later"], false, 0);
    let log = &model.data.log;
    assert_eq!((selected(&model), log.paused, log.arrived_while_paused), ("mine", true, 2));
    press(&mut model, KeyCode::Char('p'));
    assert_eq!((selected(&model), model.data.log.following), ("later", true));
}

#[test]
fn the_log_is_bounded_and_counts_skipped_records() {
    let mut model = usage();
    tail(&mut model, &["x"; MAX_LOG_RECORDS], true, 0);
    tail(&mut model, &["y"; 7], false, 3);
    tail(&mut model, &[], false, 2);
    let log = &model.data.log;
    assert_eq!((log.records.len(), log.selected, log.skipped), (MAX_LOG_RECORDS, 0, 5));
    assert_eq!((&*log.records[6].id, &*log.records[7].id), ("y", "x"));
    tail(&mut model, &["z"], true, 0);
    let log = &model.data.log;
    assert_eq!((log.records.len(), log.selected, log.skipped), (1, 0, 0));
}

#[test]
fn resuming_the_log_adds_the_buffered_records() {
    let mut model = usage();
    tail(&mut model, &["a"], true, 0);
    press(&mut model, KeyCode::Char('p'));
    tail(&mut model, &["b"; MAX_LOG_RECORDS], false, 0);
    tail(&mut model, &["c", "d"], false, 0);
    assert_eq!(
        (selected(&model), model.data.log.arrived_while_paused),
        ("a", MAX_LOG_RECORDS as u64 + 2)
    );
    assert_eq!(model.data.log.buffered.len(), MAX_LOG_RECORDS, "memory is bounded");
    press(&mut model, KeyCode::Char('p'));
    let log = &model.data.log;
    assert_eq!(
        (selected(&model), log.records.len(), log.arrived_while_paused),
        ("d", MAX_LOG_RECORDS, 0)
    );
}

#[test]
fn the_log_filter_is_sent_on_submit_only() {
    let mut model = usage();
    tail(&mut model, &["a"], true, 0);
    // The names that a filter may contain are fetched.
    press(&mut model, KeyCode::Char('/'));
    write(&mut model, "status:failed");
    assert_eq!(selected(&model), "a");
    let effects = press(&mut model, KeyCode::Enter);
    assert_eq!(subscribed(&effects).filter, "status:failed");
    assert_eq!((&model.data.log.fetch, model.data.log.records.len()), (&FetchState::Loading, 0));
    // The overview always shows all requests.
    let effects = press(&mut model, KeyCode::Char('1'));
    assert_eq!(subscribed(&effects).filter, "");
    press(&mut model, KeyCode::Char('4'));
    assert_eq!(subscribed(&press(&mut model, KeyCode::Esc)).filter, "");
}

#[test]
fn a_rejected_filter_clears_the_log() {
    use crate::model::subscription::Topic;
    let mut model = usage();
    tail(&mut model, &["a"], true, 0);
    let refused = FetchState::Failed("no condition".to_owned());
    update(&mut model, Message::NotLoaded(Topic::Log, refused.clone()));
    assert_eq!((&model.data.log.fetch, model.data.log.records.len()), (&refused, 0));
    tail(&mut model, &["b"], true, 0);
    assert_eq!((selected(&model), &model.data.log.fetch), ("b", &FetchState::Ready));
}

#[test]
fn a_longer_range_changes_the_subscription() {
    let mut model = usage();
    let effects = press(&mut model, KeyCode::Char(']'));
    assert_eq!(subscribed(&effects).range.name(), "7d");
    press(&mut model, KeyCode::Char(']'));
    assert!(press(&mut model, KeyCode::Char(']')).is_empty(), "the range is already the longest");
}

/// Returns a page of records with these numbers as ids.
fn page(ids: std::ops::Range<usize>, is_last: bool) -> Message {
    let record = |id: usize| Record { id: id.to_string(), ..Record::default() };
    let records = ids.rev().map(record).collect();
    Message::OlderReceived(OlderPage { filter: String::new(), records, is_last })
}

#[test]
fn older_pages_are_fetched_as_the_cursor_nears_the_end() {
    let mut model = usage();
    let newest: Vec<_> = (3_000..4_000).map(|id: usize| id.to_string()).collect();
    let newest: Vec<_> = newest.iter().map(String::as_str).collect();
    tail(&mut model, &newest, true, 0);
    assert!(press(&mut model, KeyCode::Down).is_empty(), "the end is far away");
    assert_eq!(subscribed(&press(&mut model, KeyCode::Char('G'))).older_pages, 1);
    // The first page repeats the records of the stream, so another one is requested.
    let effects = update(&mut model, page(3_000..4_000, false));
    assert_eq!(subscribed(&effects).older_pages, 2);
    assert!(update(&mut model, page(2_000..3_000, false)).is_empty());
    assert_eq!((model.data.log.records.len(), selected(&model)), (2_000, "3000"));
    assert_eq!(subscribed(&press(&mut model, KeyCode::Char('G'))).older_pages, 3);
    assert!(update(&mut model, page(1_500..2_001, true)).is_empty());
    assert!(press(&mut model, KeyCode::Char('G')).is_empty(), "there are no older ones");
    assert_eq!((model.data.log.records.len(), selected(&model)), (2_500, "1500"));

    // Following drops the older pages with the next record.
    press(&mut model, KeyCode::Char('g'));
    let records = vec![Record::default()];
    let batch = LogBatch { restarted: false, records, dropped: 0, live: true };
    let effects = update(&mut model, Message::LogReceived(batch));
    assert_eq!(subscribed(&effects).older_pages, 0);
    assert_eq!(model.data.log.records.len(), MAX_LOG_RECORDS);
    assert!(update(&mut model, page(0..1, false)).is_empty(), "a late page is ignored");
}

#[test]
fn a_chart_of_durations_fetches_the_requests_of_its_range() {
    let mut model = usage();
    let at = |second: usize| Timestamp::from_second(i64::try_from(second).unwrap()).ok();
    let records = |ids: std::ops::Range<usize>| -> Vec<_> {
        let record =
            |id| Record { id: format!("{id:06}"), started_at: at(id), ..Record::default() };
        ids.map(record).collect()
    };
    let batch = |ids, live| {
        Message::LogReceived(LogBatch { restarted: false, records: records(ids), dropped: 0, live })
    };
    update(&mut model, batch(9_750..10_000, true));
    let usage = Usage {
        series: vec![Period { start: at(9_500).unwrap(), totals: Totals::default() }],
        ..Usage::default()
    };
    let (range, filter) = (model.data.usage.range, String::new());
    load(&mut model, Loaded::Usage { range, filter, usage });
    let older = |ids: std::ops::Range<usize>| {
        let mut records = records(ids);
        records.reverse();
        Message::OlderReceived(OlderPage { filter: String::new(), records, is_last: false })
    };
    press(&mut model, KeyCode::Char('c'));
    assert_eq!(model.data.log.older.wanted, 0);
    let effects = press(&mut model, KeyCode::BackTab);
    assert_eq!(subscribed(&effects).older_pages, 1);
    let effects = update(&mut model, older(9_750..10_000));
    assert_eq!(subscribed(&effects).older_pages, 2, "the first page repeats those of the stream");
    let effects = update(&mut model, older(9_600..9_750));
    assert_eq!(subscribed(&effects).older_pages, 3);
    assert!(update(&mut model, older(9_400..9_600)).is_empty(), "the range is complete");
    // The log keeps them although it follows, until the chart is closed.
    update(&mut model, batch(10_000..11_000, true));
    assert_eq!(model.data.log.records.len(), 1_600);
    press(&mut model, KeyCode::Esc);
    update(&mut model, batch(11_000..11_001, true));
    assert_eq!(model.data.log.records.len(), 1_000);
}

#[test]
fn the_log_goes_to_a_time() {
    let check = |typed: &str, filter: &str, expected: &str| {
        let mut model = usage();
        // 2026-11-18 13:53:20 UTC
        update(&mut model, Message::Tick(jiff::Timestamp::new(1_795_010_000, 0).unwrap()));
        model.data.usage.filter = filter.to_owned();
        press(&mut model, KeyCode::Char('t'));
        write(&mut model, typed);
        press(&mut model, KeyCode::Enter);
        match &model.overlay {
            Some(Overlay::Form(form)) => assert_eq!(form.problem.as_deref(), Some(expected)),
            _ => assert_eq!(model.data.usage.filter, expected, "{typed}"),
        }
    };
    check("14:05", "", "until:2026-11-18T14:05:00Z");
    check("11-02 07:30", "model:a", "model:a until:2026-11-02T07:30:00Z");
    check("2025-01-31", "until:7d model:a", "model:a until:2025-01-31T00:00:00Z");
    check("3h", "", "until:2026-11-18T10:53:20Z");
    check("", "until:7d model:a", "model:a");
    check("noon", "", "before: a time such as 14:05, 11-20 14:05 or 3h");
    check("25:00", "", "before: a time such as 14:05, 11-20 14:05 or 3h");
}

#[test]
fn words_are_searched_in_the_log_and_its_older_pages() {
    let mut model = usage();
    tail(&mut model, &["a"], true, 0);
    let before = model.log_run;
    model.data.usage.filter = "Timeout status:failed".to_owned();
    let effects = update(&mut model, Message::Resized(80, 24));
    let subscription = subscribed(&effects);
    assert_eq!(subscription.filter, "status:failed");
    assert_eq!(subscription.log_run, before + 1, "the log starts over");
    let record = |id: usize, error: &str| Record {
        id: id.to_string(),
        error_code: Some(error.to_owned()),
        ..Record::default()
    };
    let mut records: Vec<_> = (0..HISTORY_RECORDS).map(|id| record(id, "other")).collect();
    records[7].error_code = Some("upstream_timeout".to_owned());
    let batch = LogBatch { restarted: true, records, dropped: 0, live: true };
    let effects = update(&mut model, Message::LogReceived(batch));
    assert_eq!((selected(&model), model.data.log.records.len()), ("7", 1));
    assert_eq!(subscribed(&effects).older_pages, 1, "the others are searched, too");
    let filter = "status:failed".to_owned();
    // The first page begins with the records of the stream.
    let records: Vec<_> = (0..HISTORY_RECORDS + 2).map(|id| record(id, "other")).collect();
    update(&mut model, Message::OlderReceived(OlderPage { filter, records, is_last: false }));
    assert_eq!(model.data.log.searched(), HISTORY_RECORDS + 2);
    let records = vec![record(9_000, "other")];
    let batch = LogBatch { restarted: false, records, dropped: 0, live: true };
    update(&mut model, Message::LogReceived(batch));
    let filter = "status:failed".to_owned();
    let records = vec![record(8_000, "upstream_timeout"), record(8_001, "other")];
    update(&mut model, Message::OlderReceived(OlderPage { filter, records, is_last: true }));
    let log = &model.data.log;
    assert_eq!((log.records.len(), log.searched()), (2, HISTORY_RECORDS + 5));

    // Without words, the log starts over once more, although the gateway's filter stays.
    model.data.usage.filter = "status:failed".to_owned();
    let effects = update(&mut model, Message::Resized(80, 24));
    let subscription = subscribed(&effects);
    assert_eq!((subscription.filter.as_str(), subscription.log_run), ("status:failed", before + 2));
}

#[test]
fn the_chosen_columns_outlast_the_filter_and_its_refusal() {
    let mut model = usage();
    tail(&mut model, &["a"], true, 0);
    model.data.log.table.hidden.insert("endpoint");
    model.data.log.table.order = vec!["cost", "model"];
    let chosen = model.data.log.table.clone();
    press(&mut model, KeyCode::Char('/'));
    write(&mut model, "status:failed");
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.data.log.filter.expression, "status:failed");
    assert_eq!(model.data.log.table, chosen);
    let failure = FetchState::Failed("no such status".to_owned());
    update(&mut model, Message::NotLoaded(Topic::Log, failure));
    assert_eq!(model.data.log.table, chosen);
}

/// Regression test: the log was in the order of arrivals after it had been sorted.
#[test]
fn the_end_of_sorting_restores_the_order_of_ends() {
    let mut model = usage();
    let record = |id: &str, start: i64, took: f64| Record {
        id: id.to_owned(),
        started_at: Timestamp::from_second(start).ok(),
        duration_ms: Some(took),
        ..Record::default()
    };
    // `a` arrived first and ended last.
    let records = vec![record("b", 100, 1_000.0), record("c", 110, 0.0), record("a", 50, 99_000.0)];
    let batch = LogBatch { restarted: true, records, dropped: 0, live: true };
    update(&mut model, Message::LogReceived(batch));
    let ids = |model: &Model| {
        model.data.log.records.iter().map(|it| it.id.clone()).collect::<Vec<_>>().concat()
    };
    assert_eq!(ids(&model), "acb");
    press(&mut model, KeyCode::Char('>'));
    press(&mut model, KeyCode::Char('='));
    assert_eq!(ids(&model), "abc", "by the start");
    press(&mut model, KeyCode::Char('p'));
    assert_eq!((ids(&model).as_str(), model.data.log.table.sort), ("acb", None));
}

#[test]
fn a_pasted_key_is_found_by_its_public_id_and_its_secret_is_not_kept() {
    let mut model = usage();
    press(&mut model, KeyCode::Char('/'));
    update(&mut model, Message::Pasted("sk-tg-d954a5ca9647-0a1b2c3d\n".into()));
    let Some(Overlay::Filter(filter)) = &model.overlay else { panic!("{:?}", model.overlay) };
    assert_eq!(filter.input.value(), "sk-tg-d954a5ca9647-");
    let effects = press(&mut model, KeyCode::Enter);
    assert_eq!(subscribed(&effects).filter, "key:d954a5ca9647");
    assert!(!format!("{model:?}").contains("0a1b"));
    press(&mut model, KeyCode::Char('2'));
    load(&mut model, Loaded::Keys(vec![key("e0"), key("d954a5ca9647")]));
    press(&mut model, KeyCode::Char('/'));
    update(&mut model, Message::Pasted("sk-tg-d954a5ca9647-0a1b2c3d".into()));
    press(&mut model, KeyCode::Enter);
    let found: Vec<_> = model.data.keys.visible().map(|it| it.id.as_str()).collect();
    assert_eq!(found, ["d954a5ca9647"]);
}
