//! The README's first command prints what the README shows.
//!
//! README.md is the source: the block between `<!-- demo -->` and `<!-- /demo -->` must equal the
//! output of the real binary, except for the parts that vary between runs, which [`REDACTIONS`]
//! replaces.

use std::path::Path;

use tests::process::{binary, command};
use tests::with_timeout;
use tokio::process::Command;

/// A prefix, the characters of the variable part, and the replacement of both.
type Redaction = (&'static str, fn(char) -> bool, &'static str);

/// The parts that vary between runs. Applied to both sides, in this order.
const REDACTIONS: [Redaction; 3] = [
    // ports: the test uses free ones
    ("127.0.0.1:", |c| c.is_ascii_digit(), "127.0.0.1:PORT"),
    // the data directory: a new one for each run, in the system's temporary directory
    ("tollgate-demo-", |c| c.is_ascii_alphanumeric(), "tollgate-demo-XXXXXX"),
    // the key
    ("sk-tg-", |c| c.is_ascii_alphanumeric() || c == '-' || c == '_', "sk-tg-KEY"),
];

fn normalised(text: &str, temp: &Path) -> String {
    let mut text = text.replace(&format!("{}/", temp.display()), "/tmp/");
    for (start, goes_on, shown) in REDACTIONS {
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once(start) {
            out.push_str(before);
            out.push_str(shown);
            rest = after.trim_start_matches(goes_on);
        }
        out.push_str(rest);
        text = out;
    }
    let lines: Vec<_> = text.trim().lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// Returns the transcript in the README, without its fence.
fn transcript() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let block = readme
        .split_once("<!-- demo -->")
        .and_then(|(_, rest)| rest.split_once("<!-- /demo -->"))
        .expect("README.md shows the demonstration between <!-- demo --> and <!-- /demo -->")
        .0;
    block.lines().filter(|line| !line.starts_with("```")).collect::<Vec<_>>().join("\n")
}

/// Runs the demonstration on free ports and returns its output.
async fn demonstrate(change: impl FnOnce(&mut Command)) -> String {
    let mut demo = command("gateway");
    demo.args(["demo", "--once"]);
    demo.env("TOLLGATE_LISTEN", "127.0.0.1:0").env("TOLLGATE_ADMIN_LISTEN", "127.0.0.1:0");
    change(&mut demo);
    let output = with_timeout("the end of the demonstration", demo.output()).await.unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert_eq!(stderr, "", "a successful demonstration writes nothing to stderr");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_readme_shows_what_the_demo_prints() {
    let temp = std::env::temp_dir();
    // the README runs it with cargo, which sets this variable
    let printed = demonstrate(|demo| _ = demo.env("CARGO_PKG_NAME", "gateway")).await;
    let shown = normalised(&transcript(), &temp);
    assert_eq!(shown, normalised(&printed, &temp), "put this into README.md:\n{printed}");
}

#[tokio::test]
async fn the_demo_prints_the_paths_of_its_sibling_binaries() {
    let printed = demonstrate(|_| {}).await;
    assert!(!printed.contains("cargo"), "{printed}");
    let (ctl, tui) = (binary("ctl"), binary("tui"));
    for hint in [format!("   {} ", tui.display()), format!("KEY=$({} key create", ctl.display())] {
        assert!(printed.contains(&hint), "`{hint}` is missing in {printed}");
    }
}

#[tokio::test]
async fn the_demo_listens_at_the_address_in_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("admin.sock");
    let admin = format!("unix:{}", socket.display());
    let printed = demonstrate(|demo| _ = demo.env("TOLLGATE_ADMIN_LISTEN", &admin)).await;
    assert!(printed.contains(&format!("export TOLLGATE_SERVER={admin}\n")), "{printed}");
    for (option, variable) in
        [("--listen", "TOLLGATE_LISTEN"), ("--admin-listen", "TOLLGATE_ADMIN_LISTEN")]
    {
        let public = command("gateway").args(["demo", option, "0.0.0.0:0"]).output().await.unwrap();
        let stderr = String::from_utf8(public.stderr).unwrap();
        assert!(!public.status.success() && stderr.contains(variable), "{stderr}");
    }
}
