//! `ctl ledger …`, `ctl usage export` and `ctl backup`.

use crate::harness::{mode, signed_in};

#[tokio::test]
async fn entries_are_listed_through_all_pages() {
    let (fake, person) = signed_in().await;
    for format in ["table", "json", "csv"] {
        let printed = person.ctl(&format!("ledger list --account alice -o {format}")).await.ok();
        insta::assert_snapshot!(format!("ledger_list_{format}"), printed);
    }
    assert!(fake.last().message.contains("account: \"alice\", page_size: 49, page_token: \"9\""));
    assert_eq!(person.ctl("ledger list --limit 1 -o jsonl").await.ok().lines().count(), 1);
}

#[tokio::test]
async fn a_ledger_that_adds_up_is_said_to() {
    let (_fake, person) = signed_in().await;
    insta::assert_snapshot!("ledger_verify_ok", person.ctl("ledger verify").await.ok());
}

#[tokio::test]
async fn differences_are_printed_and_the_exit_code_is_one() {
    let (fake, person) = signed_in().await;
    fake.damage();
    for format in ["table", "json"] {
        let ran = person.ctl(&format!("ledger verify -o {format}")).await;
        assert_eq!(ran.code, 1);
        let said = format!("{}---\n{}", ran.out, ran.err);
        insta::assert_snapshot!(format!("ledger_verify_damaged_{format}"), said);
    }
}

#[tokio::test]
async fn an_export_has_the_fields_of_the_list() {
    let (fake, person) = signed_in().await;
    for format in ["csv", "jsonl"] {
        let line = format!("usage export --since 30d --model sim-fast --format {format}");
        let exported = person.ctl(&line).await.ok();
        assert_eq!(exported, person.ctl(&format!("usage export -o {format}")).await.ok());
        assert_eq!(exported, person.ctl(&format!("request list -o {format}")).await.ok());
    }
    let asked = &fake.calls()[0].message;
    assert!(asked.contains("model: \"sim-fast\"") && asked.contains("since: Some"), "{asked}");
    let jsonl = person.ctl("usage export").await.ok();
    assert_eq!(jsonl, person.ctl("usage export --format jsonl").await.ok());
    assert_eq!(person.ctl("usage export --format table").await.code, 2);
}

#[tokio::test]
async fn a_backup_is_its_owners_and_replaces_nothing_unasked() {
    let (fake, person) = signed_in().await;
    let file = person.path("copy.db");
    let line = format!("backup {}", file.display());
    let ran = person.ctl(&line).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
    assert!(ran.err.contains("wrote 10 bytes") && ran.err.contains("seal.key"), "{ran:?}");
    assert_eq!(std::fs::read(&file).unwrap(), b"a whole db");
    assert_eq!(mode(&file), 0o600);

    std::fs::write(&file, "dear to me").unwrap();
    let ran = person.ctl(&line).await;
    assert_eq!(ran.code, 5);
    assert!(ran.err.contains("--yes"), "{ran:?}");
    assert_eq!(std::fs::read(&file).unwrap(), b"dear to me");
    assert_eq!(fake.calls().len(), 1, "it was not even asked for");

    fake.break_backups();
    let ran = person.ctl(&format!("{line} --yes")).await;
    assert_eq!(ran.code, 6, "{ran:?}");
    assert_eq!(std::fs::read(&file).unwrap(), b"dear to me");
    let left = std::fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(left, 1, "nothing half is left behind");
}

#[tokio::test]
async fn a_backup_replaces_a_file_when_it_is_told_to() {
    let (_fake, person) = signed_in().await;
    let file = person.path("copy.db");
    std::fs::write(&file, "old").unwrap();
    person.ctl(&format!("backup {} --yes", file.display())).await.ok();
    assert_eq!(std::fs::read(&file).unwrap(), b"a whole db");
    assert_eq!(mode(&file), 0o600);
}

#[tokio::test]
async fn a_backup_goes_to_stdout_but_not_to_a_terminal() {
    let (fake, mut person) = signed_in().await;
    let ran = person.ctl("backup -").await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "a whole db"), "{ran:?}");
    assert!(ran.err.contains("seal.key"), "{ran:?}");
    assert!(!std::path::Path::new("-").exists());
    person.environment.width = Some(80);
    let ran = person.ctl("backup -").await;
    assert_eq!((ran.code, ran.out.as_str(), fake.calls().len()), (2, "", 1), "{ran:?}");
    assert!(ran.err.contains("terminal"), "{ran:?}");
}
