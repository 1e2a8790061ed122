//! Every example of every help is run, as it stands there, by a shell with the real binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tonic::Code;

use crate::fake::{Fake, api};
use crate::harness::Person;
use crate::help::COMMANDS;

/// Examples that cannot end well here, by what they begin with: they have no end, or need what is not here.
const ENDLESS: &[&str] = &["ctl request tail", "ctl traffic --watch"];

/// The example lines of a help text; none of them is so long that it was wrapped.
fn examples(help: &str) -> Vec<String> {
    let (_, text) = help.split_once("Example:\n").unwrap();
    let lines = text.lines().take_while(|line| !line.is_empty());
    lines.map(|line| line.strip_prefix("  ").expect("a whole line").to_owned()).collect()
}

/// A directory with the files that examples read, and the programs that they run beside `ctl`.
fn prepare(dir: &Path) -> PathBuf {
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("password.txt", "a long password\n");
    write("key.txt", "sk-upstream\n");
    write("ca.pem", "");
    let made = rcgen::generate_simple_self_signed(["internal-ca".to_owned()]).unwrap();
    write("internal-ca.pem", &made.cert.pem());
    write("catalogue.toml", "[plans.free]\ntrial_credit_usd = '5'\n");
    for place in [".codex", ".config/fish/completions", ".zfunc"] {
        std::fs::create_dir_all(dir.join(place)).unwrap();
    }
    std::fs::create_dir_all(dir.join(".local/share/bash-completion/completions")).unwrap();
    let programs = dir.join("bin");
    write("bin/codex", "#!/bin/sh\n");
    let path = programs.join("codex");
    assert!(Command::new("chmod").arg("+x").arg(path).status().unwrap().success());
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ctl"), programs.join("ctl")).unwrap();
    programs
}

/// Says where the API is, to commands that would take it to be where a gateway of this host has it.
fn aimed(example: &str, api: &str) -> String {
    let nowhere = "http://127.0.0.1:1/v1";
    match example {
        _ if example.contains("quickstart") => format!("{example} --base-url {api}"),
        _ if example.contains("--check") => format!("{example} --base-url {nowhere}"),
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
    let fake = Fake::start().await;
    for method in ["TailRequests", "WatchTraffic"] {
        fake.refuse(method, Code::ResourceExhausted, "too many watch");
    }
    let api = api(&["sim-fast", "sim-chat"]).await;
    let person = Person::new();
    let mut count = 0;
    for command in COMMANDS {
        let help = person.ctl(&format!("{command} --help")).await.ok();
        for example in examples(&help) {
            count += 1;
            // Asked for on a terminal, which is not here; what it would send is tried by its twin.
            let typed = ["login alice", "account password"].iter().any(|it| example.ends_with(it));
            let refused = ENDLESS.iter().any(|start| example.starts_with(start));
            let elsewhere = example.contains("agent-config codex --check");
            // A profile is chosen once it is there.
            let first = "ctl profile set prod --server https://gate.example:8081 2> set.log\n";
            let profile = ["profile use", "profile show prod", "profile remove"];
            let aimed = aimed(&example, &api);
            let whole = if profile.iter().any(|it| example.contains(it)) {
                format!("{first}{aimed}")
            } else {
                aimed
            };
            let server = fake.server.clone();
            let done = tokio::task::spawn_blocking(move || run(&whole, &server)).await.unwrap();
            let expected = match () {
                () if typed => 2,
                () if elsewhere => 6,
                () if refused || example.contains("traffic") => 1,
                () => 0,
            };
            let err = String::from_utf8_lossy(&done.stderr);
            assert_eq!(done.status.code(), Some(expected), "`{example}`: {err}");
        }
    }
    assert!(count > 70, "{count} examples");
}
