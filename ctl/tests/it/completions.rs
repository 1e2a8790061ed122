//! Shell completion of commands, options and names of objects in the gateway.

use std::process::Command;

use crate::fake::FakeGateway;
use crate::harness::{TestUser, signed_in};

/// Returns the completions of the last of `words`.
fn completions(user: &TestUser, words: &[&str]) -> Vec<String> {
    let mut environment = user.environment.clone();
    environment.complete = Some("fish".to_owned());
    let args = ["ctl", "--", "ctl"].iter().chain(words).map(|word| (*word).into());
    let mut out = Vec::new();
    ctl::complete(args, &environment, &mut out).unwrap();
    let lines = String::from_utf8(out).unwrap();
    lines.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn names_come_from_the_gateway() {
    let (fake, user) = signed_in().await;
    for (words, names) in [
        (&["model", "show", ""][..], &["sim-fast", "sim-slow"][..]),
        (&["model", "update", "sim-s"], &["sim-slow"]),
        (&["request", "list", "--model", ""], &["sim-fast", "sim-slow"]),
        (&["key", "revoke", ""], &["9f2c41d0", "11aa22bb"]),
        (&["account", "suspend", ""], &["alice"]),
        (&["account", "plan", "alice", ""], &["free"]),
        (&["upstream", "remove", ""], &["example"]),
        (&["session", "revoke", ""], &["4be1f07a92c3", "0d5a1c88e27f"]),
    ] {
        let found = completions(&user, words);
        let found: Vec<_> = found.iter().filter(|name| !name.starts_with('-')).collect();
        assert_eq!(found, names.iter().collect::<Vec<_>>(), "{words:?}");
    }
    assert_eq!(fake.last().token.as_deref(), Some("token"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_come_from_the_server_on_the_command_line() {
    let (_other, user) = signed_in().await;
    let fake = FakeGateway::start().await;
    completions(&user, &["--server", &fake.server, "model", "show", ""]);
    assert_eq!(fake.last().method, "ListModels");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_completed_even_if_the_gateway_is_unreachable() {
    let mut user = TestUser::new();
    // Nothing listens on port 1.
    user.environment.server = Some("http://127.0.0.1:1".to_owned());
    assert_eq!(completions(&user, &["quick"]), ["quickstart"]);
    assert!(completions(&user, &["key", ""]).contains(&"rotate".to_owned()));
    let names = completions(&user, &["model", "show", ""]);
    assert!(names.iter().all(|name| name.starts_with('-')), "{names:?}");
}

/// Runs the script in bash.
#[tokio::test(flavor = "multi_thread")]
async fn the_bash_script_completes_names() {
    let (fake, user) = signed_in().await;
    let script = user.ctl("completions bash").await.ok();
    let program = format!(
        "{script}\nCOMP_WORDS=(ctl model show sim-f)\nCOMP_CWORD=3\nCOMP_TYPE=9\n\
         _clap_complete_ctl ctl sim-f show\necho \"${{COMPREPLY[@]}}\""
    );
    let dir = std::path::Path::new(env!("CARGO_BIN_EXE_ctl")).parent().unwrap().to_owned();
    let output = tokio::task::spawn_blocking(move || {
        Command::new("bash")
            .args(["--norc", "-c", &program])
            .env("PATH", format!("{}:/usr/bin:/bin", dir.display()))
            .env("TOLLGATE_SERVER", &fake.server)
            .env("TOLLGATE_TOKEN", "token")
            .output()
            .unwrap()
    });
    let output = output.await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "sim-fast\n", "{output:?}");
}

/// At the first completion, zsh autoloads the script from `fpath` as a function, and calls it to
/// complete that line.
#[tokio::test]
async fn the_zsh_script_completes_the_line_that_autoloads_it() {
    let script = TestUser::new().ctl("completions zsh").await.ok();
    assert!(script.starts_with("#compdef ctl\n"), "{script}");
    let (_, end) = script.split_once("function _clap_dynamic_completer_ctl() {").unwrap();
    let (_, autoloaded) = end.split_once("if [[ ${funcstack[1]} == _ctl ]]; then\n").unwrap();
    assert_eq!(autoloaded.trim(), "_clap_dynamic_completer_ctl \"$@\"\nfi", "{script}");
}

#[tokio::test]
async fn every_shell_has_a_script() {
    let user = TestUser::new();
    for (shell, needle) in [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --")] {
        let script = user.ctl(&format!("completions {shell}")).await.ok();
        assert!(script.contains(needle) && script.contains("COMPLETE"), "{shell}: {script}");
    }
    assert_eq!(user.ctl("completions tcsh").await.code, 2);
}
