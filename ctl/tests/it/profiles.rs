//! The selection of gateway and token, and the profile file.

use std::process::Command;

use crate::fake::FakeGateway;
use crate::harness::{TestUser, mode, signed_out};

async fn sign_in(user: &TestUser, line: &str) {
    user.ctl_with(&format!("{line} --password-stdin"), "password\n").await.ok();
}

#[tokio::test]
async fn login_stores_server_and_session_in_the_profile() {
    let fake = FakeGateway::start().await;
    let user = TestUser::new();
    sign_in(&user, &format!("--server {} login alice", fake.server)).await;
    assert_eq!(fake.last().token, None);
    assert_eq!(mode(&user.profile()), 0o600);
    assert_eq!(mode(user.profile().parent().unwrap()), 0o700);
    user.ctl(&format!("--server {}/ key create ci --quiet", fake.server)).await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("session-of-alice"));
    // The server of the last sign-in is the default.
    user.ctl("whoami").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("session-of-alice"));
}

#[tokio::test]
async fn a_session_is_sent_only_to_its_own_server() {
    let (here, there) = (FakeGateway::start().await, FakeGateway::start().await);
    let user = TestUser::new();
    sign_in(&user, &format!("--server {} login alice", here.server)).await;
    let result = user.ctl(&format!("--server {} whoami", there.server)).await;
    assert_eq!(result.code, 3);
    assert_eq!(there.last().token, None);
    sign_in(&user, &format!("--server {} login bob", there.server)).await;
    for (fake, token) in [(&here, "session-of-alice"), (&there, "session-of-bob")] {
        user.ctl(&format!("--server {} whoami", fake.server)).await.ok();
        assert_eq!(fake.last().token.as_deref(), Some(token));
    }
}

#[tokio::test]
async fn token_sources_have_a_precedence() {
    let (fake, mut user) = signed_out().await;
    let file = |name: &str| {
        let path = user.path(name);
        std::fs::write(&path, format!("{name}\n")).unwrap();
        path
    };
    let (flag, variable) = (file("from-flag"), file("from-variable-file"));
    let line = format!("--token-file {} whoami", flag.display());

    assert_eq!(user.ctl("whoami").await.code, 3);
    assert_eq!(fake.last().token, None);
    user.write_operator_token();
    user.ctl("whoami").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("operator-token"));
    sign_in(&user, "login alice").await;
    user.ctl("whoami").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("session-of-alice"));
    user.environment.token_file = Some(variable);
    user.ctl("whoami").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("from-variable-file"));
    user.environment.token = Some("from-variable".into());
    user.ctl("whoami").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("from-variable"));
    user.ctl(&line).await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("from-flag"));
}

#[test]
fn server_sources_have_a_precedence() {
    let mut user = TestUser::new();
    let server =
        |user: &TestUser, flag| user.environment.resolve(flag, None).map(|it| it.server).unwrap();
    assert_eq!(server(&user, None), "http://127.0.0.1:8081");
    user.environment.save_session("http://profile:1", "alice", &"token".into()).unwrap();
    assert_eq!(server(&user, None), "http://profile:1");
    user.environment.server = Some("http://variable:1".to_owned());
    assert_eq!(server(&user, None), "http://variable:1");
    assert_eq!(server(&user, Some("https://flag:1/")), "https://flag:1");
}

#[test]
fn the_operator_token_is_sent_only_to_this_host() {
    let user = TestUser::new();
    user.write_operator_token();
    for (server, found) in [
        ("http://127.0.0.1:8081", true),
        ("http://localhost:9", true),
        ("unix:/run/tollgate.sock", true),
        ("http://10.0.0.1:8081", false),
        ("https://gate.example", false),
    ] {
        let endpoint = user.environment.resolve(Some(server), None).unwrap();
        assert_eq!(endpoint.token.is_some(), found, "{server}");
    }
}

#[tokio::test]
async fn login_writes_the_token_file_instead_of_the_profile() {
    let (fake, user) = signed_out().await;
    let file = user.path("alice.token");
    let flag = format!("--token-file {}", file.display());
    std::fs::write(&file, "world-readable").unwrap();
    sign_in(&user, &format!("login alice {flag}")).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "session-of-alice\n");
    assert_eq!(mode(&file), 0o600);
    assert!(!user.profile().exists());
    user.ctl(&format!("whoami {flag}")).await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("session-of-alice"));
    user.ctl(&format!("logout {flag}")).await.ok();
    assert_eq!(fake.last().method, "SignOut");
    assert!(!file.exists());
    let result = user.ctl(&format!("whoami {flag}")).await;
    assert_eq!(result.code, 3);
    assert!(result.err.contains("`ctl login NAME --token-file "), "{}", result.err);
}

#[tokio::test]
async fn login_uses_the_profile_if_the_token_file_variable_is_stale() {
    let (fake, mut user) = signed_out().await;
    let missing = user.path("tollgate-demo/operator.token");
    user.environment.token_file = Some(missing.clone());
    let result = user.ctl("whoami").await;
    assert_eq!((result.code, fake.calls().len()), (3, 0), "no silent fallback to another token");
    assert!(result.err.contains("unset TOLLGATE_TOKEN_FILE"), "{}", result.err);
    for line in ["register alice", "login alice"] {
        let result = user.ctl_with(&format!("{line} --password-stdin"), "password\n").await;
        assert_eq!(result.code, 0, "{result:?}");
        assert!(result.err.contains(&missing.display().to_string()), "{}", result.err);
    }
    assert!(!missing.exists());
    user.environment.token_file = None;
    user.ctl("whoami").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("session-of-alice"));
}

#[tokio::test]
async fn login_opens_no_session_that_cannot_be_stored() {
    let (fake, mut user) = signed_out().await;
    let line = "login alice --password-stdin --token-file";
    for file in ["nowhere/x.token", "operator.token"] {
        let line = format!("{line} {}", user.path(file).display());
        assert_ne!(user.ctl_with(&line, "password").await.code, 0, "{file}");
    }
    user.environment.config_dir = None;
    let result = user.ctl_with("login alice --password-stdin", "password").await;
    assert_eq!((result.code, fake.calls().len()), (1, 0), "{result:?}");
}

#[tokio::test]
async fn login_and_logout_do_not_touch_the_operator_token() {
    let (fake, user) = signed_out().await;
    let file = user.path("operator.token");
    std::fs::write(&file, "operator-token\n").unwrap();
    let flag = format!("--token-file {}", file.display());
    let result = user.ctl_with(&format!("login alice --password-stdin {flag}"), "password").await;
    assert_eq!(result.code, 2);
    assert_eq!(user.ctl(&format!("logout {flag}")).await.code, 3);
    user.write_operator_token();
    assert_eq!(user.ctl("logout").await.code, 3);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "operator-token\n");
    assert!(fake.calls().iter().all(|call| call.method != "SignOut"));
}

#[tokio::test]
async fn logout_removes_an_expired_session() {
    let (fake, user) = signed_out().await;
    user.environment.save_session(&fake.server, "alice", &"stale".into()).unwrap();
    user.ctl("logout").await.ok();
    assert!(!std::fs::read_to_string(user.profile()).unwrap().contains("stale"));
    assert_eq!(user.ctl("logout").await.code, 3);
}

#[tokio::test]
async fn a_parse_error_of_the_profile_does_not_leak_its_content() {
    let (fake, user) = signed_out().await;
    user.environment.save_session(&fake.server, "alice", &"secret-token".into()).unwrap();
    let text = std::fs::read_to_string(user.profile()).unwrap();
    std::fs::write(user.profile(), text.replace("secret-token\"", "secret-token")).unwrap();
    let result = user.ctl("whoami").await;
    assert_eq!(result.code, 1);
    assert!(!result.err.contains("secret-token"), "{}", result.err);
}

#[tokio::test]
async fn a_token_works_without_a_home_directory() {
    let (fake, mut user) = signed_out().await;
    user.environment.config_dir = None;
    user.environment.data_dir = None;
    let result = user.ctl_with("login alice --password-stdin", "password").await;
    assert_eq!(result.code, 1);
    assert!(result.err.contains("--token-file"), "{}", result.err);
    user.environment.token = Some("token".into());
    user.ctl("whoami").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("token"));
}

#[tokio::test]
async fn a_profile_selects_a_gateway() {
    let (here, there) = (FakeGateway::start().await, FakeGateway::start().await);
    let mut user = TestUser::new();
    for (name, fake) in [("here", &here), ("there", &there)] {
        user.ctl(&format!("profile set {name} --server {}", fake.server)).await.ok();
    }
    assert_eq!(mode(&user.profile()), 0o600);
    user.environment.token = Some("token".into());
    user.ctl("whoami --gateway there").await.ok();
    assert_eq!((here.calls().len(), there.calls().len()), (0, 1));
    user.ctl("profile use here").await.ok();
    user.ctl("whoami").await.ok();
    assert_eq!((here.calls().len(), there.calls().len()), (1, 1));
    // The environment takes precedence over the profile file, and a flag over the environment.
    user.environment.profile = Some("there".to_owned());
    user.ctl("whoami").await.ok();
    user.ctl(&format!("whoami --server {}", here.server)).await.ok();
    assert_eq!((here.calls().len(), there.calls().len()), (2, 2));
    assert_eq!(user.ctl("whoami --gateway nowhere").await.code, 4);
    assert_eq!(user.ctl(&format!("whoami --gateway here --server {}", here.server)).await.code, 2);
}

#[tokio::test]
async fn profiles_are_listed_shown_and_removed_without_their_tokens() {
    let (fake, user) = signed_out().await;
    sign_in(&user, "login alice").await;
    user.ctl(&format!("profile set mine --server {}", fake.server)).await.ok();
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let ca = user.path("ca.pem");
    std::fs::write(&ca, issued.cert.pem()).unwrap();
    let ca = ca.display().to_string();
    user.ctl(&format!("profile set far --server https://Gate.example:8081/ --ca-file {ca}"))
        .await
        .ok();
    for line in ["profile list", "profile show", "profile show far -o json"] {
        let printed = user.ctl(line).await.ok();
        assert!(!printed.contains("session-of"), "{printed}");
        insta::assert_snapshot!(
            line.replace([' ', '-'], "_"),
            printed.replace(&fake.server, "HERE").replace(&ca, "/etc/ca.pem")
        );
    }
    assert_eq!(user.ctl("profile list -q").await.ok(), "far\nmine\n");
    user.ctl("profile use far").await.ok();
    user.ctl("profile remove far").await.ok();
    let selected = user.ctl("profile show").await.ok();
    assert!(!selected.contains("gate.example"), "it is no longer the default: {selected}");
    assert_eq!(user.ctl("profile show far").await.code, 4);
    assert_eq!(user.ctl("profile remove far").await.code, 4);
    assert_eq!(user.ctl("profile use far").await.code, 4);
    assert_eq!(user.ctl("profile set far").await.code, 2, "--server is required");
    assert_eq!(user.ctl("profile set far --server gate.example").await.code, 2);
}

#[tokio::test]
async fn a_profile_names_only_files_that_can_be_used() {
    let user = TestUser::new();
    let wrong = user.path("wrong.pem");
    std::fs::write(&wrong, "no certificate").unwrap();
    let wrong = wrong.display().to_string();
    for option in ["--ca-file", "--identity-file"] {
        for file in ["missing.pem", &wrong] {
            let line = format!("profile set far --server https://gate.example {option} {file}");
            let result = user.ctl(&line).await;
            assert_eq!(result.code, 1, "{line}: {result:?}");
            assert!(result.err.contains(file) && result.err.contains(option), "{result:?}");
        }
    }
    assert_eq!(user.ctl("profile list -q").await.ok(), "");
}

#[tokio::test]
async fn a_private_certificate_requires_its_ca_file() {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let fake =
        FakeGateway::start_tls(&issued.cert.pem(), &issued.signing_key.serialize_pem()).await;
    let mut user = TestUser::new();
    user.environment.token = Some("token".into());
    let ca = user.path("ca.pem");
    std::fs::write(&ca, issued.cert.pem()).unwrap();
    let server = &fake.server;
    let result = user.ctl(&format!("whoami --server {server}")).await;
    assert_eq!((result.code, fake.calls().len()), (6, 0), "{result:?}");
    assert!(result.err.contains("--ca-file"), "{result:?}");
    user.ctl(&format!("whoami --server {server} --ca-file {}", ca.display())).await.ok();
    user.ctl(&format!("profile set tls --server {server} --ca-file {}", ca.display())).await.ok();
    user.ctl("whoami --gateway tls").await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("token"));
    let result = user.ctl(&format!("whoami --server {server} --ca-file missing.pem")).await;
    assert!(result.code == 1 && result.err.contains("missing.pem"), "{result:?}");
    assert!(result.err.contains("(PEM) with --ca-file"), "{result:?}");
}

#[tokio::test]
async fn a_unix_socket_counts_as_this_host() {
    let user = TestUser::new();
    user.write_operator_token();
    let fake = FakeGateway::start_unix(&user.path("admin.sock"));
    user.ctl(&format!("whoami --server {}", fake.server)).await.ok();
    assert_eq!(fake.last().token.as_deref(), Some("operator-token"));
}

/// Runs the real binary with only the variables that a script would set.
#[tokio::test(flavor = "multi_thread")]
async fn the_binary_reads_its_environment() {
    let fake = FakeGateway::start().await;
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
