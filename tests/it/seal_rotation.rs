//! Rotation of the key of stored secrets, with the real programs. A secret can be used before, during and after it.

use std::path::Path;

use serde_json::{Value, json};
use tests::drill::rig;
use tests::http::Request;
use tests::process::{Gateway, command};
use tests::{PostgresDatabase, RawUpstream, json_answer, question, with_timeout};
use tokio::io::AsyncWriteExt;

const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;

/// A data directory with an upstream that needs a stored secret, and a key for its model `asked`.
struct Setup {
    dir: tempfile::TempDir,
    upstream: RawUpstream,
    key: String,
}

impl Setup {
    /// Stores the secret in a gateway with these arguments, and returns that gateway, too.
    async fn start(arguments: &[&str]) -> (Self, Gateway) {
        let (dir, upstream) = (tempfile::tempdir().unwrap(), RawUpstream::start().await);
        let gateway = start(dir.path(), arguments).await;
        let operator = rig::operator(&gateway, dir.path()).await;
        operator.add_model_on("asked", &[&upstream.url]).await;
        let key = operator.key().await.secret;
        let update = "upstream update up-asked-0 --key-stdin";
        ctl(&gateway, dir.path(), update, "sk-hidden").await.unwrap();
        let setup = Self { dir, upstream, key };
        setup.check(&gateway).await;
        (setup, gateway)
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Checks that a request to the model has the secret.
    async fn check(&self, gateway: &Gateway) {
        let request = Request::post(gateway.http, "/v1/chat/completions").bearer(&self.key);
        let request = request.json(&question("asked", "hi"));
        let answering = self.upstream.answer(json_answer(200, ANSWER));
        let (answer, call) = tokio::join!(request.answer(), answering);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(call.header("authorization"), Some("Bearer sk-hidden"));
    }

    /// Returns the lines of `seal.key`.
    fn keys(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path().join("seal.key")).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn write_keys(&self, keys: &[&str]) {
        std::fs::write(self.path().join("seal.key"), keys.join("\n") + "\n").unwrap();
    }
}

async fn start(dir: &Path, arguments: &[&str]) -> Gateway {
    Gateway::start(dir, |command| _ = command.args(arguments)).await
}

/// Runs `ctl` as operator. Returns its output, or what it says on a failure.
async fn ctl(gateway: &Gateway, dir: &Path, line: &str, input: &str) -> Result<Value, String> {
    let mut command = command("ctl");
    command.args(["--server", &gateway.admin, "-o", "json", "--token-file"]);
    command.arg(dir.join("operator.token")).args(line.split_whitespace());
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    let output = with_timeout("the end of ctl", child.wait_with_output()).await.unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    if !output.status.success() {
        return Err(text);
    }
    Ok(serde_json::from_slice(&output.stdout).unwrap_or(Value::Null))
}

#[tokio::test]
async fn stored_secrets_get_a_new_key_while_the_gateway_serves() {
    let (setup, gateway) = Setup::start(&[]).await;
    let former = setup.keys();
    let database = || std::fs::read(setup.path().join("tollgate.db")).unwrap();
    let rotated = ctl(&gateway, setup.path(), "seal rotate", "").await.unwrap();
    assert_eq!((&rotated["resealed"], &rotated["former_removed"]), (&json!(1), &json!(true)));
    let new = setup.keys();
    assert!(new.len() == 1 && new != former, "{}", new.len());
    setup.check(&gateway).await;
    let log = gateway.stop().await;
    for secret in [&former[0], &new[0], "sk-hidden"] {
        assert!(!log.contains(secret));
        assert!(!database().windows(secret.len()).any(|window| window == secret.as_bytes()));
    }
    let gateway = start(setup.path(), &[]).await;
    setup.check(&gateway).await;
    gateway.stop().await;

    // The former key opens nothing any more.
    setup.write_keys(&[&former[0]]);
    let gateway = start(setup.path(), &[]).await;
    let listed = ctl(&gateway, setup.path(), "upstream list", "").await.unwrap();
    assert!(listed.to_string().contains("does not open"), "{listed}");
    gateway.stop().await;
}

/// A process can be killed after the new key was written, or after the secrets were, but the former key was not removed.
#[tokio::test]
async fn a_rotation_that_was_killed_is_continued() {
    let (setup, gateway) = Setup::start(&[]).await;
    let former = setup.keys().remove(0);
    gateway.kill().await;
    let new = "0123456789abcdef".repeat(4);
    setup.write_keys(&[&new, &former]);
    let gateway = start(setup.path(), &[]).await;
    setup.check(&gateway).await;
    let rotated = ctl(&gateway, setup.path(), "seal rotate", "").await.unwrap();
    assert_eq!(rotated["resealed"], 1);
    assert_eq!(setup.keys(), [new.as_str()], "no third key was made");
    gateway.kill().await;

    setup.write_keys(&[&new, &former]);
    let gateway = start(setup.path(), &[]).await;
    setup.check(&gateway).await;
    assert!(gateway.log().contains("ctl seal rotate"), "{}", gateway.log());
    ctl(&gateway, setup.path(), "seal rotate", "").await.unwrap();
    assert_eq!(setup.keys(), [new.as_str()]);
    gateway.kill().await;
    let gateway = start(setup.path(), &[]).await;
    setup.check(&gateway).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_key_from_a_command_is_rotated_where_it_comes_from() {
    let keys = tempfile::tempdir().unwrap();
    let path = keys.path().join("key");
    let [old, new] = ["00112233", "44556677"].map(|part| part.repeat(8));
    std::fs::write(&path, &old).unwrap();
    let shell = format!("cat '{}'; echo not logged >&2", path.display());
    let arguments = ["--seal-key-command", shell.as_str()];
    let (setup, gateway) = Setup::start(&arguments).await;
    assert!(!setup.path().join("seal.key").exists());

    let refused = ctl(&gateway, setup.path(), "seal rotate", "").await.unwrap_err();
    assert!(refused.contains("`seal_key_command` must have two lines"), "{refused}");
    std::fs::write(&path, format!("{new}\n{old}\n")).unwrap();
    let rotated = ctl(&gateway, setup.path(), "seal rotate", "").await.unwrap();
    assert_eq!((&rotated["resealed"], &rotated["former_removed"]), (&json!(1), &json!(false)));
    setup.check(&gateway).await;
    let log = gateway.stop().await;
    assert!(!log.contains("not logged") && !log.contains(&old) && !log.contains(&new), "{log}");

    std::fs::write(&path, &new).unwrap();
    let gateway = start(setup.path(), &arguments).await;
    setup.check(&gateway).await;
    gateway.stop().await;

    std::fs::write(&path, "no key").unwrap();
    let mut refused = command("gateway");
    refused.arg("--data-dir").arg(setup.path()).args(arguments);
    refused.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    let output = with_timeout("its end", refused.output()).await.unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("`seal_key_command`"), "{text}");
    assert!(!text.contains("no key\n"), "{text}");
}

#[tokio::test]
async fn the_key_of_several_gateways_is_rotated_by_the_only_one() {
    let Some(database) = PostgresDatabase::create("it_seal_rotation").await else { return };
    let store = ["--store", &database.url, "--node-name"];
    let node = |name| [&store[..], &[name]].concat();
    let (setup, gateway) = Setup::start(&node("one")).await;
    let former = setup.keys();
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("seal.key"), &former[0]).unwrap();
    let second = start(other.path(), &node("two")).await;
    let refused = ctl(&gateway, setup.path(), "seal rotate", "").await.unwrap_err();
    assert!(refused.contains("`one`, `two`") && refused.contains("ctl node remove"), "{refused}");
    assert_eq!(setup.keys(), former, "no key was made");
    second.stop().await;
    ctl(&gateway, setup.path(), "node remove two --yes", "").await.unwrap();
    let rotated = ctl(&gateway, setup.path(), "seal rotate", "").await.unwrap();
    assert_eq!(rotated["resealed"], 1);
    setup.check(&gateway).await;

    // A gateway with the former key must not store secrets that the others cannot read.
    let third = tempfile::tempdir().unwrap();
    std::fs::write(third.path().join("seal.key"), &former[0]).unwrap();
    let mut refused = command("gateway");
    refused.arg("--data-dir").arg(third.path()).args(node("three"));
    refused.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    let output = with_timeout("its end", refused.output()).await.unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("is another key"), "{text}");
    gateway.stop().await;
    let gateway = start(setup.path(), &node("one")).await;
    setup.check(&gateway).await;
    gateway.stop().await;
    database.remove().await;
}

#[tokio::test]
async fn a_wrong_key_is_found_by_a_check_and_before_a_take_over() {
    let (setup, gateway) = Setup::start(&[]).await;
    let right = setup.keys().remove(0);
    let check = async || {
        let mut check = command("gateway");
        let output = check.arg("check").arg("--data-dir").arg(setup.path()).output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    let (is_valid, text) = check().await;
    assert!(is_valid && text.contains("the key of its secrets can be used"), "{text}");
    setup.write_keys(&["0123456789abcdef".repeat(4).as_str()]);
    let (is_valid, text) = check().await;
    assert!(!is_valid && text.contains("seal.key") && text.contains("is another key"), "{text}");
    let port = gateway.http.to_string();
    let admin = gateway.admin.replace("http://", "");
    let take_over = ["--take-over", "--listen", &port, "--admin-listen", &admin];
    let text = crate::restart::refusal(command("gateway"), setup.path(), &take_over).await;
    assert!(text.contains("is another key"), "{text}");
    setup.check(&gateway).await;
    setup.write_keys(&[&right]);
    assert!(check().await.0);
    gateway.stop().await;
}
