//! Tests of `ctl quickstart`.

use tonic::Code;

use crate::fake::{FakeGateway, start_api};
use crate::harness::{mode, signed_out};

/// Returns the methods of all calls after the first `skipped` ones.
fn methods(fake: &FakeGateway, skipped: usize) -> Vec<&'static str> {
    fake.calls().iter().skip(skipped).map(|call| call.method).collect()
}

#[tokio::test]
async fn creates_account_session_and_key() {
    let (fake, user) = signed_out().await;
    user.write_operator_token();
    let url = start_api(&["sim-fast", "sim-slow"]).await;
    let line = format!("quickstart --base-url {url}");
    let result = user.ctl(&line).await;
    assert!(result.err.starts_with("registered quickstart-"), "{}", result.err);
    let note = "sim-fast answers, and the code uses it; choose another with `--model ID`\n";
    assert!(result.err.contains(note), "{}", result.err);
    insta::assert_snapshot!(result.ok().replace(&url, "URL"));
    assert_eq!(methods(&fake, 0), ["Register", "SignIn", "ListModels", "CreateKey"]);
    assert!(fake.last().token.unwrap().starts_with("session-of-quickstart-"));
    assert_eq!(mode(&user.profile()), 0o600);
    // The second run uses the session of the first.
    user.ctl(&line).await.ok();
    assert_eq!(methods(&fake, 4), ["WhoAmI", "ListModels", "CreateKey"]);
}

#[tokio::test]
async fn the_base_url_flag_overrides_the_announced_url() {
    let (fake, user) = signed_out().await;
    let (url, other) = (start_api(&["sim-fast"]).await, start_api(&["sim-fast"]).await);
    fake.set_public_url(&url);
    let printed = user.ctl("quickstart -o json").await.ok();
    assert!(printed.contains(&format!(r#""base_url": "{url}""#)), "{printed}");
    let result = user.ctl("agent-config codex").await;
    assert!(result.out.contains(&format!("base_url = \"{url}\"")), "{result:?}");
    assert!(!result.err.contains("assuming that the API"), "it is not a guess: {result:?}");
    let doctor = user.ctl("doctor -o json").await.out;
    assert!(doctor.contains(&url), "{doctor}");
    let printed = user.ctl(&format!("quickstart -o json --base-url {other}")).await.ok();
    assert!(printed.contains(&format!(r#""base_url": "{other}""#)), "{printed}");
}

#[tokio::test]
async fn the_code_uses_the_first_model_that_answers() {
    let (_fake, user) = signed_out().await;
    let url = start_api(&["sim-slow"]).await;
    let result = user.ctl(&format!("quickstart --base-url {url} -o json")).await;
    assert!(result.err.contains("sim-fast does not answer: HTTP 502"), "{}", result.err);
    assert!(result.err.contains("sim-slow answers"), "{}", result.err);
    assert!(result.ok().contains(r#""model": "sim-slow""#));
}

#[tokio::test]
async fn the_given_model_must_exist() {
    let (fake, user) = signed_out().await;
    let url = start_api(&["sim-fast", "fast"]).await;
    let line = format!("quickstart --base-url {url} --model fast");
    assert!(user.ctl(&line).await.ok().contains(r#"model="fast""#));
    fake.refuse("GetModel", Code::NotFound, "model `fast` does not exist");
    let before = fake.calls().len();
    assert_eq!(user.ctl(&line).await.code, 4);
    assert!(!methods(&fake, before).contains(&"CreateKey"), "no key is created");
}

#[tokio::test]
async fn prints_the_key_and_advice_if_no_model_answers() {
    let (_fake, user) = signed_out().await;
    let url = start_api(&[]).await;
    let result = user.ctl(&format!("quickstart --base-url {url}")).await;
    assert_eq!(result.code, 6, "{result:?}");
    assert!(result.out.contains("Bearer sk-tg-9f2c41d0-secret"), "{}", result.out);
    assert!(result.err.contains("`ctl doctor`"), "{}", result.err);
    let result = user.ctl(&format!("quickstart --base-url {url} --model expensive")).await;
    assert_eq!(result.code, 6, "{result:?}");
    let note = "expensive does not answer: HTTP 429: no (insufficient_quota)\n";
    assert!(result.err.contains(note), "{}", result.err);
}

#[tokio::test]
async fn creates_nothing_for_a_wrong_base_url() {
    let (fake, user) = signed_out().await;
    // Nothing listens on port 1.
    let result = user.ctl("quickstart --base-url http://127.0.0.1:1/v1").await;
    assert_eq!((result.code, result.out.as_str()), (6, ""), "{result:?}");
    assert!(result.err.contains("--base-url URL"), "{}", result.err);
    // The server has no API at this path.
    let url = start_api(&["sim-fast"]).await;
    let result = user.ctl(&format!("quickstart --base-url {}", url.trim_end_matches("/v1"))).await;
    assert_eq!((result.code, result.out.as_str()), (2, ""), "{result:?}");
    assert!(result.err.contains("give --base-url http://HOST:PORT/v1"), "{}", result.err);
    assert_eq!(fake.calls().len(), 0);
}

#[tokio::test]
async fn a_missing_token_file_is_only_a_warning() {
    let (fake, mut user) = signed_out().await;
    let missing = user.path("tollgate-demo/operator.token");
    user.environment.token_file = Some(missing.clone());
    let line = format!("quickstart --base-url {}", start_api(&["sim-fast"]).await);
    let result = user.ctl(&line).await;
    assert_eq!(result.code, 0, "{result:?}");
    assert!(result.err.contains(&missing.display().to_string()), "{}", result.err);
    assert!(result.err.contains("unset TOLLGATE_TOKEN_FILE"), "{}", result.err);
    assert_eq!(methods(&fake, 0), ["Register", "SignIn", "ListModels", "CreateKey"]);
    // The second run finds the session of the first and registers no second account.
    assert_eq!(user.ctl(&line).await.code, 0);
    assert_eq!(methods(&fake, 4), ["WhoAmI", "ListModels", "CreateKey"]);
}

#[tokio::test]
async fn creates_no_account_if_the_session_cannot_be_stored() {
    let (fake, user) = signed_out().await;
    let url = start_api(&["sim-fast"]).await;
    for (file, code) in [("nowhere/x.token", 1), ("operator.token", 2)] {
        let file = user.path(file).display().to_string();
        let result = user.ctl(&format!("quickstart --base-url {url} --token-file {file}")).await;
        assert_eq!((result.code, result.out.as_str()), (code, ""), "{result:?}");
        assert!(
            result.err.contains(&file) && result.err.contains("--token-file FILE"),
            "{}",
            result.err
        );
    }
    // Nor if the directory of the profile is a file.
    let config = user.environment.config_dir.as_deref().unwrap();
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(config, "").unwrap();
    let result = user.ctl(&format!("quickstart --base-url {url}")).await;
    assert_eq!((result.code, result.out.as_str()), (1, ""), "{result:?}");
    assert_eq!(fake.calls().len(), 0);
}

#[tokio::test]
async fn signs_in_to_the_named_account() {
    let (fake, user) = signed_out().await;
    let url = start_api(&["sim-fast"]).await;
    let line = format!("quickstart --name bob --password-stdin -o json --base-url {url}/");
    let printed = user.ctl_with(&line, "password").await.ok();
    assert!(printed.contains(&format!(r#""base_url": "{url}""#)), "{printed}");
    assert_eq!(methods(&fake, 0), ["SignIn", "ListModels", "CreateKey"]);
}

#[tokio::test]
async fn password_prompts_require_a_terminal() {
    let (fake, user) = signed_out().await;
    let result =
        user.ctl(&format!("quickstart --name bob --base-url {}", start_api(&[]).await)).await;
    assert_eq!((result.code, fake.calls().len()), (2, 0), "{result:?}");
    assert!(result.err.contains("--password-stdin"), "{}", result.err);
}

#[tokio::test]
async fn registers_a_missing_account_and_refuses_a_wrong_password() {
    let (fake, user) = signed_out().await;
    let line =
        format!("quickstart --name bob --password-stdin --base-url {}", start_api(&[]).await);
    assert_eq!(user.ctl_with(&line, "wrong").await.code, 3);
    assert_eq!(methods(&fake, 0), ["SignIn", "Register", "SignIn"]);
    fake.refuse("Register", Code::AlreadyExists, "there is an account `bob`");
    let result = user.ctl_with(&line, "wrong").await;
    assert_eq!(result.code, 3);
    assert!(result.err.starts_with("error: name or password is wrong\n"), "{}", result.err);
}

#[tokio::test]
async fn closed_registration_advises_to_name_an_account() {
    let (fake, user) = signed_out().await;
    fake.refuse("Register", Code::PermissionDenied, "registration is closed");
    let result = user.ctl(&format!("quickstart --base-url {}", start_api(&[]).await)).await;
    assert_eq!(result.code, 3, "{result:?}");
    assert!(result.err.contains("--name NAME"), "{}", result.err);
}
