//! The whole product from an empty machine by script: the real `ctl` in a shell, with the real
//! `gateway`.
//!
//! The script `story_ctl.sh` checks the exit codes; this file checks the output.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tests::process::{Gateway, binary};
use tests::with_timeout;
use tokio::process::Command;

/// The output of the script's commands, one file each.
struct Printed(PathBuf);

impl Printed {
    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn json(&self, name: &str) -> Value {
        let text = self.text(name);
        text.parse().unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
    }

    /// Returns the values of one field in a list.
    fn each(&self, name: &str, field: &str) -> Vec<Value> {
        let list = self.json(name);
        list.as_array().unwrap().iter().map(|entry| entry[field].clone()).collect()
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        self.text(name).lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Returns all output on stderr, by file.
    fn stderr_outputs(&self) -> Vec<(String, String)> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let spoken = names.filter(|name| Path::new(name).extension().is_some_and(|it| it == "txt"));
        spoken.map(|name| (name.clone(), self.text(&name))).collect()
    }
}

/// Runs the script in `dir`, with `gateway`.
async fn run(dir: &Path, data: &Path, gateway: &Gateway) -> Printed {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/story_ctl.sh");
    let mut shell = Command::new("/bin/sh");
    shell.arg("-eu").arg(script).current_dir(dir).env_clear().kill_on_drop(true);
    // no curl, jq or grep: the script needs only ctl
    shell.env("PATH", binary("ctl").parent().unwrap());
    shell.env("TOLLGATE_SERVER", &gateway.admin).env("API", format!("http://{}/v1", gateway.http));
    shell.env("DATA", data).env("PASSWORD", "correct horse battery");
    let output = with_timeout("the end of the story", shell.output()).await.unwrap();
    let printed = Printed(dir.to_owned());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}\n{:#?}", printed.stderr_outputs());
    printed
}

#[tokio::test]
async fn a_script_can_do_everything_that_accounts_and_operators_can() {
    let disk = tempfile::tempdir().unwrap();
    let (data, dir) = (disk.path().join("data"), disk.path().join("script"));
    std::fs::create_dir(&dir).unwrap();
    let gateway = Gateway::start(&data, |_| {}).await;
    let printed = run(&dir, &data, &gateway).await;
    check_account(&printed);
    check_key_usage(&printed);
    check_operation(&printed);
    check_integrity(&printed);
    for (name, stderr) in printed.stderr_outputs() {
        assert!(!stderr.is_empty() && !stderr.contains("panicked"), "{name}: {stderr}");
    }
    gateway.stop().await;
}

/// Checks the trial balance, the plan, the limits and the catalogue.
fn check_account(printed: &Printed) {
    let account = printed.json("whoami.json");
    let known = json!({ "name": "alice", "plan": "free", "balance_usd": "5", "status": "active" });
    for (field, value) in known.as_object().unwrap() {
        assert_eq!(&account[field], value, "{account}");
    }
    let plan = printed.json("plan.json");
    assert_eq!((&plan["name"], &plan["trial_credit_usd"]), (&json!("free"), &json!("5")), "{plan}");
    assert!(printed.json("limits.json").is_array());
    assert!(printed.each("models.json", "id").contains(&json!("sim-chat")));
    let model = printed.json("model.json");
    for field in ["context_window", "max_output_tokens", "rpm", "tpm", "concurrency"] {
        assert!(model.get(field).is_some(), "`{field}` is missing in {model}");
    }
    assert_eq!(printed.each("sessions.json", "current"), [true]);
}

/// Checks the usage, the log, the usage by model, and the rotated and revoked keys.
fn check_key_usage(printed: &Printed) {
    let secrets = ["laptop.key", "successor.key", "spare.key"].map(|name| printed.text(name));
    for secret in &secrets {
        assert!(secret.starts_with("sk-tg-") && secret.lines().count() == 1, "{secret}");
    }
    for turn in ["turn.jsonl", "again.jsonl", "house.jsonl", "restored.jsonl"] {
        assert_eq!(printed.lines(turn).len(), 2, "{turn}");
    }
    let usage = printed.json("usage.json");
    assert_eq!((&usage["totals"]["requests"], &usage["totals"]["errors"]), (&json!(2), &json!(0)));
    assert_eq!(usage["by_model"][0]["model"], "sim-chat");
    assert_eq!(usage["by_key"][0]["label"], "laptop");
    assert!(printed.text("usage.table").contains("sim-chat"));

    let records = printed.lines("requests.jsonl");
    assert_eq!(records.len(), 2, "{records:?}");
    for (field, total) in [("input_tokens", "input_tokens"), ("output_tokens", "output_tokens")] {
        let sum: u64 = records.iter().map(|record| record[field].as_u64().unwrap()).sum();
        assert_eq!(usage["totals"][total], sum, "{usage}");
    }
    assert_eq!(printed.json("request.json"), records[0], "newest first");
    assert_eq!(printed.text("requests.csv").lines().count(), 3, "a header and two records");
    assert_eq!(printed.each("ledger.json", "kind"), ["charge", "charge", "trial"]);

    assert_eq!(printed.each("keys.json", "label"), ["laptop", "laptop"]);
    assert!(printed.each("keys.json", "revoked_at").iter().all(Value::is_string));
    for (name, why) in [
        ("replaced.txt", "invalid_api_key"),
        ("revoked.txt", "invalid_api_key"),
        ("suspended.txt", "account_suspended"),
    ] {
        assert!(printed.text(name).contains(why), "{name}: {}", printed.text(name));
    }
    for (name, stderr) in printed.stderr_outputs() {
        assert!(secrets.iter().all(|secret| !stderr.contains(secret.trim())), "{name}: {stderr}");
    }
}

/// Checks credit, suspension, upstream and model, and the catalogue as a file.
fn check_operation(printed: &Printed) {
    assert_eq!(printed.json("operator.json")["role"], "owner");
    let (before, after) = (&printed.json("ledger.json"), printed.json("credited.json"));
    let charged = before.as_array().unwrap().iter().filter(|entry| entry["kind"] == "charge");
    assert_eq!(charged.count(), 2);
    let balance: f64 = after["balance_usd"].as_str().unwrap().parse().unwrap();
    assert!((7.0..7.5).contains(&balance), "trial and credit, minus four requests: {after}");
    assert!(printed.each("accounts.json", "name").contains(&json!("alice")));

    assert_eq!(printed.each("health.json", "name"), ["local", "simulator"]);
    assert_eq!(printed.each("health.json", "breaker"), ["closed", "closed"]);
    assert!(printed.text("same.txt").contains("no changes"));
    assert_eq!(printed.each("difference.json", "action"), ["add", "add"]);
    assert_eq!(printed.text("restored.toml"), printed.text("catalogue.toml"));
}

/// Checks traffic, audit log, ledger, diagnosis and backup.
fn check_integrity(printed: &Printed) {
    let traffic = printed.json("traffic.json");
    let minutes = traffic["minutes"].as_array().unwrap();
    let ended: u64 = minutes.iter().map(|minute| minute["requests"].as_u64().unwrap()).sum();
    assert!(ended >= 8, "{traffic}");
    let actions = [
        "account.resume",
        "account.suspend",
        "key.create",
        "account.credit",
        "key.revoke",
        "key.rotate",
        "key.create",
        "account.register",
    ];
    let mut changes = printed.each("audit.json", "action");
    changes.retain(|action| action != "session.create");
    assert_eq!(changes, actions);
    assert_eq!(printed.json("proof.json")["ok"], true);
    let found = printed.each("doctor.json", "severity");
    assert!(!found.contains(&json!("problem")), "{}", printed.text("doctor.json"));
    let areas = printed.each("doctor.json", "area");
    for area in ["server", "token", "clock", "database", "ledger", "upstream"] {
        assert!(areas.contains(&json!(area)), "`{area}` was not examined: {areas:?}");
    }
    let copy = std::fs::read(printed.0.join("copy.db")).unwrap();
    assert!(copy.starts_with(b"SQLite format 3\0"));
}
