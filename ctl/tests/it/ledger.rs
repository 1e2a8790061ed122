//! Tests of `ctl ledger …`, `ctl usage export` and `ctl backup`.

use crate::harness::{mode, signed_in};

#[tokio::test]
async fn list_fetches_all_pages() {
    let (fake, user) = signed_in().await;
    for format in ["table", "json", "csv"] {
        let printed = user.ctl(&format!("ledger list --account alice -o {format}")).await.ok();
        insta::assert_snapshot!(format!("ledger_list_{format}"), printed);
    }
    assert!(fake.last().message.contains("account: \"alice\", page_size: 49, page_token: \"9\""));
    assert_eq!(user.ctl("ledger list --limit 1 -o jsonl").await.ok().lines().count(), 1);
}

#[tokio::test]
async fn verify_prints_the_counts_of_a_correct_ledger() {
    let (_fake, user) = signed_in().await;
    insta::assert_snapshot!("ledger_verify_ok", user.ctl("ledger verify").await.ok());
}

#[tokio::test]
async fn verify_prints_differences_and_exits_with_1() {
    let (fake, user) = signed_in().await;
    fake.inject_problems();
    for format in ["table", "json"] {
        let result = user.ctl(&format!("ledger verify -o {format}")).await;
        assert_eq!(result.code, 1);
        let printed = format!("{}---\n{}", result.out, result.err);
        insta::assert_snapshot!(format!("ledger_verify_damaged_{format}"), printed);
    }
}

#[tokio::test]
async fn an_export_has_the_fields_of_the_list() {
    let (fake, user) = signed_in().await;
    for format in ["csv", "jsonl"] {
        let line = format!("usage export --since 30d --model sim-fast --format {format}");
        let exported = user.ctl(&line).await.ok();
        assert_eq!(exported, user.ctl(&format!("usage export -o {format}")).await.ok());
        assert_eq!(exported, user.ctl(&format!("request list -o {format}")).await.ok());
    }
    let sent = &fake.calls()[0].message;
    assert!(sent.contains("model: \"sim-fast\"") && sent.contains("since: Some"), "{sent}");
    let jsonl = user.ctl("usage export").await.ok();
    assert_eq!(jsonl, user.ctl("usage export --format jsonl").await.ok());
    assert_eq!(user.ctl("usage export --format table").await.code, 2);
}

#[tokio::test]
async fn a_backup_is_private_and_does_not_overwrite_files() {
    let (fake, user) = signed_in().await;
    let file = user.path("copy.db");
    let line = format!("backup {}", file.display());
    let result = user.ctl(&line).await;
    assert_eq!((result.code, result.out.as_str()), (0, ""), "{result:?}");
    assert!(result.err.contains("wrote 10 bytes") && result.err.contains("seal.key"), "{result:?}");
    assert_eq!(std::fs::read(&file).unwrap(), b"a whole db");
    assert_eq!(mode(&file), 0o600);

    std::fs::write(&file, "existing").unwrap();
    let result = user.ctl(&line).await;
    assert_eq!(result.code, 5);
    assert!(result.err.contains("--yes"), "{result:?}");
    assert_eq!(std::fs::read(&file).unwrap(), b"existing");
    assert_eq!(fake.calls().len(), 1, "no call is made");

    fake.truncate_backups();
    let result = user.ctl(&format!("{line} --yes")).await;
    assert_eq!(result.code, 6, "{result:?}");
    assert_eq!(std::fs::read(&file).unwrap(), b"existing");
    let left = std::fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(left, 1, "no partial file is left");
}

#[tokio::test]
async fn a_backup_overwrites_a_file_with_yes() {
    let (_fake, user) = signed_in().await;
    let file = user.path("copy.db");
    std::fs::write(&file, "old").unwrap();
    user.ctl(&format!("backup {} --yes", file.display())).await.ok();
    assert_eq!(std::fs::read(&file).unwrap(), b"a whole db");
    assert_eq!(mode(&file), 0o600);
}

#[tokio::test]
async fn a_backup_can_be_piped_but_not_printed() {
    let (fake, mut user) = signed_in().await;
    let result = user.ctl("backup -").await;
    assert_eq!((result.code, result.out.as_str()), (0, "a whole db"), "{result:?}");
    assert!(result.err.contains("seal.key"), "{result:?}");
    assert!(!std::path::Path::new("-").exists());
    user.environment.width = Some(80);
    let result = user.ctl("backup -").await;
    assert_eq!((result.code, result.out.as_str(), fake.calls().len()), (2, "", 1), "{result:?}");
    assert!(result.err.contains("terminal"), "{result:?}");
}
