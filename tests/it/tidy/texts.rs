//! Rules for the files of the repository.

use std::path::{Path, PathBuf};

/// The repository's root.
pub(super) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Returns all files below `path`, or `path` itself, except build outputs and version control.
fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let skipped = ["target", ".git", "__pycache__", ".venv", "node_modules"];
    let kept = entries.map(|entry| entry.unwrap().path());
    let kept = kept.filter(|path| !skipped.contains(&path.file_name().unwrap().to_str().unwrap()));
    let mut all: Vec<_> = kept.flat_map(|path| files(&path)).collect();
    all.sort();
    all
}

/// Returns all Rust files below `path`, or `path` itself.
pub(super) fn rust_files(path: &Path) -> Vec<PathBuf> {
    files(path).into_iter().filter(|file| file.extension().is_some_and(|it| it == "rs")).collect()
}

fn shown(file: &Path) -> String {
    file.strip_prefix(repository()).unwrap().display().to_string()
}

#[test]
fn every_rust_file_begins_with_its_purpose() {
    for file in rust_files(&repository()) {
        let text = std::fs::read_to_string(&file).unwrap();
        let first = text.lines().next().unwrap_or_default();
        let has_purpose = first.strip_prefix("//! ").is_some_and(|purpose| purpose.len() > 3);
        assert!(has_purpose, "{} begins with `{first}`", shown(&file));
        let unwritten = ["//! place", "holder"].concat();
        assert!(!text.contains(&unwritten), "{}", shown(&file));
    }
}

#[test]
fn every_item_of_the_admin_contract_has_a_comment() {
    let protos = files(&repository().join("proto/tollgate"));
    let protos: Vec<_> = protos
        .into_iter()
        .filter(|file| file.extension().is_some_and(|it| it == "proto"))
        .collect();
    assert_eq!(protos.len(), 15);
    for file in protos {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        assert!(lines[0].starts_with("// "), "{}", shown(&file));
        for (index, line) in lines.iter().enumerate().skip(1) {
            let declares = ["service ", "rpc ", "message ", "enum ", "oneof "];
            let field = line.contains(" = ") && line.ends_with(';') && !line.starts_with("syntax");
            if field || declares.iter().any(|word| line.starts_with(word)) {
                let explained = lines[index - 1].starts_with("// ");
                assert!(explained, "{}:{}: `{line}`", shown(&file), index + 1);
            }
        }
    }
}

/// Written in pieces, so that this file does not contain the banned texts.
const BANNED: &[&[&str]] = &[
    // local paths
    &["/wo", "rk/"],
    &["/ro", "ot/"],
    &["/ho", "me/"],
    &["/Us", "ers/"],
    // package sources are configured on each machine, not in the repository
    &["index-", "url"],
    &["py", "pi.org"],
    &["static.", "crates.io"],
    &["index.", "crates.io"],
    &["registry.", "npmjs"],
    &["replace-", "with"],
];

#[test]
fn no_file_contains_a_registry_or_a_local_path() {
    for file in files(&repository()) {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        for needle in BANNED.iter().map(|pieces| pieces.concat()) {
            let line = text.lines().position(|line| line.contains(&needle));
            assert!(
                line.is_none(),
                "{}:{}: `{needle}`",
                shown(&file),
                line.unwrap_or_default() + 1
            );
        }
    }
}

#[test]
fn every_dependency_comes_from_the_public_registry() {
    let lock = std::fs::read_to_string(repository().join("Cargo.lock")).unwrap();
    let public = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    let mut sources = lock.lines().filter(|line| line.starts_with("source = "));
    assert_eq!(sources.find(|line| *line != public), None);
}

#[test]
fn no_test_is_ignored_and_no_lint_is_allowed() {
    for file in rust_files(&repository()) {
        let text = std::fs::read_to_string(&file).unwrap();
        for needle in [["#[ig", "nore"], ["#[al", "low("], ["#![al", "low("]].map(|it| it.concat())
        {
            assert!(!text.contains(&needle), "{}: {needle}", shown(&file));
        }
    }
}

#[test]
fn no_file_has_more_than_six_hundred_lines() {
    for file in rust_files(&repository()) {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.lines().count() <= 600, "{}: {} lines", shown(&file), text.lines().count());
    }
}

#[test]
fn migrations_are_numbered_without_gaps() {
    let dir = repository().join("gateway/crates/store/src/sqlite/migrations");
    let names =
        files(&dir).into_iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned());
    for (index, name) in names.enumerate() {
        assert!(name.starts_with(&format!("{:04}_", index + 1)), "{name}");
    }
}
