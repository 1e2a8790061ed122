//! The README's first command does what the README shows.
//!
//! README.md is the source: the block between `<!-- demo -->` and `<!-- /demo -->` must be what the
//! real binary prints, but for what differs from run to run. [`RULES`] says what that is.

use std::path::Path;

use tests::process::command;
use tests::soon;

/// How it begins, the characters that it goes on with, what is shown in its place.
type Rule = (&'static str, fn(char) -> bool, &'static str);

/// What differs from run to run. Applied to both sides, in this order.
const RULES: [Rule; 3] = [
    // ports: the demonstration of a test listens on free ones
    ("127.0.0.1:", |c| c.is_ascii_digit(), "127.0.0.1:PORT"),
    // the data directory: a new one each time, below the machine's own directory for such
    ("tollgate-demo-", |c| c.is_ascii_alphanumeric(), "tollgate-demo-XXXXXX"),
    // the key
    ("sk-tg-", |c| c.is_ascii_alphanumeric() || c == '-' || c == '_', "sk-tg-KEY"),
];

fn normalised(text: &str, temp: &Path) -> String {
    let mut text = text.replace(&format!("{}/", temp.display()), "/tmp/");
    for (start, goes_on, shown) in RULES {
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

/// The transcript in the README, without its fence.
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

async fn demonstrate() -> String {
    let mut demo = command("gateway");
    demo.args(["demo", "--once", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    let output = soon("the end of the demonstration", demo.output()).await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "", "a demonstration that works complains of nothing");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_readme_shows_what_the_demo_prints() {
    let temp = std::env::temp_dir();
    let (shown, printed) = (normalised(&transcript(), &temp), demonstrate().await);
    assert_eq!(shown, normalised(&printed, &temp), "put this into README.md:\n{printed}");
}
