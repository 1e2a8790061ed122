//! The operator token of real gateways: rotation, and the way back after it was disabled. The test of several
//! gateways passes without a server in `TOLLGATE_TEST_POSTGRES`, and says so.

use std::path::Path;
use std::process::Output;

use proto::v1;
use tests::process::{self, Gateway};
use tests::{GatewayFleet, Session, with_timeout};
use tokio::process::Command;
use tonic::Code;

async fn ctl(gateway: &Gateway, token: &Path, line: &str) -> Output {
    let mut ctl = process::command("ctl");
    ctl.args(line.split(' ')).args(["--server", &gateway.admin]);
    ctl.arg("--token-file").arg(token);
    with_timeout("ctl", ctl.output()).await.unwrap()
}

async fn enable(data: &Path, configure: impl FnOnce(&mut Command)) -> String {
    let mut gateway = process::command("gateway");
    gateway.args(["operator-token", "enable", "--data-dir"]).arg(data);
    configure(&mut gateway);
    let output = with_timeout("the command", gateway.output()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Makes `name` an owner and returns its session.
async fn owner(gateway: &Gateway, operator: &Session, name: &str) -> Session {
    let password = format!("correct horse battery {name}");
    let session = Session::register(&gateway.admin, name, &password).await;
    let request = v1::GrantRoleRequest { account: name.into(), role: v1::Role::Owner.into() };
    operator.accounts().grant_role(request).await.unwrap();
    session
}

async fn whoami(session: &Session) -> Result<String, Code> {
    let answer = session.accounts().who_am_i(v1::WhoAmIRequest {}).await;
    answer.map(|it| it.into_inner().account.unwrap().name).map_err(|status| status.code())
}

#[tokio::test]
async fn a_rotated_token_is_in_its_file_and_a_disabled_one_is_enabled_on_the_host() {
    let home = tempfile::tempdir().unwrap();
    let (data, old) = (home.path().join("data"), home.path().join("old.token"));
    let gateway = Gateway::start(&data, |_| {}).await;
    let token = data.join("operator.token");
    std::fs::copy(&token, &old).unwrap();
    let refused = ctl(&gateway, &token, "operator-token disable").await;
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    let rotated = ctl(&gateway, &token, "operator-token rotate --quiet").await;
    assert!(rotated.status.success(), "{rotated:?}");
    assert_eq!(String::from_utf8(rotated.stdout).unwrap().trim(), token.display().to_string());
    assert_eq!(ctl(&gateway, &old, "whoami").await.status.code(), Some(3));
    assert_eq!(ctl(&gateway, &token, "whoami").await.status.code(), Some(0));

    let text = std::fs::read_to_string(&token).unwrap();
    let operator = Session::with_token(&gateway.admin, "operator", text.trim()).await;
    owner(&gateway, &operator, "alice").await;
    let disabled = ctl(&gateway, &token, "operator-token disable").await;
    assert!(disabled.status.success(), "{disabled:?}");
    let refused = ctl(&gateway, &token, "whoami").await;
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("gateway operator-token enable"));

    gateway.stop().await;
    let printed = enable(&data, |_| {}).await;
    assert!(printed.contains(&token.display().to_string()), "{printed}");
    let gateway = Gateway::start(&data, |_| {}).await;
    assert_eq!(ctl(&gateway, &token, "whoami").await.status.code(), Some(0));
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_or_disabled_token_stops_at_once_on_all_gateways() {
    let Some(fleet) = GatewayFleet::create("operator_token", 60).await else { return };
    let (one, two) = (fleet.start("one").await, fleet.start("two").await);
    let old = fleet.operator("two", &two).await;
    assert_eq!(whoami(&old).await.as_deref(), Ok("operator"));
    let alice = owner(&one, &old, "alice").await;
    let rotate = v1::RotateOperatorTokenRequest {};
    alice.maintenance().rotate_operator_token(rotate).await.unwrap();
    assert_eq!(whoami(&old).await, Err(Code::Unauthenticated));
    let new = fleet.operator("one", &one).await.token;
    let at_two = Session::with_token(&two.admin, "operator", &new).await;
    assert_eq!(whoami(&at_two).await.as_deref(), Ok("operator"));
    let disable = v1::DisableOperatorTokenRequest {};
    alice.maintenance().disable_operator_token(disable).await.unwrap();
    assert_eq!(whoami(&at_two).await, Err(Code::Unauthenticated));

    // The way back accepts the token of the directory on which it is used.
    two.stop().await;
    let url = fleet.database.url.clone();
    enable(&fleet.data("two"), |command| {
        command.env("TOLLGATE_STORE", url).args(["--node-name", "two"]);
    })
    .await;
    let two = fleet.start("two").await;
    let token = fleet.operator("two", &two).await.token;
    for gateway in [&one, &two] {
        let session = Session::with_token(&gateway.admin, "operator", &token).await;
        assert_eq!(whoami(&session).await.as_deref(), Ok("operator"));
    }
    one.stop().await;
    two.stop().await;
    fleet.remove().await;
}
