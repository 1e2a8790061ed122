//! Every call of the admin API has a command.

use std::collections::BTreeSet;

use prost::Message;
use prost_types::FileDescriptorSet;

use serde_json::Value;

use crate::harness::{TestUser, signed_in};
use crate::help::COMMANDS;

/// Command lines that together make every call.
const LINES: &[&str] = &[
    "register alice --password-stdin",
    "login alice --password-stdin --token-file TOKEN",
    "logout --token-file TOKEN",
    "whoami",
    "account list",
    "account show bob",
    "account limits",
    "account credit bob 1 --reason gift",
    "account suspend bob --reason spam",
    "account resume bob",
    "account rename bob robert",
    "account close bob",
    "account delete bob --confirm bob",
    "account plan bob free",
    "account grant bob support",
    "account password --password-stdin",
    "account export bob --out EXPORT",
    "account reset-password bob",
    "login bob --password-stdin --reset-code tgr-1 --token-file TOKEN",
    "account people add carol --role admin",
    "account people list",
    "account people set carol --role member",
    "account people remove carol",
    "account invite",
    "account invites",
    "account uninvite 4be1f07a92c3",
    "session list",
    "session revoke 4be1f07a92c3",
    "session revoke --others",
    "plan list",
    "plan set free --rpm 1",
    "key create ci",
    "key list",
    "key set 9f2c41d0 --rpm 1",
    "key rotate 9f2c41d0",
    "key revoke 9f2c41d0",
    "model list",
    "model show m",
    "model add m --upstream u",
    "model update m --rpm 1",
    "model remove m",
    "route explain m",
    "upstream list",
    "upstream add u --url sim:",
    "upstream update u --url sim:",
    "upstream remove u",
    "upstream reset u",
    "node list",
    "node drain gate-1",
    "node remove gate-2",
    "operator-token rotate",
    "operator-token disable",
    "operator-token enable",
    "apply -f CATALOGUE",
    "usage",
    "traffic",
    "request list",
    "request show 019a9f0e-0000-7000-8000-00000000000a",
    "request capture --key 9f2c41d0",
    "request show 019a9f0e-0000-7000-8000-00000000000a --wire",
    "request tail --no-reconnect",
    "request in-flight",
    "request cancel 019a9f0e-0000-7000-8000-00000000000d",
    "request export",
    "audit list",
    "ledger list",
    "ledger verify",
    "backup COPY",
    "reload",
    "seal rotate",
    "webhook test",
    "version",
    "doctor",
];

/// Command lines that call no gateway, or make calls of which another one is in [`LINES`].
const OTHER_LINES: &[&str] = &[
    "upstream show example",
    "upstream health",
    "upstream reset example",
    "plan show free",
    "top --once",
    "usage summary",
    "usage export",
    "profile list",
    "profile set far --server http://127.0.0.1:9",
    "profile show far",
    "profile use far",
    "profile remove far",
    "export",
];

/// The commands without a line: they print text for people, a shell or another program, replace a
/// database, or, like `quickstart`, need the API, which the fake gateway does not serve.
const WITHOUT_LINE: &[&str] = &["agent-config", "completions", "man", "quickstart", "restore"];

/// Runs a command line with files in the home directory, and returns stdout.
async fn run(user: &TestUser, line: &str) -> String {
    let home = user.path("");
    std::fs::write(home.join("catalogue.toml"), "[plans.new]\n").unwrap();
    let to_path = |word: &str| match word {
        "TOKEN" | "EXPORT" | "COPY" => home.join(word).display().to_string(),
        "CATALOGUE" => home.join("catalogue.toml").display().to_string(),
        word => word.to_owned(),
    };
    // An existing file is not overwritten.
    for written in ["EXPORT", "COPY"] {
        _ = std::fs::remove_file(home.join(written));
    }
    let words: Vec<_> = std::iter::once("ctl").chain(line.split(' ')).map(to_path).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let result = user.run(&words, "old password\nnew password\n").await;
    let expected = if line.contains("tail") { 6 } else { 0 };
    assert_eq!(result.code, expected, "{line}: {result:?}");
    result.out
}

/// `-o json` prints one JSON document, and `-o jsonl` one in each line, with few exceptions; nothing
/// else goes to stdout.
#[tokio::test]
async fn every_command_prints_json_or_nothing() {
    let (fake, user) = signed_in().await;
    fake.end_tails();
    let mut wrong = Vec::new();
    // A later line needs what an earlier one has written.
    for format in ["json", "jsonl"] {
        for line in LINES.iter().chain(OTHER_LINES) {
            // The log that is followed never ends, so it is no document.
            if format == "json" && line.starts_with("request tail") {
                continue;
            }
            let out = run(&user, &format!("{line} -o {format}")).await;
            // Exports of records print each as it arrives.
            let is_document =
                format == "json" && !["request export", "usage export"].contains(line);
            let documents: Result<Vec<Value>, _> = if is_document && !out.is_empty() {
                serde_json::from_str(&out).map(|it| vec![it])
            } else {
                out.lines().map(serde_json::from_str).collect()
            };
            // What other commands did is a message on stderr, or in a file.
            let is_query = [" list", " show"].iter().any(|word| line.contains(word));
            match documents {
                Err(error) => wrong.push(format!("{line} -o {format}: {error}: {out}")),
                Ok(documents) if format == "json" && is_query && documents.is_empty() => {
                    wrong.push(format!("{line} -o {format}: nothing"));
                }
                Ok(_) => {}
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn every_command_has_a_line() {
    for command in COMMANDS {
        let is_group = COMMANDS.iter().any(|it| it.starts_with(&format!("{command} ")));
        let words: Vec<_> = command.split_whitespace().collect();
        let has_line = LINES.iter().chain(OTHER_LINES).any(|line| {
            let given: Vec<_> = line.split(' ').collect();
            given.starts_with(&words)
        });
        assert!(is_group || has_line || WITHOUT_LINE.contains(command), "{command} has no line");
    }
}

#[tokio::test]
async fn every_admin_call_has_a_command() {
    let (fake, user) = signed_in().await;
    fake.end_tails();
    for line in LINES {
        run(&user, line).await;
    }
    let called: BTreeSet<_> = fake.calls().iter().map(|call| call.method.to_owned()).collect();
    let descriptor = FileDescriptorSet::decode(proto::DESCRIPTOR).unwrap();
    let methods: BTreeSet<_> = descriptor
        .file
        .into_iter()
        .filter(|file| file.package() == "tollgate.admin.v1")
        .flat_map(|file| file.service)
        .flat_map(|service| service.method)
        .map(|method| method.name().to_owned())
        .collect();
    assert!(methods.len() > 40, "{methods:?}");
    let missing: Vec<_> = methods.difference(&called).collect();
    assert!(missing.is_empty(), "no command calls {missing:?}");
}
