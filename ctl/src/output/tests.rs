//! The output of the same records in every format.

use serde::Serialize;

use super::{Format, Output, Record, StreamState};
use crate::error::Failure;
use crate::profile::Environment;

#[derive(Serialize)]
struct Row {
    name: &'static str,
    input_tokens: Option<u64>,
    ttft_ms: Option<f64>,
    started_at: &'static str,
    notes: [&'static str; 0],
}

impl Record for Row {
    const FIELDS: &'static [&'static str] =
        &["name", "input_tokens", "ttft_ms", "started_at", "notes"];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}

const ROWS: [Row; 2] = [
    Row {
        name: "first, \"quoted\" \u{1b}[31m",
        input_tokens: Some(12_345),
        ttft_ms: Some(38.0625),
        started_at: "2026-11-20T12:00:00.123456Z",
        notes: [],
    },
    Row {
        name: "\u{65e5}\u{672c}",
        input_tokens: None,
        ttft_ms: None,
        started_at: "2026-11-20T12:00:01Z",
        notes: [],
    },
];

fn print(
    format: Format,
    width: Option<u16>,
    act: impl FnOnce(&mut Output<'_>) -> Result<(), Failure>,
) -> (String, String) {
    let mut environment = Environment::for_home(std::path::Path::new("/nowhere"));
    environment.width = width;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    act(&mut Output::new(format, false, &environment, &mut out, &mut err)).unwrap();
    (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

#[test]
fn a_table_aligns_columns_marks_unknown_values_and_replaces_control_characters() {
    let (out, _) = print(Format::Table, None, |output| output.many(&ROWS));
    insta::assert_snapshot!(out);
}

#[test]
fn a_narrow_table_drops_the_last_columns_and_lists_them() {
    let (out, err) = print(Format::Table, Some(50), |output| output.many(&ROWS));
    assert!(out.lines().all(|line| line.chars().count() <= 50), "{out}");
    insta::assert_snapshot!(format!("{out}---\n{err}"));
}

#[test]
fn a_streamed_table_has_one_header_and_constant_columns() {
    let (out, _) = print(Format::Table, None, |output| {
        let mut stream = StreamState::default();
        output.append(&ROWS[..1], &mut stream)?;
        output.append(&ROWS[1..], &mut stream)
    });
    let (whole, _) = print(Format::Table, None, |output| output.many(&ROWS));
    assert_eq!(out, whole);
}

#[test]
fn a_secret_is_never_wrapped() {
    let (out, _) = print(Format::Table, Some(20), |output| output.one(&ROWS[0]));
    assert_eq!(out.lines().count(), Row::FIELDS.len(), "{out}");
}

#[test]
fn colour_is_used_only_if_enabled() {
    for colour in [false, true] {
        let mut environment = Environment::for_home(std::path::Path::new("/nowhere"));
        environment.colour = colour;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let row = Row { name: "failed", ..ROWS[1] };
        Output::new(Format::Table, false, &environment, &mut out, &mut err).many(&[row]).unwrap();
        assert_eq!(out.contains(&0x1b), colour);
    }
}

#[test]
fn colour_does_not_change_the_layout() {
    let printed = |colour| {
        let mut environment = Environment::for_home(std::path::Path::new("/nowhere"));
        environment.colour = colour;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let rows = [Row { name: "failed", ..ROWS[0] }, Row { name: "fine", ..ROWS[0] }];
        let mut output = Output::new(Format::Table, false, &environment, &mut out, &mut err);
        output.many(&rows).unwrap();
        output.one(&rows[0]).unwrap();
        String::from_utf8(out).unwrap()
    };
    let mut seen = String::new();
    let coloured = printed(true);
    for line in coloured.lines() {
        let mut parts = line.split('\u{1b}');
        let mut visible = parts.next().unwrap().to_owned();
        visible.extend(parts.filter_map(|part| part.split_once('m')).map(|(_, text)| text));
        seen.push_str(visible.trim_end());
        seen.push('\n');
    }
    assert_ne!(coloured, seen);
    assert_eq!(seen, printed(false));
}

#[test]
fn csv_quotes_special_characters_and_leaves_unknown_values_empty() {
    let (out, _) = print(Format::Csv, None, |output| {
        let mut stream = StreamState::default();
        output.append(&ROWS[..1], &mut stream)?;
        output.append(&ROWS[1..], &mut stream)
    });
    insta::assert_snapshot!(out.replace('\u{1b}', "<ESC>"));
}

#[test]
fn csv_escapes_formulas_but_not_amounts() {
    #[derive(Serialize)]
    struct Entry {
        note: &'static str,
        amount_usd: &'static str,
    }
    impl Record for Entry {
        const FIELDS: &'static [&'static str] = &["note", "amount_usd"];
        const COLUMNS: &'static [&'static str] = Self::FIELDS;
    }
    for (note, amount_usd, line) in [
        ("=1+1", "-0.5", "'=1+1,-0.5"),
        ("+1", "-12", "'+1,-12"),
        ("-1", "-1+cmd", "'-1,'-1+cmd"),
        ("@SUM(A1,B1)", "0", "\"'@SUM(A1,B1)\",0"),
        ("＝1", "1", "'＝1,1"),
        ("\tx\r\ny", "1", " x  y,1"),
        ("bob\u{202e}\u{1b}", "1", "bob\u{fffd}\u{fffd},1"),
        ("a-b", "1", "a-b,1"),
        ("x;=HYPERLINK(1)", "1", "x;'=HYPERLINK(1),1"),
        ("-x;y;＋1;@z", "1;=1", "'-x;y;'＋1;'@z,1;'=1"),
    ] {
        let entry = [Entry { note, amount_usd }];
        let (out, _) = print(Format::Csv, None, |output| output.many(&entry));
        assert_eq!(out, format!("note,amount_usd\n{line}\n"));
        let (out, _) = print(Format::Json, None, |output| output.many(&entry));
        assert_eq!(out, format!("{}\n", serde_json::to_string_pretty(&entry).unwrap()), "exact");
    }
}

#[test]
fn an_empty_list_is_a_header_or_an_empty_array() {
    let none: &[Row] = &[];
    assert_eq!(print(Format::Json, None, |output| output.many(none)).0, "[]\n");
    assert_eq!(print(Format::Jsonl, None, |output| output.many(none)).0, "");
    let header = "name,input_tokens,ttft_ms,started_at,notes\n";
    assert_eq!(print(Format::Csv, None, |output| output.many(none)).0, header);
    let header = "NAME  INPUT  TTFT MS  STARTED  NOTES\n";
    assert_eq!(print(Format::Table, None, |output| output.many(none)).0, header);
}

#[test]
fn a_quiet_table_prints_only_names() {
    let environment = Environment::for_home(std::path::Path::new("/nowhere"));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut output = Output::new(Format::Table, true, &environment, &mut out, &mut err);
    output.many(&ROWS[1..]).unwrap();
    output.one(&ROWS[1]).unwrap();
    output.note("talk");
    assert_eq!((String::from_utf8(out).unwrap().as_str(), err.len()), ("日本\n日本\n", 0));
}

#[test]
fn progress_is_shown_only_on_a_terminal_and_is_cleared_at_the_end() {
    for (interactive, quiet) in [(true, false), (true, true), (false, false)] {
        let mut environment = Environment::for_home(std::path::Path::new("/nowhere"));
        environment.interactive = interactive;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut output = Output::new(Format::Table, quiet, &environment, &mut out, &mut err);
        output.progress(3, Some(4), "MiB");
        output.progress(3, Some(4), "MiB");
        output.end_progress();
        let shown = "\r[██████████████████      ] 3 of 4 MiB\u{1b}[K\r\u{1b}[K";
        let expected = if interactive && !quiet { shown } else { "" };
        assert_eq!(String::from_utf8(err).unwrap(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_timer_shows_elapsed_seconds() {
    let mut environment = Environment::for_home(std::path::Path::new("/nowhere"));
    environment.interactive = true;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut output = Output::new(Format::Table, false, &environment, &mut out, &mut err);
    let work = async {
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
        7
    };
    assert_eq!(output.with_timer("counting", work).await, 7);
    let expected = "\rcounting: 0 s\u{1b}[K\rcounting: 1 s\u{1b}[K\r\u{1b}[K";
    assert_eq!(String::from_utf8(err).unwrap(), expected);
}
