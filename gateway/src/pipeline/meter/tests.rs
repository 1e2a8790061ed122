//! The text of an answer in any shape, and its reported usage.

use super::*;

fn observe(meter: &mut Meter, choices: &str) {
    let json = format!(r#"{{"choices":[{choices}]}}"#);
    meter.observe(&ChunkView::parse(&json).unwrap(), AnswerForm::Stream);
}

fn observed(deltas: &[&str]) -> Meter {
    let mut meter = Meter::default();
    for delta in deltas {
        observe(&mut meter, &format!(r#"{{"delta":{delta}}}"#));
    }
    meter
}

#[test]
fn what_was_produced_is_kept_by_kind() {
    let mut meter = observed(&[
        r#"{"reasoning_content":"","reasoning":"why\n"}"#,
        r#"{"reasoning_details":[{"text":"?"}],"content":"a"}"#,
        r#"{"content":[{"type":"text","text":"b"}],"tool_calls":[]}"#,
        r#"{"refusal":"no","tool_calls":[{"index":0,"function":{"name":"f"}}]}"#,
        r#"{"content":null,"function_call":{"arguments":"{}"}}"#,
        r#"{"content":[{"type":"thinking","thinking":[{"text":"hm"}]}],"tool_calls":{}}"#,
    ]);
    assert_eq!(meter.produced_bytes(), 5 + 4 + 3 + 2);
    let produced = meter.take_uncounted();
    assert_eq!(produced.reasoning, ["why\n?"]);
    assert_eq!(produced.output, ["abnohm", "f", "{}"]);
    assert_eq!(produced.len(), meter.produced_bytes());
}

#[test]
fn the_text_of_one_choice_is_not_put_between_that_of_another() {
    let mut meter = Meter::default();
    for (index, text) in [(0, "hel"), (1, "wor"), (0, "lo"), (1, "ld")] {
        observe(&mut meter, &format!(r#"{{"index":{index},"delta":{{"content":"{text}"}}}}"#));
    }
    assert_eq!(meter.take_uncounted().output, ["hello", "world"]);
}

#[test]
fn calls_come_one_each_in_a_whole_answer_and_in_pieces_in_a_stream() {
    let texts = |form, lists: &[&str]| -> Vec<String> {
        let mut meter = Meter::default();
        for list in lists {
            let json = format!(r#"{{"choices":[{{"message":{{"tool_calls":{list}}}}}]}}"#);
            meter.observe(&ChunkView::parse(&json).unwrap(), form);
        }
        meter.take_uncounted().output
    };
    let two = r#"[{"index":0,"function":{"name":"f","arguments":"{}"}},{"index":0,"function":{"name":"g","arguments":"{}"}}]"#;
    assert_eq!(texts(AnswerForm::Plain, &[two]), ["f", "{}", "g", "{}"]);
    let begin = r#"[{"index":0,"function":{"name":"f","arguments":"{"}}]"#;
    let end = r#"[{"index":0,"function":{"arguments":"}"}}]"#;
    assert_eq!(texts(AnswerForm::Stream, &[begin, end]), ["f", "{}"]);
}

#[test]
fn what_is_taken_off_to_be_counted_still_is_part_of_the_answer() {
    let long = format!(r#"{{"content":"{}end"}}"#, "word ".repeat(10_000));
    let mut meter = observed(&[&long]);
    assert_eq!((meter.output_bound(), meter.output_estimate()), (50_003, 12_500));
    let batch = meter.take_batch(100);
    assert_eq!(batch.len(), 50_003 - " end".len());
    assert_eq!((meter.output_bound(), meter.pending_bytes()), (50_003, 4));
    meter.batch_counted(Some(batch.count()));
    assert_eq!((meter.counted().output, meter.output_bound()), (10_000, 10_004));
    meter.count_here();
    assert_eq!((meter.output_bound(), meter.is_counted()), (10_001, true));
    assert_eq!(meter.produced_bytes(), 50_003);
    assert_eq!(meter.take_uncounted().output, [" end"]);
    assert!(meter.take_uncounted().is_empty());
}

#[test]
fn text_counts_the_same_however_often_it_is_counted_on_the_way() {
    for (text, escaped) in [
        ("The quick brown fox, it's 12345.\n", r"The quick brown fox, it's 12345.\n"),
        ("日本語の文章、です。", "日本語の文章、です。"),
        ("สวัสดี ครับ", r"\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0e04\u0e23\u0e31\u0e1a"),
        ("😀 👍", r"\ud83d\ude00 \ud83d\udc4d"),
    ] {
        let mut meter = Meter::default();
        for number in 0..200 {
            observe(&mut meter, &format!(r#"{{"delta":{{"content":"{escaped}"}}}}"#));
            if number % 7 == 0 {
                meter.count_here();
            }
        }
        meter.count_here();
        assert_eq!(meter.output_bound(), tokens(&text.repeat(200)), "{text}");
    }
}

#[test]
fn little_text_is_kept_of_an_answer_without_end() {
    const LIMIT: usize = 64 * 1024;
    let word = "word ".repeat(800);
    let mut meter = Meter::default();
    while meter.produced_bytes() < 16 * 1024 * 1024 {
        // Alternates between one text, many calls and reasoning.
        let number = meter.produced_bytes() / 4_000 % 900;
        observe(
            &mut meter,
            &format!(
                r#"{{"index":{},"delta":{{"content":"{word}","reasoning":"x",
                "tool_calls":[{{"index":{number},"function":{{"arguments":"y"}}}}]}}}}"#,
                number % 100
            ),
        );
        if meter.pending_bytes() > LIMIT {
            assert!(meter.take_batch(LIMIT / 16).len() <= LIMIT + 5_000);
            meter.batch_counted(None);
            assert!(meter.pending_bytes() <= LIMIT / 16);
        }
    }
    assert!(meter.take_uncounted().len() <= LIMIT + 5_000);
}

#[test]
fn a_choice_out_of_range_is_refused_and_not_kept() {
    let mut meter = Meter::default();
    meter.set_requested_choices(2);
    observe(&mut meter, r#"{"index":127,"delta":{"content":"a"}}"#);
    assert!(meter.check_choices().is_ok());
    for index in 128..10_000 {
        observe(&mut meter, &format!(r#"{{"index":{index},"delta":{{"content":"a"}}}}"#));
    }
    assert!(meter.check_choices().is_err());
    assert_eq!((meter.texts.len(), meter.pending_bytes()), (128, 1));
    meter = Meter::default();
    meter.set_requested_choices(200);
    observe(&mut meter, r#"{"index":199,"delta":{}}"#);
    assert!(meter.check_choices().is_ok());
}

#[test]
fn a_report_is_outdated_once_text_follows_it() {
    let mut meter = Meter::default();
    let chunks = [
        (
            r#""usage":{"prompt_tokens":9,"completion_tokens":0},"choices":[{"delta":{"role":"assistant"}}]"#,
            false,
        ),
        (r#""choices":[{"delta":{"content":"a"}}]"#, true),
        (
            r#""usage":{"prompt_tokens":9,"completion_tokens":2},"choices":[{"delta":{"content":"b"}}]"#,
            false,
        ),
        (r#""choices":[{"delta":{"content":""},"finish_reason":"stop"}]"#, false),
        (r#""choices":[{"delta":{"images":[{"url":"data:image/png;base64,AAAA"}]}}]"#, true),
        (r#""usage":{"prompt_tokens":9,"completion_tokens":3},"choices":[]"#, false),
    ];
    for (chunk, is_outdated) in chunks {
        let json = format!("{{{chunk}}}");
        meter.observe(&ChunkView::parse(&json).unwrap(), AnswerForm::Stream);
        assert_eq!(meter.is_report_outdated(), is_outdated, "{chunk}");
    }
}

#[test]
fn every_string_of_a_choice_counts_unless_it_is_a_label() {
    for choice in [
        r#""delta":{"content":{"text":"hello"}}"#,
        r#""delta":{"content":{"parts":["hel","lo"]}}"#,
        r#""delta":{"reasoning":{"text":"hello"}}"#,
        r#""delta":{"thinking":{"content":"hello"}}"#,
        r#""delta":{"reasoning_details":[{"type":"reasoning.summary","summary":"hello"}]}"#,
        r#""delta":{"reasoning_content":"he","reasoning":"llo"}"#,
        r#""delta":{"reasoning_content":"hello","reasoning":"hello"}"#,
        r#""delta":{"content":[{"type":"text","text":"he"},{"type":"thinking","thinking":["llo"]}]}"#,
        r#""delta":{"x":{"y":{"text":"hello"}}}"#,
        r#""delta":{"x":{"y":{"z":"hello"}}}"#,
        r#""delta":{"id":["hello"]}"#,
        r#""delta":{"annotations":[{"text":"hello"}]}"#,
        r#""delta":{"images":[{"type":"image_url","image_url":{"url":"hello"}}]}"#,
        r#""delta":{"tool_calls":[{"index":0,"id":"a","spoken":"hello"}]}"#,
        r#""delta":{"tool_calls":[{"index":0,"function":{"spoken":"hello"}}]}"#,
        r#""delta":{"tool_calls":["hello"]}"#,
        r#""delta":{"tool_calls":[{"function":{"name":"he"}}],"function_call":{"arguments":"llo"}}"#,
        r#""delta":{},"text":"hello""#,
        r#""delta":{"content":"hello"},"text":"hello""#,
        r#""delta":{},"message":{"role":"assistant","content":"hello"}"#,
        r#""delta":{"content":"hello"},"message":{"content":"hello"}"#,
        r#""delta":{"content":"he"},"message":{"content":"hello"}"#,
        r#""delta":{},"logprobs":{"content":[{"token":"hello"}]}"#,
        r#""delta":{"content":"hello"},"logprobs":{"content":[{"token":"hello"}]}"#,
    ] {
        let mut meter = Meter::default();
        observe(&mut meter, &format!("{{{choice}}}"));
        assert_eq!(meter.produced_bytes(), 5, "{choice}");
        assert_eq!(meter.take_uncounted().concat().len(), 5, "{choice}");
    }
    let long = "hello ".repeat(50);
    for choice in [
        format!(r#""delta":{{}},"finish_reason":"{long}""#),
        format!(r#""delta":{{"role":"{long}"}}"#),
        format!(r#""delta":{{"tool_calls":[{{"id":"{long}"}}]}}"#),
    ] {
        let mut meter = Meter::default();
        observe(&mut meter, &format!("{{{choice}}}"));
        assert_eq!(meter.produced_bytes(), long.len(), "{choice}");
    }
}

#[test]
fn recordings_and_images_are_not_counted_letter_by_letter() {
    let data = "QUJD".repeat(1_000);
    for delta in [
        format!(r#"{{"audio":{{"id":"a","data":"{data}"}}}}"#),
        format!(r#"{{"images":[{{"image_url":{{"url":"data:image/png;base64,{data}"}}}}]}}"#),
        format!(r#"{{"reasoning_details":[{{"signature":"{data}"}}]}}"#),
    ] {
        let meter = observed(&[&delta]);
        assert_eq!((meter.output_bound(), meter.pending_bytes()), (4, 0), "{delta}");
        assert_eq!(meter.produced_bytes(), 16);
        assert!(meter.received_bytes() >= data.len());
    }
}
