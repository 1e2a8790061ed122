//! Help texts and manual pages of all commands.

use crate::harness::TestUser;

/// The paths of all commands.
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
    "account rename",
    "account close",
    "account delete",
    "account plan",
    "account grant",
    "account password",
    "account reset-password",
    "account export",
    "account people",
    "account people add",
    "account people list",
    "account people set",
    "account people remove",
    "account invite",
    "account invites",
    "account uninvite",
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
    "key set",
    "key rotate",
    "key revoke",
    "model",
    "model list",
    "model show",
    "model add",
    "model update",
    "model remove",
    "route",
    "route explain",
    "upstream",
    "upstream list",
    "upstream show",
    "upstream health",
    "upstream add",
    "upstream update",
    "upstream remove",
    "upstream reset",
    "node",
    "node list",
    "node drain",
    "node remove",
    "operator-token",
    "operator-token rotate",
    "operator-token disable",
    "operator-token enable",
    "usage",
    "top",
    "traffic",
    "usage summary",
    "usage export",
    "request",
    "request list",
    "request show",
    "request capture",
    "request tail",
    "request in-flight",
    "request cancel",
    "request export",
    "audit",
    "audit list",
    "ledger",
    "ledger list",
    "ledger verify",
    "backup",
    "restore",
    "reload",
    "seal",
    "seal rotate",
    "webhook",
    "webhook test",
    "version",
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
async fn every_help_text_has_a_snapshot_and_an_example() {
    let user = TestUser::new();
    for command in COMMANDS {
        let help = user.ctl(&format!("{command} --help")).await.ok();
        assert!(help.contains("Example:\n  "), "`ctl {command}` has no example");
        insta::assert_snapshot!(format!("ctl {command}").trim().replace(' ', "_"), help);
    }
}

#[tokio::test]
async fn every_command_has_a_snapshot() {
    let user = TestUser::new();
    for command in COMMANDS {
        let help = user.ctl(&format!("{command} --help")).await.ok();
        let Some((_, commands)) = help.split_once("Commands:\n") else { continue };
        for line in commands.lines().take_while(|line| !line.is_empty()) {
            // A wrapped description continues in the next line, with a deeper indent.
            let Some(name) = line.strip_prefix("  ").and_then(|line| line.split(' ').next()) else {
                continue;
            };
            let path = format!("{command} {name}");
            let is_listed = COMMANDS.contains(&path.trim());
            assert!(name.is_empty() || name == "help" || is_listed, "`ctl {path}` has no snapshot");
        }
    }
}

#[tokio::test]
async fn a_misspelled_command_gets_a_suggestion() {
    let result = TestUser::new().ctl("key creat ci").await;
    assert_eq!((result.code, result.out.as_str()), (2, ""));
    assert!(result.err.contains("'create'"), "{}", result.err);
}

#[tokio::test]
async fn every_command_has_a_manual_page() {
    let user = TestUser::new();
    let dir = user.path("man");
    let result = user.ctl(&format!("man {}", dir.display())).await;
    assert_eq!((result.code, result.out.as_str()), (0, ""), "{result:?}");
    for command in COMMANDS {
        let name = format!("ctl {command}").trim().replace(' ', "-");
        let page = std::fs::read_to_string(dir.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains("Example:"), "{name}: {page}");
    }
    assert!(user.ctl("man").await.ok().contains("quickstart"));
}
