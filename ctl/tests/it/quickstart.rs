//! `ctl quickstart`

use tonic::Code;

use crate::fake::{Fake, api};
use crate::harness::{mode, stranger};

/// What the fake was asked for, since the first `skipped` calls.
fn methods(fake: &Fake, skipped: usize) -> Vec<&'static str> {
    fake.calls().iter().skip(skipped).map(|call| call.method).collect()
}

#[tokio::test]
async fn it_makes_account_session_and_key() {
    let (fake, person) = stranger().await;
    person.finds_operator_token();
    let url = api(&["sim-fast", "sim-slow"]).await;
    let line = format!("quickstart --base-url {url}");
    let ran = person.ctl(&line).await;
    assert!(ran.err.starts_with("registered quickstart-"), "{}", ran.err);
    let told = "sim-fast answers, and is what the code asks for; `--model ID` takes another\n";
    assert!(ran.err.contains(told), "{}", ran.err);
    insta::assert_snapshot!(ran.ok().replace(&url, "URL"));
    assert_eq!(methods(&fake, 0), ["Register", "SignIn", "ListModels", "CreateKey"]);
    assert!(fake.last().token.unwrap().starts_with("session-of-quickstart-"));
    assert_eq!(mode(&person.profile()), 0o600);
    // The second time it is signed in.
    person.ctl(&line).await.ok();
    assert_eq!(methods(&fake, 4), ["WhoAmI", "ListModels", "CreateKey"]);
}

#[tokio::test]
async fn the_gateway_says_where_its_api_is_and_a_flag_wins() {
    let (fake, person) = stranger().await;
    let (url, other) = (api(&["sim-fast"]).await, api(&["sim-fast"]).await);
    fake.has_api_at(&url);
    let printed = person.ctl("quickstart -o json").await.ok();
    assert!(printed.contains(&format!(r#""base_url": "{url}""#)), "{printed}");
    let ran = person.ctl("agent-config codex").await;
    assert!(ran.out.contains(&format!("base_url = \"{url}\"")), "{ran:?}");
    assert!(!ran.err.contains("taken to be"), "it is no guess: {ran:?}");
    let doctor = person.ctl("doctor -o json").await.out;
    assert!(doctor.contains(&url), "{doctor}");
    let printed = person.ctl(&format!("quickstart -o json --base-url {other}")).await.ok();
    assert!(printed.contains(&format!(r#""base_url": "{other}""#)), "{printed}");
}

#[tokio::test]
async fn the_code_asks_for_the_first_model_that_answers() {
    let (_fake, person) = stranger().await;
    let url = api(&["sim-slow"]).await;
    let ran = person.ctl(&format!("quickstart --base-url {url} -o json")).await;
    assert!(ran.err.contains("sim-fast does not answer: HTTP 502"), "{}", ran.err);
    assert!(ran.err.contains("sim-slow answers"), "{}", ran.err);
    assert!(ran.ok().contains(r#""model": "sim-slow""#));
}

#[tokio::test]
async fn a_model_can_be_named_and_must_be_there() {
    let (fake, person) = stranger().await;
    let url = api(&["sim-fast", "fast"]).await;
    let line = format!("quickstart --base-url {url} --model fast");
    assert!(person.ctl(&line).await.ok().contains(r#"model="fast""#));
    fake.refuse("GetModel", Code::NotFound, "model `fast` does not exist");
    let before = fake.calls().len();
    assert_eq!(person.ctl(&line).await.code, 4);
    assert!(!methods(&fake, before).contains(&"CreateKey"), "no key is made for nothing");
}

#[tokio::test]
async fn where_no_model_answers_the_key_is_shown_all_the_same_and_what_to_do() {
    let (_fake, person) = stranger().await;
    let url = api(&[]).await;
    let ran = person.ctl(&format!("quickstart --base-url {url}")).await;
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.out.contains("Bearer sk-tg-9f2c41d0-secret"), "{}", ran.out);
    assert!(ran.err.contains("`ctl doctor`"), "{}", ran.err);
    let ran = person.ctl(&format!("quickstart --base-url {url} --model dear")).await;
    assert_eq!(ran.code, 6, "{ran:?}");
    let why = "dear does not answer: HTTP 429: no (insufficient_quota)\n";
    assert!(ran.err.contains(why), "another might: {}", ran.err);
}

#[tokio::test]
async fn nothing_is_made_for_an_api_that_is_elsewhere() {
    let (fake, person) = stranger().await;
    // port 1 of the loopback is nobody's
    let ran = person.ctl("quickstart --base-url http://127.0.0.1:1/v1").await;
    assert_eq!((ran.code, ran.out.as_str()), (6, ""), "{ran:?}");
    assert!(ran.err.contains("--base-url URL"), "{}", ran.err);
    // somebody answers, but not there
    let url = api(&["sim-fast"]).await;
    let ran = person.ctl(&format!("quickstart --base-url {}", url.trim_end_matches("/v1"))).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    assert!(ran.err.contains("give --base-url http://HOST:PORT/v1"), "{}", ran.err);
    assert_eq!(fake.calls().len(), 0);
}

#[tokio::test]
async fn a_token_file_that_is_gone_is_reported_and_does_not_stop_it() {
    let (fake, mut person) = stranger().await;
    let gone = person.path("tollgate-demo/operator.token");
    person.environment.token_file = Some(gone.clone());
    let line = format!("quickstart --base-url {}", api(&["sim-fast"]).await);
    let ran = person.ctl(&line).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains(&gone.display().to_string()), "{}", ran.err);
    assert!(ran.err.contains("unset TOLLGATE_TOKEN_FILE"), "{}", ran.err);
    assert_eq!(methods(&fake, 0), ["Register", "SignIn", "ListModels", "CreateKey"]);
    // The session of the first run is found, so that no second account is made.
    assert_eq!(person.ctl(&line).await.code, 0);
    assert_eq!(methods(&fake, 4), ["WhoAmI", "ListModels", "CreateKey"]);
}

#[tokio::test]
async fn no_account_is_made_where_its_session_cannot_be_kept() {
    let (fake, person) = stranger().await;
    let url = api(&["sim-fast"]).await;
    for (file, code) in [("nowhere/x.token", 1), ("operator.token", 2)] {
        let file = person.path(file).display().to_string();
        let ran = person.ctl(&format!("quickstart --base-url {url} --token-file {file}")).await;
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{ran:?}");
        assert!(ran.err.contains(&file) && ran.err.contains("--token-file FILE"), "{}", ran.err);
    }
    // Neither can a profile whose directory is a file.
    let config = person.environment.config_dir.as_deref().unwrap();
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(config, "").unwrap();
    let ran = person.ctl(&format!("quickstart --base-url {url}")).await;
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
    assert_eq!(fake.calls().len(), 0);
}

#[tokio::test]
async fn it_signs_in_or_registers_the_named_account() {
    let (fake, person) = stranger().await;
    let url = api(&["sim-fast"]).await;
    let line = format!("quickstart --name bob --password-stdin -o json --base-url {url}/");
    let printed = person.ctl_with(&line, "password").await.ok();
    assert!(printed.contains(&format!(r#""base_url": "{url}""#)), "{printed}");
    assert_eq!(methods(&fake, 0), ["SignIn", "ListModels", "CreateKey"]);
}

#[tokio::test]
async fn a_password_is_never_waited_for_without_a_terminal() {
    let (fake, person) = stranger().await;
    let ran = person.ctl(&format!("quickstart --name bob --base-url {}", api(&[]).await)).await;
    assert_eq!((ran.code, fake.calls().len()), (2, 0), "{ran:?}");
    assert!(ran.err.contains("--password-stdin"), "{}", ran.err);
}

#[tokio::test]
async fn it_registers_who_is_not_there_and_refuses_a_wrong_password() {
    let (fake, person) = stranger().await;
    let line = format!("quickstart --name bob --password-stdin --base-url {}", api(&[]).await);
    assert_eq!(person.ctl_with(&line, "wrong").await.code, 3);
    assert_eq!(methods(&fake, 0), ["SignIn", "Register", "SignIn"]);
    fake.refuse("Register", Code::AlreadyExists, "there is an account `bob`");
    let ran = person.ctl_with(&line, "wrong").await;
    assert_eq!(ran.code, 3);
    assert!(ran.err.starts_with("error: name or password is wrong\n"), "{}", ran.err);
}

#[tokio::test]
async fn who_may_not_register_is_told_how_else_to_start() {
    let (fake, person) = stranger().await;
    fake.refuse("Register", Code::PermissionDenied, "registration is closed");
    let ran = person.ctl(&format!("quickstart --base-url {}", api(&[]).await)).await;
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.err.contains("--name NAME"), "{}", ran.err);
}
