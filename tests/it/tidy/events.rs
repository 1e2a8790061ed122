//! The manual lists the event of each line of the log that has one.

use std::collections::BTreeSet;

use super::texts::{repository, rust_files};

#[test]
fn the_manual_lists_every_event_of_the_log() {
    let manual = std::fs::read_to_string(repository().join("gateway/README.md")).unwrap();
    let (_, section) = manual.split_once("\n## Logs\n").expect("the manual has the section");
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let listed: BTreeSet<_> = rows.map(|(name, _)| name).collect();
    let sources: String = rust_files(&repository().join("gateway/src"))
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    let parts = sources.split("event = \"").skip(1).filter_map(|part| part.split_once('"'));
    let logged: BTreeSet<_> = parts.map(|(name, _)| name).collect();
    assert_eq!(listed, logged);
}
