//! Which gateway is meant and who asks; what is kept, and how.

use std::process::Command;

use crate::fake::Fake;
use crate::harness::{Person, mode, stranger};

async fn sign_in(person: &Person, line: &str) {
    person.ctl_with(&format!("{line} --password-stdin"), "password\n").await.ok();
}

#[tokio::test]
async fn login_keeps_server_and_session_for_later_commands() {
    let fake = Fake::start().await;
    let person = Person::new();
    sign_in(&person, &format!("--server {} login alice", fake.server)).await;
    assert_eq!(fake.last().token, None);
    assert_eq!(mode(&person.profile()), 0o600);
    assert_eq!(mode(person.profile().parent().unwrap()), 0o700);
    person.ctl(&format!("--server {}/ key create ci --quiet", fake.server)).await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("session-of-alice"));
    // The server that was signed in to is the one that is meant when none is named.
    person.ctl("whoami").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("session-of-alice"));
}

#[tokio::test]
async fn a_session_goes_only_to_the_server_that_gave_it() {
    let (here, there) = (Fake::start().await, Fake::start().await);
    let person = Person::new();
    sign_in(&person, &format!("--server {} login alice", here.server)).await;
    let ran = person.ctl(&format!("--server {} whoami", there.server)).await;
    assert_eq!(ran.code, 3);
    assert_eq!(there.last().token, None);
    sign_in(&person, &format!("--server {} login bob", there.server)).await;
    for (fake, token) in [(&here, "session-of-alice"), (&there, "session-of-bob")] {
        person.ctl(&format!("--server {} whoami", fake.server)).await.ok();
        assert_eq!(fake.last().token.as_deref(), Some(token));
    }
}

#[tokio::test]
async fn tokens_have_an_order() {
    let (fake, mut person) = stranger().await;
    let file = |name: &str| {
        let path = person.path(name);
        std::fs::write(&path, format!("{name}\n")).unwrap();
        path
    };
    let (flag, variable) = (file("from-flag"), file("from-variable-file"));
    let line = format!("--token-file {} whoami", flag.display());

    assert_eq!(person.ctl("whoami").await.code, 3);
    assert_eq!(fake.last().token, None);
    person.finds_operator_token();
    person.ctl("whoami").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("operator-token"));
    sign_in(&person, "login alice").await;
    person.ctl("whoami").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("session-of-alice"));
    person.environment.token_file = Some(variable);
    person.ctl("whoami").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("from-variable-file"));
    person.environment.token = Some("from-variable".into());
    person.ctl("whoami").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("from-variable"));
    person.ctl(&line).await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("from-flag"));
}

#[test]
fn servers_have_an_order() {
    let mut person = Person::new();
    let server =
        |person: &Person, flag| person.environment.resolve(flag, None).map(|it| it.server).unwrap();
    assert_eq!(server(&person, None), "http://127.0.0.1:8081");
    person.environment.remember("http://profile:1", "alice", &"token".into()).unwrap();
    assert_eq!(server(&person, None), "http://profile:1");
    person.environment.server = Some("http://variable:1".to_owned());
    assert_eq!(server(&person, None), "http://variable:1");
    assert_eq!(server(&person, Some("https://flag:1/")), "https://flag:1");
}

#[test]
fn the_operator_token_stays_on_this_host() {
    let person = Person::new();
    person.finds_operator_token();
    for (server, found) in [
        ("http://127.0.0.1:8081", true),
        ("http://localhost:9", true),
        ("unix:/run/tollgate.sock", true),
        ("http://10.0.0.1:8081", false),
        ("https://gate.example", false),
    ] {
        let endpoint = person.environment.resolve(Some(server), None).unwrap();
        assert_eq!(endpoint.token.is_some(), found, "{server}");
    }
}

#[tokio::test]
async fn login_writes_the_token_file_instead_of_the_profile() {
    let (fake, person) = stranger().await;
    let file = person.path("alice.token");
    let flag = format!("--token-file {}", file.display());
    std::fs::write(&file, "world-readable").unwrap();
    sign_in(&person, &format!("login alice {flag}")).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "session-of-alice\n");
    assert_eq!(mode(&file), 0o600);
    assert!(!person.profile().exists());
    person.ctl(&format!("whoami {flag}")).await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("session-of-alice"));
    person.ctl(&format!("logout {flag}")).await.ok();
    assert_eq!(fake.last().method, "SignOut");
    assert!(!file.exists());
    let ran = person.ctl(&format!("whoami {flag}")).await;
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("`ctl login NAME --token-file "), "{}", ran.err);
}

#[tokio::test]
async fn login_keeps_the_session_in_the_profile_where_the_variables_token_file_is_gone() {
    let (fake, mut person) = stranger().await;
    let gone = person.path("tollgate-demo/operator.token");
    person.environment.token_file = Some(gone.clone());
    let ran = person.ctl("whoami").await;
    assert_eq!((ran.code, fake.calls().len()), (3, 0), "another identity is not taken silently");
    assert!(ran.err.contains("unset TOLLGATE_TOKEN_FILE"), "{}", ran.err);
    for line in ["register alice", "login alice"] {
        let ran = person.ctl_with(&format!("{line} --password-stdin"), "password\n").await;
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains(&gone.display().to_string()), "{}", ran.err);
    }
    assert!(!gone.exists());
    person.environment.token_file = None;
    person.ctl("whoami").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("session-of-alice"));
}

#[tokio::test]
async fn login_opens_no_session_that_cannot_be_kept() {
    let (fake, mut person) = stranger().await;
    let line = "login alice --password-stdin --token-file";
    for file in ["nowhere/x.token", "operator.token"] {
        let line = format!("{line} {}", person.path(file).display());
        assert_ne!(person.ctl_with(&line, "password").await.code, 0, "{file}");
    }
    person.environment.config_dir = None;
    let ran = person.ctl_with("login alice --password-stdin", "password").await;
    assert_eq!((ran.code, fake.calls().len()), (1, 0), "{ran:?}");
}

#[tokio::test]
async fn login_and_logout_spare_the_operator_token() {
    let (fake, person) = stranger().await;
    let file = person.path("operator.token");
    std::fs::write(&file, "operator-token\n").unwrap();
    let flag = format!("--token-file {}", file.display());
    let ran = person.ctl_with(&format!("login alice --password-stdin {flag}"), "password").await;
    assert_eq!(ran.code, 2);
    assert_eq!(person.ctl(&format!("logout {flag}")).await.code, 3);
    person.finds_operator_token();
    assert_eq!(person.ctl("logout").await.code, 3);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "operator-token\n");
    assert!(fake.calls().iter().all(|call| call.method != "SignOut"));
}

#[tokio::test]
async fn logout_forgets_a_session_that_has_ended_by_itself() {
    let (fake, person) = stranger().await;
    person.environment.remember(&fake.server, "alice", &"stale".into()).unwrap();
    person.ctl("logout").await.ok();
    assert!(!std::fs::read_to_string(person.profile()).unwrap().contains("stale"));
    assert_eq!(person.ctl("logout").await.code, 3);
}

#[tokio::test]
async fn a_broken_profile_is_reported_without_its_content() {
    let (fake, person) = stranger().await;
    person.environment.remember(&fake.server, "alice", &"secret-token".into()).unwrap();
    let text = std::fs::read_to_string(person.profile()).unwrap();
    std::fs::write(person.profile(), text.replace("secret-token\"", "secret-token")).unwrap();
    let ran = person.ctl("whoami").await;
    assert_eq!(ran.code, 1);
    assert!(!ran.err.contains("secret-token"), "{}", ran.err);
}

#[tokio::test]
async fn without_a_home_a_token_still_works() {
    let (fake, mut person) = stranger().await;
    person.environment.config_dir = None;
    person.environment.data_dir = None;
    let ran = person.ctl_with("login alice --password-stdin", "password").await;
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("--token-file"), "{}", ran.err);
    person.environment.token = Some("token".into());
    person.ctl("whoami").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("token"));
}

#[tokio::test]
async fn a_profile_names_a_gateway() {
    let (here, there) = (Fake::start().await, Fake::start().await);
    let mut person = Person::new();
    for (name, fake) in [("here", &here), ("there", &there)] {
        person.ctl(&format!("profile set {name} --server {}", fake.server)).await.ok();
    }
    assert_eq!(mode(&person.profile()), 0o600);
    person.environment.token = Some("token".into());
    person.ctl("whoami --gateway there").await.ok();
    assert_eq!((here.calls().len(), there.calls().len()), (0, 1));
    person.ctl("profile use here").await.ok();
    person.ctl("whoami").await.ok();
    assert_eq!((here.calls().len(), there.calls().len()), (1, 1));
    // The environment wins over what is kept, a flag over the environment.
    person.environment.profile = Some("there".to_owned());
    person.ctl("whoami").await.ok();
    person.ctl(&format!("whoami --server {}", here.server)).await.ok();
    assert_eq!((here.calls().len(), there.calls().len()), (2, 2));
    assert_eq!(person.ctl("whoami --gateway nowhere").await.code, 4);
    assert_eq!(
        person.ctl(&format!("whoami --gateway here --server {}", here.server)).await.code,
        2
    );
}

#[tokio::test]
async fn profiles_are_listed_shown_and_removed_without_their_tokens() {
    let (fake, person) = stranger().await;
    sign_in(&person, "login alice").await;
    person.ctl(&format!("profile set mine --server {}", fake.server)).await.ok();
    person
        .ctl("profile set far --server https://Gate.example:8081/ --ca-file /etc/ca.pem")
        .await
        .ok();
    for line in ["profile list", "profile show", "profile show far -o json"] {
        let printed = person.ctl(line).await.ok();
        assert!(!printed.contains("session-of"), "{printed}");
        insta::assert_snapshot!(
            line.replace([' ', '-'], "_"),
            printed.replace(&fake.server, "HERE")
        );
    }
    assert_eq!(person.ctl("profile list -q").await.ok(), "far\nmine\n");
    person.ctl("profile use far").await.ok();
    person.ctl("profile remove far").await.ok();
    let meant = person.ctl("profile show").await.ok();
    assert!(!meant.contains("gate.example"), "nothing leads there any more: {meant}");
    assert_eq!(person.ctl("profile show far").await.code, 4);
    assert_eq!(person.ctl("profile remove far").await.code, 4);
    assert_eq!(person.ctl("profile use far").await.code, 4);
    assert_eq!(person.ctl("profile set far").await.code, 2, "it takes --server");
    assert_eq!(person.ctl("profile set far --server gate.example").await.code, 2);
}

#[tokio::test]
async fn a_private_certificate_is_trusted_only_with_its_authority() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let fake = Fake::start_tls(&made.cert.pem(), &made.signing_key.serialize_pem()).await;
    let mut person = Person::new();
    person.environment.token = Some("token".into());
    let ca = person.path("ca.pem");
    std::fs::write(&ca, made.cert.pem()).unwrap();
    let server = &fake.server;
    let ran = person.ctl(&format!("whoami --server {server}")).await;
    assert_eq!((ran.code, fake.calls().len()), (6, 0), "{ran:?}");
    assert!(ran.err.contains("--ca-file"), "{ran:?}");
    person.ctl(&format!("whoami --server {server} --ca-file {}", ca.display())).await.ok();
    person.ctl(&format!("profile set tls --server {server} --ca-file {}", ca.display())).await.ok();
    person.ctl("whoami --gateway tls").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("token"));
    let ran = person.ctl(&format!("whoami --server {server} --ca-file missing.pem")).await;
    assert!(ran.code == 1 && ran.err.contains("missing.pem"), "{ran:?}");
    assert!(ran.err.contains("(PEM) with --ca-file"), "{ran:?}");
}

#[tokio::test]
async fn a_unix_socket_is_a_gateway_of_this_host() {
    let person = Person::new();
    person.finds_operator_token();
    let fake = Fake::start_unix(&person.path("admin.sock"));
    person.ctl(&format!("whoami --server {}", fake.server)).await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("operator-token"));
}

/// The binary itself, with nothing but the variables that a script would set.
#[tokio::test(flavor = "multi_thread")]
async fn the_binary_reads_its_environment() {
    let fake = Fake::start().await;
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("config");
    let ctl = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctl"));
        command
            .args(args)
            .env_clear()
            .env("HOME", home.path())
            .env("XDG_CONFIG_HOME", &config)
            .env("TOLLGATE_SERVER", &fake.server);
        command
    };
    let password = home.path().join("password");
    std::fs::write(&password, "password\n").unwrap();
    let status = ctl(&["login", "alice", "--password-stdin"])
        .stdin(std::fs::File::open(&password).unwrap())
        .output()
        .unwrap()
        .status;
    assert!(status.success());
    assert_eq!(mode(&config.join("tollgate/profile.toml")), 0o600);
    let output = ctl(&["key", "create", "ci", "--quiet"]).output().unwrap();
    assert_eq!(output.stdout, b"sk-tg-9f2c41d0-secret\n");
    assert_eq!(fake.last().token.as_deref(), Some("session-of-alice"));
    assert!(ctl(&["whoami"]).env("TOLLGATE_TOKEN", "other").output().unwrap().status.success());
    assert_eq!(fake.last().token.as_deref(), Some("other"));
}
