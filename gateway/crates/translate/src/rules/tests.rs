//! Checks that every cited rule is defined.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const RULES: &str = include_str!("../rules.rs");

/// Returns the source files of the crate except this one and the rules.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("src/rules.rs")
            && !path.ends_with("rules/tests.rs")
        {
            files.push(path);
        }
    }
    files
}

/// Returns the length of the digits at the start of `text`, in bytes.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Returns the rule id that `text` starts with, such as `S-8b` or `§4.2`.
fn rule_id(text: &str) -> Option<&str> {
    if let Some(section) = text.strip_prefix('§') {
        let mut length = digits(section);
        while length > 0 && section[length..].starts_with('.') {
            match digits(&section[length + 1..]) {
                0 => break,
                more => length += 1 + more,
            }
        }
        return (length > 0).then(|| &text[..'§'.len_utf8() + length]);
    }
    let number = text.strip_prefix(['Q', 'I', 'T', 'R', 'S'])?.strip_prefix('-')?;
    let length = digits(number);
    let suffix = number[length..].bytes().take_while(u8::is_ascii_lowercase).count();
    let end = 2 + length + suffix;
    let is_word = text[end..].starts_with(|c: char| c.is_ascii_alphanumeric());
    (length > 0 && suffix <= 1 && !is_word).then(|| &text[..end])
}

/// Returns the rule ids in `text`.
fn cited(text: &str) -> BTreeSet<&str> {
    let mut ids = BTreeSet::new();
    let mut previous = ' ';
    for (at, char) in text.char_indices() {
        if !previous.is_alphanumeric() && previous != '-' {
            ids.extend(rule_id(&text[at..]));
        }
        previous = char;
    }
    ids
}

/// Returns the ids that the rules define: as a heading, or in bold at the start of a list item.
fn defined() -> BTreeSet<&'static str> {
    let lines = RULES.lines().filter_map(|line| line.strip_prefix("//! "));
    let starts = lines.filter_map(|line| match line.strip_prefix("- **") {
        Some(item) => Some(item),
        None => line.strip_prefix('#').map(|heading| heading.trim_start_matches(['#', ' '])),
    });
    starts.filter_map(rule_id).collect()
}

#[test]
fn ids_are_recognized() {
    for (text, expected) in [
        ("`S-8b`, `I-9b` and Q-22.", &["I-9b", "Q-22", "S-8b"][..]),
        ("§4.2. §5.7, §0.1.4)", &["§0.1.4", "§4.2", "§5.7"]),
        ("UTF-16, TR-1x, S-, § 3, Q-1and", &[]),
    ] {
        assert_eq!(cited(text).into_iter().collect::<Vec<_>>(), expected, "{text}");
    }
}

#[test]
fn every_cited_rule_is_defined() {
    let defined = defined();
    let files = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(files.len() > 40, "{} files", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let unknown: Vec<_> = cited(&text).difference(&defined).copied().collect();
        assert!(unknown.is_empty(), "{} cites {unknown:?}", file.display());
    }
    let unknown: Vec<_> = cited(RULES).difference(&defined).copied().collect();
    assert_eq!(unknown, ["I-25", "R-11"], "the rules that are not implemented");
}

#[test]
fn no_rule_is_defined_twice() {
    let items = RULES.lines().filter_map(|line| line.strip_prefix("//! - **"));
    let ids: Vec<_> = items.filter_map(rule_id).collect();
    assert!(ids.len() > 100, "{} rules", ids.len());
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}
