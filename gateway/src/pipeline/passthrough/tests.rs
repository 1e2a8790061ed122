//! Tests of the relay of chat streams, whole, split and with events of all forms.

use proptest::prelude::*;

use super::*;
use domain::usage::Tokens;

const STREAM: &str = concat!(
    ": hello\n\n",
    "data: {\"id\":\"c\",\"model\":\"up\",\"x\":[1],\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n",
    "event: chunk\r\ndata: {\"model\":\"mine\",\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\r\n\r\n",
    "data: {\"model\":\"up\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
    "data: [DONE]\n\n",
);

fn relay(pieces: &[&str], keep_usage: bool) -> (String, Meter, Result<(), UpstreamError>) {
    let mut stream = ChatPassthrough::new("\"mine\"".to_owned(), keep_usage);
    let (mut meter, mut out) = (Meter::default(), BytesMut::new());
    let outcome = pieces
        .iter()
        .try_for_each(|piece| stream.push(piece.as_bytes(), &mut meter, &mut out))
        .and_then(|()| stream.finish_input(&mut meter, &mut out))
        .and_then(|()| stream.check_finished(&meter))
        .map(|()| stream.write_done(&mut out));
    (String::from_utf8(out.to_vec()).unwrap(), meter, outcome)
}

#[test]
fn only_the_model_is_rewritten() {
    let (out, mut meter, outcome) = relay(&[STREAM], true);
    outcome.unwrap();
    assert_eq!(out, STREAM.replace("\"up\"", "\"mine\""));
    let used = meter.reported.unwrap().complete().unwrap().usage;
    assert_eq!(used.total(), Tokens(5));
    assert_eq!(meter.take_uncounted().output, ["ab"]);
    assert!(meter.is_finished() && !meter.is_truncated);
}

#[test]
fn the_usage_chunk_is_kept_from_who_did_not_ask() {
    let (out, meter, _) = relay(&[STREAM], false);
    assert!(!out.contains("usage"));
    assert!(out.ends_with("}\r\n\r\ndata: [DONE]\n\n"));
    assert!(meter.reported.is_some());
}

#[test]
fn any_split_gives_the_same_bytes() {
    let whole = relay(&[STREAM], true).0;
    for at in 0..=STREAM.len() {
        assert_eq!(relay(&[&STREAM[..at], &STREAM[at..]], true).0, whole);
    }
}

#[test]
fn no_cut_stream_passes_for_a_whole_one() {
    let finished = STREAM.find("data: {\"model\":\"up\",\"choices\":[]").unwrap();
    for at in 0..finished {
        let (out, _, outcome) = relay(&[&STREAM[..at]], true);
        let last_event_is_whole = STREAM[at..].trim_start().len() < STREAM.len() - finished + 1;
        if !last_event_is_whole && !STREAM[..at].trim_end().ends_with("\"stop\"}]}") {
            assert!(matches!(outcome, Err(UpstreamError::CutOff)), "{at}: {outcome:?}");
            assert!(!out.contains("[DONE]"));
        }
    }
    let (out, _, outcome) = relay(&[&STREAM[..finished]], true);
    outcome.unwrap();
    assert!(out.ends_with("data: [DONE]\n\n"), "a finished answer gets the end that was forgotten");
}

#[test]
fn an_answer_with_one_of_two_choices_open_is_not_whole() {
    let open = "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"a\"}}]}\n\n";
    let ended = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    assert!(matches!(relay(&[open, ended], true).2, Err(UpstreamError::CutOff)));
    let other = ended.replace(":0,", ":1,");
    assert!(relay(&[open, ended, &other], true).2.is_ok());
}

#[test]
fn trouble_in_the_stream_is_an_error() {
    let check = |event: &str, expected: &str| {
        let error = relay(&[event], true).2.unwrap_err().to_string();
        assert!(error.contains(expected), "{event}: {error}");
    };
    check("data: {\"error\":{\"message\":\"out of memory\"}}\n\n", "out of memory");
    check("data: {\"error\":\"out of memory\"}\n\n", "out of memory");
    check("data: <html>\n\n", "not a chat chunk");
    check(": ping\n\n", "closed the answer early");
    check("data: [DONE]\n\n", "without a `finish_reason`");
    check("event: error\ndata: {\"message\":\"out of memory\"}\n\n", "out of memory");
    check("event: error\ndata: out of memory\n\n", "out of memory");
    check("data: {\"object\":\"error\",\"message\":\"out of memory\"}\n\n", "out of memory");
    check(
        "data: {\"choices\":[{\"finish_reason\":\"abort\"}]}\n\ndata: [DONE]\n\n",
        "broke its answer off",
    );
}

#[test]
fn an_end_in_other_words_is_an_end() {
    let ended = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    for end in ["data: [DONE] \n\n", "data:[DONE]\r\n\r\n", "data: [DONE]\t\r\r\n"] {
        let (out, _, outcome) = relay(&[ended, "data:\n\n", "data: \n\n", end], true);
        outcome.unwrap();
        assert!(out.starts_with(ended) && out.contains("[DONE]"), "{out:?}");
        assert!(!out.contains("data: \n") && !out.contains("data:\n"), "{out:?}");
        let last = out.split_inclusive("\n\n").last().unwrap();
        assert_eq!(sse::data(last.as_bytes()).as_deref(), Some(sse::DONE), "{out:?}");
    }
}

#[test]
fn bytes_that_are_no_text_are_not_relayed() {
    for bytes in [&b"\x1f\x8b\x08\x00"[..], b": \xff\xfe\n\n", b"data: \xff\n\n", b"\xff\n\n"] {
        let mut stream = ChatPassthrough::new("\"mine\"".to_owned(), true);
        let mut out = BytesMut::new();
        let outcome = stream.push(bytes, &mut Meter::default(), &mut out);
        assert!(matches!(outcome, Err(UpstreamError::Invalid(_))), "{bytes:?}: {outcome:?}");
        assert!(out.is_empty());
    }
}

#[test]
fn a_stream_that_is_cut_short_ends_as_at_a_limit() {
    let mut stream = ChatPassthrough::new("\"mine\"".to_owned(), false);
    let (mut meter, mut out) = (Meter::default(), BytesMut::new());
    stream.cut_short(&mut meter, &mut out);
    stream.push(STREAM.as_bytes(), &mut meter, &mut out).unwrap();
    stream.finish_input(&mut meter, &mut out).unwrap();
    stream.check_finished(&meter).unwrap();
    stream.write_done(&mut out);
    let text = std::str::from_utf8(&out).unwrap();
    assert!(text.starts_with("data: {\"model\":\"mine\",\"object\":"), "{text}");
    assert!(text.ends_with("\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n"), "{text}");
    assert!(meter.is_truncated && meter.is_ended_by_gateway && stream.is_done());
}

#[test]
fn nothing_follows_the_end() {
    let (out, _, outcome) = relay(&[STREAM, "data: {\"late\":1}\n\n"], true);
    outcome.unwrap();
    assert!(out.ends_with("data: [DONE]\n\n"));
}

#[test]
fn data_over_several_lines_is_joined() {
    let (out, _, _) = relay(&["data: {\"model\":\"up\",\ndata: \"choices\":[]}\n\n"], true);
    assert_eq!(out, "data: {\"model\":\"mine\", \"choices\":[]}\n\n");
}

/// Events around a text, as servers write them.
const FORMS: [&str; 6] = [
    "data: {\"id\":\"c\",\"model\":\"up\",\"choices\":[{\"index\":0,\"delta\":{\"content\":TEXT}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":TEXT}}],\"id\":\"c\",\"model\":\"up\"}\n\n",
    "data: {\"model\":\"mine\",\"choices\":[{\"index\":1,\"delta\":{\"content\":TEXT}}]}\n\n",
    "event: x\r\ndata: {\"model\":\"up\",\"choices\":[{\"delta\":{\"reasoning\":TEXT}}]}\r\n\r\n",
    "data: {\"choices\":[{\"delta\":{\"content\":TEXT,\"role\":\"assistant\",\"tool_calls\":[]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"\",\"reasoning_content\":TEXT}}],\"usage\":null}\n\n",
];

proptest! {
    #[test]
    fn events_that_differ_only_in_their_text_pass_as_if_each_was_parsed(
        forms in prop::collection::vec((0..FORMS.len(), 1_usize..6), 1..6),
        texts in prop::collection::vec(
            prop_oneof![
                8 => ".{0,12}".prop_map(|text| serde_json::to_string(&text).unwrap()),
                2 => prop::sample::select(vec![
                    r#""\ud83d""#, r#""\ude00""#, r#""\u00e9\/""#, r#""""#, r#"" a ""#,
                    r#""data:image/png;base64,AAAA""#, r#"["a"]"#, "null", r#" "a" "#,
                    r#""a","refusal":"b""#, r#""a","content":"b""#,
                ]).prop_map(str::to_owned),
                1 => prop::sample::select(vec![
                    r#""\q""#, r#""\u12""#, "\"a\tb\"", "\"a\nb\"", r#""a"#, "3", "", r#"x"a""#,
                ]).prop_map(str::to_owned),
            ],
            30,
        ),
    ) {
        let forms = forms.into_iter().flat_map(|(form, count)| [FORMS[form]].repeat(count));
        let events: Vec<_> =
            forms.zip(&texts).map(|(form, text)| form.replace("TEXT", text)).collect();
        let relay_all = |parses_each: bool| {
            let mut stream = ChatPassthrough::new("\"mine\"".to_owned(), true);
            let (mut meter, mut out) = (Meter::default(), BytesMut::new());
            let outcome = events.iter().try_for_each(|event| {
                if parses_each {
                    stream.rewriter.pattern = EventPattern::default();
                }
                stream.push(event.as_bytes(), &mut meter, &mut out)
            });
            (out, format!("{meter:?}"), outcome.map_err(|error| error.to_string()))
        };
        prop_assert_eq!(relay_all(false), relay_all(true));
    }
}

#[test]
fn a_server_that_changes_other_fields_with_each_event_is_compared_no_more() {
    let mut stream = ChatPassthrough::new("\"mine\"".to_owned(), true);
    let event =
        |nonce: usize| FORMS[0].replace("TEXT", "\"a\"").replace("\"c\"", &nonce.to_string());
    let (mut meter, mut out) = (Meter::default(), BytesMut::new());
    for nonce in 0..20 {
        stream.push(event(nonce).as_bytes(), &mut meter, &mut out).unwrap();
    }
    assert!(stream.rewriter.pattern.text_in(event(19).as_bytes()).is_none());
}
