//! A half-typed line goes on with commands, options and the names that the gateway knows.

use std::process::Command;

use crate::fake::Fake;
use crate::harness::{Person, signed_in};

/// What bash is offered for the last of `words`.
fn offered(person: &Person, words: &[&str]) -> Vec<String> {
    let mut environment = person.environment.clone();
    environment.complete = Some("fish".to_owned());
    let args = ["ctl", "--", "ctl"].iter().chain(words).map(|word| (*word).into());
    let mut out = Vec::new();
    ctl::complete(args, &environment, &mut out).unwrap();
    let lines = String::from_utf8(out).unwrap();
    lines.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn names_come_from_the_gateway() {
    let (fake, person) = signed_in().await;
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
        let found = offered(&person, words);
        let found: Vec<_> = found.iter().filter(|name| !name.starts_with('-')).collect();
        assert_eq!(found, names.iter().collect::<Vec<_>>(), "{words:?}");
    }
    assert_eq!(fake.last().token.as_deref(), Some("token"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_that_is_typed_is_asked() {
    let (_elsewhere, person) = signed_in().await;
    let there = Fake::start().await;
    offered(&person, &["--server", &there.server, "model", "show", ""]);
    assert_eq!(there.last().method, "ListModels");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_offered_and_silence_is_no_failure() {
    let mut person = Person::new();
    // port 1 of the loopback is nobody's
    person.environment.server = Some("http://127.0.0.1:1".to_owned());
    assert_eq!(offered(&person, &["quick"]), ["quickstart"]);
    assert!(offered(&person, &["key", ""]).contains(&"rotate".to_owned()));
    let names = offered(&person, &["model", "show", ""]);
    assert!(names.iter().all(|name| name.starts_with('-')), "{names:?}");
}

/// The script, in the shell that it is for.
#[tokio::test(flavor = "multi_thread")]
async fn bash_completes_with_the_script() {
    let (fake, person) = signed_in().await;
    let script = person.ctl("completions bash").await.ok();
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

/// zsh loads the script from its `fpath` as a function at the first press of the key, and calls it to
/// complete that line.
#[tokio::test]
async fn zsh_completes_the_line_for_which_it_loads_the_script() {
    let script = Person::new().ctl("completions zsh").await.ok();
    assert!(script.starts_with("#compdef ctl\n"), "{script}");
    let (_, end) = script.split_once("function _clap_dynamic_completer_ctl() {").unwrap();
    let (_, autoloaded) = end.split_once("if [[ ${funcstack[1]} == _ctl ]]; then\n").unwrap();
    assert_eq!(autoloaded.trim(), "_clap_dynamic_completer_ctl \"$@\"\nfi", "{script}");
}

#[tokio::test]
async fn every_shell_has_a_script() {
    let person = Person::new();
    for (shell, needle) in [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --")] {
        let script = person.ctl(&format!("completions {shell}")).await.ok();
        assert!(script.contains(needle) && script.contains("COMPLETE"), "{shell}: {script}");
    }
    assert_eq!(person.ctl("completions tcsh").await.code, 2);
}
