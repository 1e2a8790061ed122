//! Words that earlier versions of the code used for things that have a standard term.

use super::texts::{repository, rust_files};

/// The retired words with their standard terms. A prefix ends in `_`.
const RETIRED: &[(&str, &str)] = &[
    ("Purse", "Balance"),
    ("Cover", "Hold"),
    ("Broke", "InsufficientFunds"),
    ("Tally", "ForwardedRequest"),
    ("RequestGuard", "OpenRequest"),
    ("Gathering", "ReadBatcher"),
    ("Patience", "IdleTimeout"),
    ("Course", "StreamAdapter"),
    ("Exchange", "ResponsesAdapter"),
    ("Outbox", "JournalBarrier"),
    ("Posted", "JournaledIo"),
    ("Departure", "FlushJournal"),
    ("Coalesced", "CoalescingWriter"),
    ("Vitals", "UpstreamStats"),
    ("Aside", "BackgroundReads"),
    ("Wanted", "CancelHandle"),
    ("Lane", "TimeSeries"),
    ("Board", "TrafficState"),
    ("KeyWish", "NewKey"),
    ("PlanWish", "NewPlan"),
    ("Forget", "RetentionCutoff"),
    ("Trouble", "ProtocolViolation"),
    ("Disobeyed", "ConstraintViolation"),
    ("household", "client_prefix"),
    ("offers_a_turn", "should_yield"),
    ("poll_lost", "poll_elapsed"),
    ("goes_to", "record_attempt"),
    ("write_down", "flush"),
    ("or_again", "or_replay"),
    ("flaw", "parse_error"),
    ("Voice", "TextKind"),
    ("Offences", "UnsupportedToolList"),
    ("Thought", "TurnReasoning"),
    ("Suspect", "BalanceMismatch"),
    ("UnderWay", "InFlight"),
    ("KeysOf", "KeyScope"),
    ("AuditChoice", "AuditQuery"),
    ("Unsealable", "UnsealError"),
    ("Occurrences", "ReportAggregator"),
    ("Picture", "TrafficSnapshot"),
    ("Draft", "StagedCatalogue"),
    ("Feed", "ServerStream"),
    ("Upkeep", "StoreMaintenance"),
    ("Consumed", "ConsumptionTotals"),
    ("ForeignError", "ReportedError"),
    ("DoneCall", "CompletedCall"),
    ("Hue", "Style"),
    ("Sabotage", "Tampering"),
    ("MOST_", "MAX_"),
    ("LONGEST_", "MAX_"),
    ("LARGEST_", "MAX_"),
    ("SHORTEST_", "MIN_"),
    ("SMALLEST_", "MIN_"),
];

/// Expressions that comments do not use, because a plain one says it faster.
const RETIRED_IN_COMMENTS: &[&str] =
    &["whom", "anybody", "everybody", "nobody", "of its own", "told", "goes by", "who asks"];

/// Returns the words of a line: runs of letters, digits and `_`.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
}

fn is_retired(word: &str, retired: &str) -> bool {
    if retired.ends_with('_') { word.starts_with(retired) } else { word == retired }
}

#[test]
fn retired_words_stay_out_of_identifiers_and_comments() {
    for file in rust_files(&repository()).iter().filter(|file| !file.ends_with("tidy/words.rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        for (number, line) in text.lines().enumerate() {
            for (retired, term) in RETIRED {
                let has_it = words(line).any(|word| is_retired(word, retired));
                let place = file.display();
                assert!(!has_it, "{place}:{}: `{retired}` is called `{term}` here", number + 1);
            }
        }
    }
}

#[test]
fn comments_are_plain_technical_english() {
    for file in rust_files(&repository()).iter().filter(|file| !file.ends_with("tidy/words.rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        let comments =
            text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//"));
        for (number, comment) in comments {
            let comment = format!(" {} ", comment.to_lowercase());
            for retired in RETIRED_IN_COMMENTS {
                let found = comment.match_indices(retired).any(|(at, _)| {
                    let is_edge =
                        |char: Option<char>| char.is_none_or(|char| !char.is_alphanumeric());
                    let after = &comment[at + retired.len()..];
                    is_edge(comment[..at].chars().next_back()) && is_edge(after.chars().next())
                });
                assert!(!found, "{}:{}: `{retired}`", file.display(), number + 1);
            }
        }
    }
}
