//! Tests of `ctl export` and `ctl apply`.

use tonic::Code;

use crate::fake::FakeGateway;
use crate::harness::{CommandResult, TestUser, signed_in};

/// Returns the messages of all calls other than lists, in order.
fn changes(fake: &FakeGateway) -> Vec<String> {
    let reads = ["ListUpstreams", "ListModels", "ListPlans"];
    let writes = fake.calls().into_iter().filter(|call| !reads.contains(&call.method));
    writes.map(|call| call.message).collect()
}

/// Returns whether all changes were sent as dry runs.
fn are_dry(fake: &FakeGateway) -> bool {
    changes(fake).iter().all(|call| call.ends_with("dry_run: true }"))
}

/// Applies a catalogue from stdin.
async fn apply(user: &TestUser, flags: &str, catalogue: &str) -> CommandResult {
    user.ctl_with(&format!("apply -f - {flags}"), catalogue).await
}

/// Returns the exported catalogue with text replacements: of every occurrence if the text starts
/// with `models.`, else of the first.
async fn edited(user: &TestUser, edits: &[(&str, &str)]) -> String {
    let mut text = user.ctl("export").await.ok();
    for (before, after) in edits {
        assert!(text.contains(before), "{before} is not in {text}");
        let count = if before.starts_with("models.") { usize::MAX } else { 1 };
        text = text.replacen(before, after, count);
    }
    text
}

#[tokio::test]
async fn applying_an_exported_catalogue_changes_nothing() {
    let (fake, user) = signed_in().await;
    let exported = user.ctl("export").await.ok();
    insta::assert_snapshot!("export", exported);
    let line = user.ctl("export -o jsonl").await.ok();
    assert_eq!(line.lines().count(), 1, "{line}");
    for flags in ["", "--dry-run", "--prune --yes"] {
        let result = apply(&user, flags, &exported).await;
        assert_eq!((result.code, &*result.out, &*result.err), (0, "", "no changes\n"), "{flags}");
    }
    let file = user.path("catalogue.toml");
    std::fs::write(&file, exported).unwrap();
    let result = user.ctl(&format!("apply -f {} -o json", file.display())).await;
    assert_eq!((result.code, &*result.out), (0, "[]\n"));
    assert_eq!(changes(&fake), [""; 0]);
}

#[tokio::test]
async fn a_dry_run_shows_every_field_and_changes_nothing() {
    let (fake, mut user) = signed_in().await;
    let file = edited(
        &user,
        &[("rpm = 60", "rpm = 120"), ("0.25", "0.3"), ("models.sim-slow", "models.new")],
    )
    .await;
    let result = apply(&user, "--dry-run --prune", &file).await;
    assert_eq!(result.code, 0, "{result:?}");
    insta::assert_snapshot!("dry_run_table", format!("{}---\n{}", result.out, result.err));
    let result = apply(&user, "--dry-run --prune -o json", &file).await;
    insta::assert_snapshot!("dry_run_json", result.out);
    user.environment.colour = true;
    let result = apply(&user, "--dry-run", &file).await;
    assert!(result.out.contains("\u{1b}[32m+ model new\u{1b}[0m"), "{result:?}");
    assert!(are_dry(&fake), "{:?}", changes(&fake));
    fake.refuse("ApplyChanges", Code::InvalidArgument, "model new: upstream `u` does not exist");
    let result = apply(&user, "--dry-run", &file).await;
    assert_eq!(result.code, 2, "a refusal of the gateway fails the dry run: {result:?}");
    assert!(result.err.contains("upstream `u` does not exist"), "{result:?}");
    assert!(are_dry(&fake), "{:?}", changes(&fake));
}

#[tokio::test]
async fn all_changes_are_sent_in_one_call() {
    let (fake, user) = signed_in().await;
    let file = edited(
        &user,
        &[
            ("rpm = 60", "rpm = 120"),
            ("[upstreams.example]", "[upstreams.other]\nurl = 'sim:'\n[upstreams.example]"),
            ("0.25", "0.3"),
            ("models.sim-slow", "models.new"),
        ],
    )
    .await;
    let result = apply(&user, "--prune --yes", &file).await;
    assert_eq!(result.code, 0, "{result:?}");
    let calls = changes(&fake);
    assert_eq!(calls.len(), 1, "{calls:?}");
    insta::assert_snapshot!(
        "all_changes",
        calls.concat().replace(" CatalogueChange {", "\n  CatalogueChange {")
    );
    insta::assert_snapshot!("all_changes_notes", result.err);
}

#[tokio::test]
async fn removals_require_prune_and_a_confirmation() {
    let (fake, mut user) = signed_in().await;
    let result = apply(&user, "", "").await;
    assert_eq!((result.code, &*result.err), (0, "no changes\n"), "missing entries stay");
    let result = apply(&user, "--prune", "").await;
    assert_eq!(result.code, 2, "{result:?}");
    assert!(result.err.contains("--yes"), "{result:?}");
    user.environment.interactive = true;
    let file = user.path("empty.toml");
    std::fs::write(&file, "").unwrap();
    let line = format!("apply --prune -f {}", file.display());
    assert_eq!(user.ctl_with(&line, "n\n").await.code, 1);
    assert_eq!(changes(&fake), [""; 0]);
    let result = user.ctl_with(&line, "y\n").await;
    assert_eq!(result.code, 0, "{result:?}");
    let calls = changes(&fake).concat();
    for removed in [
        r#"RemoveModel(RemoveModelRequest { id: "sim-slow" })"#,
        r#"RemoveModel(RemoveModelRequest { id: "sim-fast" })"#,
        r#"RemoveUpstream(RemoveUpstreamRequest { name: "example" })"#,
    ] {
        assert!(calls.contains(removed), "{removed} is not in {calls}");
    }
}

#[tokio::test]
async fn a_failure_reports_that_nothing_was_changed() {
    let (fake, user) = signed_in().await;
    let file = edited(&user, &[("rpm = 60", "rpm = 120"), ("0.25", "0.3")]).await;
    for (code, exit) in [(Code::InvalidArgument, 2), (Code::AlreadyExists, 5)] {
        fake.refuse("ApplyChanges", code, "plan free: no");
        let result = apply(&user, "", &file).await;
        assert_eq!(result.code, exit, "{result:?}");
        assert!(result.err.contains("error: plan free: no"), "{result:?}");
        assert!(result.err.contains("nothing was changed"), "{result:?}");
        assert!(!result.err.contains("changed plan"), "{result:?}");
    }
}

#[tokio::test]
async fn a_sealed_credential_must_be_stored_already() {
    let (fake, user) = signed_in().await;
    let file = "[upstreams.example]\nurl = 'sim:'\ncredential = 'sealed'\n\
                [upstreams.other]\nurl = 'sim:'\ncredential = 'sealed'\n";
    let result = apply(&user, "", file).await;
    assert_eq!(result.code, 5, "{result:?}");
    assert!(result.err.contains("ctl upstream update example --key-stdin"), "{result:?}");
    assert_eq!(changes(&fake), [""; 0]);
}

#[tokio::test]
async fn a_parse_error_reports_the_line() {
    let (fake, user) = signed_in().await;
    let result = apply(&user, "", "[plans.free]\ntrial_credit_usd = '5'\nrmp = 1\n").await;
    assert_eq!(result.code, 2);
    assert!(result.err.contains("line 3") && result.err.contains("rmp"), "{result:?}");
    let result = user.ctl("apply -f missing.toml").await;
    assert!(result.code == 1 && result.err.contains("missing.toml"), "{result:?}");
    assert_eq!(fake.calls().len(), 0, "the file is read first");
}
