//! `ctl export` and `ctl apply`

use tonic::Code;

use crate::fake::Fake;
use crate::harness::{Person, Ran, signed_in};

/// The calls that are no reads, in order, as they were made.
fn changes(fake: &Fake) -> Vec<String> {
    let reads = ["ListUpstreams", "ListModels", "ListPlans"];
    let made = fake.calls().into_iter().filter(|call| !reads.contains(&call.method));
    made.map(|call| call.message).collect()
}

/// Whether each of the calls only asks whether the changes could be made.
fn are_dry(fake: &Fake) -> bool {
    changes(fake).iter().all(|call| call.ends_with("dry_run: true }"))
}

/// Applies a catalogue from stdin.
async fn apply(person: &Person, flags: &str, catalogue: &str) -> Ran {
    person.ctl_with(&format!("apply -f - {flags}"), catalogue).await
}

/// What the gateway has, with one text in the place of another: wherever it stands if it names a model,
/// else where it stands first.
async fn edited(person: &Person, edits: &[(&str, &str)]) -> String {
    let mut text = person.ctl("export").await.ok();
    for (before, after) in edits {
        assert!(text.contains(before), "{before} is not in {text}");
        let places = if before.starts_with("models.") { usize::MAX } else { 1 };
        text = text.replacen(before, after, places);
    }
    text
}

#[tokio::test]
async fn what_is_exported_changes_nothing_when_it_is_applied() {
    let (fake, person) = signed_in().await;
    let exported = person.ctl("export").await.ok();
    insta::assert_snapshot!("export", exported);
    for flags in ["", "--dry-run", "--prune --yes"] {
        let ran = apply(&person, flags, &exported).await;
        assert_eq!((ran.code, &*ran.out, &*ran.err), (0, "", "no changes\n"), "{flags}");
    }
    let file = person.path("catalogue.toml");
    std::fs::write(&file, exported).unwrap();
    let ran = person.ctl(&format!("apply -f {} -o json", file.display())).await;
    assert_eq!((ran.code, &*ran.out), (0, "[]\n"));
    assert_eq!(changes(&fake), [""; 0]);
}

#[tokio::test]
async fn a_dry_run_shows_every_field_and_changes_nothing() {
    let (fake, mut person) = signed_in().await;
    let file = edited(
        &person,
        &[("rpm = 60", "rpm = 120"), ("0.25", "0.3"), ("models.sim-slow", "models.new")],
    )
    .await;
    let ran = apply(&person, "--dry-run --prune", &file).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    insta::assert_snapshot!("dry_run_table", format!("{}---\n{}", ran.out, ran.err));
    let ran = apply(&person, "--dry-run --prune -o json", &file).await;
    insta::assert_snapshot!("dry_run_json", ran.out);
    person.environment.colour = true;
    let ran = apply(&person, "--dry-run", &file).await;
    assert!(ran.out.contains("\u{1b}[32m+ model new\u{1b}[0m"), "{ran:?}");
    assert!(are_dry(&fake), "{:?}", changes(&fake));
    fake.refuse("ApplyChanges", Code::InvalidArgument, "model new: upstream `u` does not exist");
    let ran = apply(&person, "--dry-run", &file).await;
    assert_eq!(ran.code, 2, "what the gateway would refuse fails: {ran:?}");
    assert!(ran.err.contains("upstream `u` does not exist"), "{ran:?}");
    assert!(are_dry(&fake), "{:?}", changes(&fake));
}

#[tokio::test]
async fn all_changes_are_made_in_one_call() {
    let (fake, person) = signed_in().await;
    let file = edited(
        &person,
        &[
            ("rpm = 60", "rpm = 120"),
            ("[upstreams.example]", "[upstreams.other]\nurl = 'sim:'\n[upstreams.example]"),
            ("0.25", "0.3"),
            ("models.sim-slow", "models.new"),
        ],
    )
    .await;
    let ran = apply(&person, "--prune --yes", &file).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let calls = changes(&fake);
    assert_eq!(calls.len(), 1, "{calls:?}");
    insta::assert_snapshot!(
        "all_changes",
        calls.concat().replace(" CatalogueChange {", "\n  CatalogueChange {")
    );
    insta::assert_snapshot!("all_changes_notes", ran.err);
}

#[tokio::test]
async fn nothing_is_removed_unless_it_is_agreed_to() {
    let (fake, mut person) = signed_in().await;
    let ran = apply(&person, "", "").await;
    assert_eq!((ran.code, &*ran.err), (0, "no changes\n"), "what is not named stays");
    let ran = apply(&person, "--prune", "").await;
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("--yes"), "{ran:?}");
    person.environment.interactive = true;
    let file = person.path("empty.toml");
    std::fs::write(&file, "").unwrap();
    let line = format!("apply --prune -f {}", file.display());
    assert_eq!(person.ctl_with(&line, "n\n").await.code, 1);
    assert_eq!(changes(&fake), [""; 0]);
    let ran = person.ctl_with(&line, "y\n").await;
    assert_eq!(ran.code, 0, "{ran:?}");
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
async fn a_failure_says_that_nothing_was_done() {
    let (fake, person) = signed_in().await;
    let file = edited(&person, &[("rpm = 60", "rpm = 120"), ("0.25", "0.3")]).await;
    for (code, exit) in [(Code::InvalidArgument, 2), (Code::AlreadyExists, 5)] {
        fake.refuse("ApplyChanges", code, "plan free: no");
        let ran = apply(&person, "", &file).await;
        assert_eq!(ran.code, exit, "{ran:?}");
        assert!(ran.err.contains("error: plan free: no"), "{ran:?}");
        assert!(ran.err.contains("nothing was changed"), "{ran:?}");
        assert!(!ran.err.contains("changed plan"), "{ran:?}");
    }
}

#[tokio::test]
async fn a_sealed_credential_is_never_invented() {
    let (fake, person) = signed_in().await;
    let file = "[upstreams.example]\nurl = 'sim:'\ncredential = 'sealed'\n\
                [upstreams.other]\nurl = 'sim:'\ncredential = 'sealed'\n";
    let ran = apply(&person, "", file).await;
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.err.contains("ctl upstream update example --key-stdin"), "{ran:?}");
    assert_eq!(changes(&fake), [""; 0]);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_names_the_line() {
    let (fake, person) = signed_in().await;
    let ran = apply(&person, "", "[plans.free]\ntrial_credit_usd = '5'\nrmp = 1\n").await;
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("line 3") && ran.err.contains("rmp"), "{ran:?}");
    let ran = person.ctl("apply -f missing.toml").await;
    assert!(ran.code == 1 && ran.err.contains("missing.toml"), "{ran:?}");
    assert_eq!(fake.calls().len(), 0, "the file is read first");
}
