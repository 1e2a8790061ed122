//! The documentation is correct for the real binaries.
//!
//! README.md is the source: the commands between `<!-- story -->` and `<!-- /story -->` run in a
//! shell with only a home directory, a password and the path of the binaries. The harness replaces
//! `curl`, which a fresh machine may not have.

use std::path::{Path, PathBuf};

use gateway::config::Settings;
use gateway::programs::Programs;
use serde_json::Value;
use tests::http::Request;
use tests::process::{Gateway, binary};
use tests::with_timeout;
use tokio::process::Command;

/// All documents of the repository, by their path from the root.
const DOCUMENTS: [&str; 8] = [
    "README.md",
    "gateway/README.md",
    "gateway/ARCHITECTURE.md",
    "gateway/CHANGELOG.md",
    "ctl/README.md",
    "examples/fleet/README.md",
    "packaging/README.md",
    "tui/README.md",
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(document: &str) -> String {
    std::fs::read_to_string(repository().join(document)).unwrap()
}

/// Returns the text of `document` between the marks `name`.
fn block(document: &str, name: &str) -> String {
    read(document)
        .split_once(&format!("<!-- {name} -->\n"))
        .and_then(|(_, rest)| rest.split_once(&format!("<!-- /{name} -->")))
        .unwrap_or_else(|| panic!("{document} has nothing between the marks `{name}`"))
        .0
        .to_owned()
}

/// Returns the commands, without their prompt.
fn story() -> Vec<String> {
    let story = block("README.md", "story");
    story.lines().filter_map(|line| line.strip_prefix("$ ").map(str::to_owned)).collect()
}

/// Runs `commands` as one script and returns their output.
async fn shell(commands: &[String], home: &Path, admin: &str) -> String {
    let binaries = binary("ctl").parent().unwrap().display().to_string();
    let mut shell = Command::new("sh");
    shell.arg("-ec").arg(commands.join("\n")).env_clear();
    shell.env("PATH", format!("{binaries}:/usr/bin:/bin")).env("HOME", home);
    shell.env("TOLLGATE_SERVER", admin).env("PASSWORD", "correct horse battery");
    let output = with_timeout("the end of the story", shell.output()).await.unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{commands:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_readme_has_at_most_a_thousand_words() {
    let words = read("README.md").split_whitespace().count();
    assert!(words <= 1_000, "{words}");
}

#[test]
fn every_link_between_documents_has_a_target() {
    for document in DOCUMENTS {
        let text = read(document);
        let directory = repository().join(document).parent().unwrap().to_owned();
        let targets = text.split("](").skip(1).map(|rest| rest.split_once(')').unwrap().0);
        for target in targets.filter(|target| !target.contains("://")) {
            let (path, section) = target.split_once('#').unwrap_or((target, ""));
            let file =
                if path.is_empty() { repository().join(document) } else { directory.join(path) };
            assert!(file.exists(), "{document}: {target}");
            if !section.is_empty() {
                let linked = std::fs::read_to_string(&file).unwrap();
                let is_there = linked.lines().any(|line| anchor(line).as_deref() == Some(section));
                assert!(is_there, "{document}: {target}");
            }
        }
    }
}

/// Returns the anchor of a heading as code hosts generate it: lower case, hyphens for spaces, no
/// punctuation.
fn anchor(line: &str) -> Option<String> {
    let (level, heading) = line.split_once(' ')?;
    let is_heading = !level.is_empty() && level.bytes().all(|byte| byte == b'#');
    let anchor = heading.to_lowercase().replace(' ', "-");
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_');
    is_heading.then(|| anchor.chars().filter(kept).collect())
}

#[test]
fn the_manual_shows_the_output_of_the_first_start() {
    let config = Settings::default().resolve().unwrap();
    let admin = config.admin_listen.clone();
    // the manual starts this binary
    let programs = Programs::in_directory(Path::new("target/release"));
    let text = gateway::welcome::text(&config, &admin, &programs);
    let dir = config.data_dir.display().to_string();
    let text = text.replace(&dir, "~/.local/share/tollgate");
    assert_eq!(block("gateway/README.md", "welcome"), format!("```text\n{text}```\n"));
}

#[tokio::test]
async fn next_steps_are_printed_at_the_first_start_only() {
    let home = tempfile::tempdir().unwrap();
    for is_first in [true, false] {
        let gateway = Gateway::start(home.path(), |_| {}).await;
        let admin = gateway.admin.clone();
        let log = gateway.stop().await;
        for line in [
            format!("will be in {}/operator.token,", home.path().display()),
            format!("   export TOLLGATE_SERVER={admin}\n"),
            format!("   {} quickstart ", binary("ctl").display()),
        ] {
            assert_eq!(log.contains(&line), is_first, "{line}: {log}");
        }
    }
}

#[tokio::test]
async fn the_commands_in_the_readme_work_verbatim() {
    let commands = story();
    let curl = commands.iter().position(|command| command.starts_with("curl ")).unwrap();
    let home = tempfile::tempdir().unwrap();
    let data_dir = home.path().join(".local/share/tollgate");
    let gateway = Gateway::start(&data_dir, |_| {}).await;

    let mut before = commands[..curl].to_vec();
    before.push("echo \"KEY $KEY\"".to_owned());
    let printed = shell(&before, home.path(), &gateway.admin).await;
    let key = printed.lines().find_map(|line| line.strip_prefix("KEY ")).unwrap();

    let body = commands[curl].split_once("-d '").unwrap().1.trim_end_matches('\'');
    let request = Request::post(gateway.http, "/v1/chat/completions").bearer(key);
    let answer = request.body(body.to_owned()).send().await.answer().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = &answer.json()["choices"][0]["message"]["content"];
    assert!(matches!(text, Value::String(text) if text.starts_with("Simulated answer")));

    // the record is written within milliseconds; a shutdown guarantees it
    gateway.stop().await;
    let gateway = Gateway::start(&data_dir, |_| {}).await;
    let mut after = commands[curl + 1..].to_vec();
    // the profile stores a session by the gateway's address, which has changed
    after.insert(0, "echo \"$PASSWORD\" | ctl login alice --password-stdin".to_owned());
    let printed = shell(&after, home.path(), &gateway.admin).await;
    assert!(printed.contains("sim-chat"), "{printed}");
    gateway.stop().await;
}

#[tokio::test]
async fn the_manual_names_every_variable_of_the_gateway() {
    let output = tests::process::command("gateway").arg("man").output().await.unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    let manual = read("gateway/README.md");
    let is_name = |c: char| c.is_ascii_uppercase() || c == '_';
    let names = page.match_indices("TOLLGATE_").map(|(start, _)| {
        let rest = &page[start..];
        &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())]
    });
    let mut count = 0;
    for name in names {
        count += 1;
        assert!(manual.contains(name), "gateway/README.md does not name {name}");
    }
    assert!(count > 20, "{page}");
}

/// Returns the commands of our binaries in the console blocks of `document`, as words without
/// redirections.
fn commands(document: &str) -> Vec<Vec<String>> {
    let text = read(document);
    let blocks = text.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let lines = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ "));
    // `KEY=$(ctl …)`, `… | ctl …` and `… && ctl …` contain commands as well
    let parts = lines.flat_map(|line| line.split(['|', '&', '(', ')', '>']));
    let words = |part: &str| part.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let ours = |words: &Vec<String>| {
        words.first().is_some_and(|word| ["ctl", "gateway", "tui"].contains(&word.as_str()))
    };
    parts.map(words).filter(ours).collect()
}

/// A trailing `--help` prints the help only if the rest of the command line is valid.
#[tokio::test]
async fn every_command_in_the_documents_is_valid() {
    let mut count = 0;
    for document in DOCUMENTS {
        for words in commands(document) {
            let mut command = tests::process::command(&words[0]);
            let output = command.args(&words[1..]).arg("--help").output().await.unwrap();
            let problem = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{document}: {words:?}: {problem}");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}
