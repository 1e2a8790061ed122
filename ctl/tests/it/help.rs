//! Every command explains itself, with an example.

use crate::harness::Person;

/// Every command path, nouns before verbs.
pub(crate) const COMMANDS: &[&str] = &[
    "",
    "register",
    "login",
    "logout",
    "whoami",
    "account",
    "account list",
    "account show",
    "account limits",
    "account credit",
    "account suspend",
    "account resume",
    "account plan",
    "account password",
    "account invite",
    "session",
    "session list",
    "session revoke",
    "plan",
    "plan list",
    "plan show",
    "plan set",
    "key",
    "key create",
    "key list",
    "key rotate",
    "key revoke",
    "model",
    "model list",
    "model show",
    "model add",
    "model update",
    "model remove",
    "upstream",
    "upstream list",
    "upstream health",
    "upstream add",
    "upstream update",
    "upstream remove",
    "usage",
    "traffic",
    "usage summary",
    "usage export",
    "request",
    "request list",
    "request show",
    "request tail",
    "request export",
    "audit",
    "audit list",
    "ledger",
    "ledger list",
    "ledger verify",
    "backup",
    "apply",
    "export",
    "doctor",
    "profile",
    "profile list",
    "profile show",
    "profile use",
    "profile set",
    "profile remove",
    "quickstart",
    "agent-config",
    "completions",
    "man",
];

#[tokio::test]
async fn every_help_is_as_it_was_and_has_an_example() {
    let person = Person::new();
    for command in COMMANDS {
        let help = person.ctl(&format!("{command} --help")).await.ok();
        assert!(help.contains("Example:\n  "), "`ctl {command}` has no example");
        insta::assert_snapshot!(format!("ctl {command}").trim().replace(' ', "_"), help);
    }
}

#[tokio::test]
async fn no_command_is_missing_from_the_snapshots() {
    let person = Person::new();
    for command in COMMANDS {
        let help = person.ctl(&format!("{command} --help")).await.ok();
        let Some((_, commands)) = help.split_once("Commands:\n") else { continue };
        for line in commands.lines().take_while(|line| !line.is_empty()) {
            // A description may go on in the next line, further to the right.
            let Some(name) = line.strip_prefix("  ").and_then(|line| line.split(' ').next()) else {
                continue;
            };
            let path = format!("{command} {name}");
            let known = COMMANDS.contains(&path.trim());
            assert!(name.is_empty() || name == "help" || known, "`ctl {path}` has no snapshot");
        }
    }
}

#[tokio::test]
async fn a_wrong_word_suggests_the_right_one() {
    let ran = Person::new().ctl("key creat ci").await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("'create'"), "{}", ran.err);
}

#[tokio::test]
async fn every_command_has_a_page_in_the_manual() {
    let person = Person::new();
    let dir = person.path("man");
    let ran = person.ctl(&format!("man {}", dir.display())).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
    for command in COMMANDS {
        let name = format!("ctl {command}").trim().replace(' ', "-");
        let page = std::fs::read_to_string(dir.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains("Example:"), "{name}: {page}");
    }
    assert!(person.ctl("man").await.ok().contains("quickstart"));
}
