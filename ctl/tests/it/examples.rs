//! Runs every example of every help text in a shell, with the real binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tonic::Code;

use crate::fake::{FakeGateway, start_api};
use crate::harness::TestUser;
use crate::help::COMMANDS;

/// The prefixes of examples that run until Ctrl-C; the fake gateway refuses their calls.
const ENDLESS: &[&str] = &["ctl request tail", "ctl traffic --watch"];

/// Returns the example lines of a help text, none of which may be wrapped.
fn examples(help: &str) -> Vec<String> {
    let (_, text) = help.split_once("Example:\n").unwrap();
    let lines = text.lines().take_while(|line| !line.is_empty());
    lines.map(|line| line.strip_prefix("  ").expect("a whole line").to_owned()).collect()
}

/// Creates the files that examples read; returns a directory with the programs that they run.
fn prepare(dir: &Path) -> PathBuf {
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("password.txt", "a long password\n");
    write("key.txt", "sk-upstream\n");
    for name in ["ca", "internal-ca"] {
        let issued = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        write(&format!("{name}.pem"), &issued.cert.pem());
    }
    write("catalogue.toml", "[plans.free]\ntrial_credit_usd = '5'\n");
    for subdir in [".codex", ".config/fish/completions", ".zfunc"] {
        std::fs::create_dir_all(dir.join(subdir)).unwrap();
    }
    std::fs::create_dir_all(dir.join(".local/share/bash-completion/completions")).unwrap();
    let programs = dir.join("bin");
    write("bin/codex", "#!/bin/sh\n");
    let path = programs.join("codex");
    assert!(Command::new("chmod").arg("+x").arg(path).status().unwrap().success());
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ctl"), programs.join("ctl")).unwrap();
    programs
}

/// Adds the base URL of the API to commands that would otherwise use the default one of this host.
fn with_base_url(example: &str, api: &str) -> String {
    let unreachable = "http://127.0.0.1:1/v1";
    match example {
        _ if example.contains("quickstart") => format!("{example} --base-url {api}"),
        _ if example.contains("--check") => format!("{example} --base-url {unreachable}"),
        _ => example.to_owned(),
    }
}

fn run(example: &str, server: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let programs = prepare(dir.path());
    Command::new("sh")
        .args(["-c", &format!("set -e\n{example}")])
        .current_dir(dir.path())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
        .env("HOME", dir.path())
        .env("OLD", "an old password")
        .env("NEW", "a new password")
        .env("TOLLGATE_SERVER", server)
        .env("TOLLGATE_TOKEN", "token")
        .output()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_runs() {
    let fake = FakeGateway::start().await;
    for method in ["TailRequests", "WatchTraffic"] {
        fake.refuse(method, Code::ResourceExhausted, "too many watch");
    }
    let api = start_api(&["sim-fast", "sim-chat"]).await;
    let user = TestUser::new();
    let mut count = 0;
    for command in COMMANDS {
        let help = user.ctl(&format!("{command} --help")).await.ok();
        for example in examples(&help) {
            count += 1;
            // Prompts need a terminal; other examples send the same calls with --password-stdin.
            let prompts =
                ["login alice", "account password"].iter().any(|it| example.ends_with(it));
            let is_endless = ENDLESS.iter().any(|prefix| example.starts_with(prefix));
            let is_unreachable = example.contains("agent-config codex --check");
            // These examples need an existing profile.
            let setup = "ctl profile set prod --server https://gate.example:8081 2> set.log\n";
            let profile = ["profile use", "profile show prod", "profile remove"];
            let command = with_base_url(&example, &api);
            let script = if profile.iter().any(|it| example.contains(it)) {
                format!("{setup}{command}")
            } else {
                command
            };
            let server = fake.server.clone();
            let output = tokio::task::spawn_blocking(move || run(&script, &server)).await.unwrap();
            let expected = match () {
                () if prompts => 2,
                () if is_unreachable => 6,
                () if is_endless || example.contains("traffic") => 1,
                () if example.starts_with("ctl top") => 1,
                // There is no backup; `tests` restores one.
                () if example.starts_with("ctl restore") => 1,
                () => 0,
            };
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(expected), "`{example}`: {err}");
        }
    }
    assert!(count > 70, "{count} examples");
}
