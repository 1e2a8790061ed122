//! Every call of the admin API has a command.

use std::collections::BTreeSet;

use prost::Message;
use prost_types::FileDescriptorSet;

use crate::harness::signed_in;

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

#[tokio::test]
async fn every_admin_call_has_a_command() {
    let (fake, user) = signed_in().await;
    fake.end_tails();
    let home = user.path("");
    std::fs::write(home.join("catalogue.toml"), "[plans.new]\n").unwrap();
    for line in LINES {
        let line = line
            .replace("TOKEN", "token")
            .replace("COPY", "copy.db")
            .replace("EXPORT", "export.jsonl");
        let line = line.replace("CATALOGUE", "catalogue.toml");
        let to_path = |word: &str| match word {
            "token" | "copy.db" | "export.jsonl" | "catalogue.toml" => {
                home.join(word).display().to_string()
            }
            word => word.to_owned(),
        };
        let words: Vec<_> = std::iter::once("ctl").chain(line.split(' ')).map(to_path).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let result = user.run(&words, "old password\nnew password\n").await;
        let expected = if line.contains("tail") { 6 } else { 0 };
        assert_eq!(result.code, expected, "{line}: {result:?}");
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
