//! Exit codes and error messages.

use std::io::{self, Write};

use tonic::Code;

use crate::fake::FakeGateway;
use crate::harness::{TestUser, signed_in, signed_out};

#[tokio::test]
async fn every_status_has_an_exit_code_and_a_message() {
    let (fake, user) = signed_in().await;
    for (code, exit) in [
        (Code::Unauthenticated, 3),
        (Code::PermissionDenied, 3),
        (Code::NotFound, 4),
        (Code::AlreadyExists, 5),
        (Code::FailedPrecondition, 5),
        (Code::Aborted, 5),
        (Code::InvalidArgument, 2),
        (Code::OutOfRange, 2),
        (Code::Unavailable, 6),
        (Code::DeadlineExceeded, 6),
        (Code::ResourceExhausted, 1),
        (Code::Unimplemented, 1),
        (Code::Internal, 1),
        (Code::Unknown, 1),
        (Code::Cancelled, 1),
        (Code::DataLoss, 1),
    ] {
        fake.refuse("RevokeKey", code, "what\nhappened\u{1b}[2J");
        let result = user.ctl("key revoke k").await;
        assert_eq!((result.code, result.out.as_str()), (exit, ""), "{code:?}");
        assert_eq!(result.err.lines().next(), Some("error: what happened [2J"), "{code:?}");
        fake.refuse("RevokeKey", code, "");
        let result = user.ctl("key revoke k").await;
        assert!(result.err.lines().next().unwrap().len() > "error: ".len(), "{code:?}");
    }
}

#[tokio::test]
async fn a_missing_session_advises_to_sign_in() {
    let (_fake, user) = signed_out().await;
    let result = user.ctl("whoami").await;
    assert_eq!(result.code, 3);
    insta::assert_snapshot!(result.err);
}

#[tokio::test]
async fn a_refused_member_gets_the_path_of_the_operator_token() {
    let (fake, user) = signed_in().await;
    let mut messages = Vec::new();
    for _ in 0..2 {
        fake.refuse("RevokeKey", Code::PermissionDenied, "only operators may do that");
        messages.push(user.ctl("key revoke k").await.err);
        user.write_operator_token();
    }
    let file = user.environment.data_dir.as_deref().unwrap().join("operator.token");
    assert!(!messages[0].contains("operator.token"), "it did not exist yet: {}", messages[0]);
    let advice = format!("--token-file {}`\n", file.display());
    assert!(messages[1].ends_with(&advice), "{}", messages[1]);
}

#[tokio::test]
async fn a_refused_operator_is_not_advised_to_ask_one() {
    let (fake, user) = signed_out().await;
    user.write_operator_token();
    let file = user.environment.data_dir.as_deref().unwrap().join("operator.token");
    let with_flag = format!("--token-file {} key revoke k", file.display());
    for command in ["key revoke k", &with_flag] {
        fake.refuse("RevokeKey", Code::PermissionDenied, "only its owner may do that");
        let result = user.ctl(command).await;
        assert_eq!((result.code, result.err.as_str()), (3, "error: only its owner may do that\n"));
    }
    let other = user.path("other.token");
    std::fs::write(&other, "a session's").unwrap();
    fake.refuse("RevokeKey", Code::PermissionDenied, "only operators may do that");
    let result = user.ctl(&format!("--token-file {} key revoke k", other.display())).await;
    assert!(result.err.contains("as the operator of this host"), "{}", result.err);
}

#[tokio::test]
async fn a_wrong_password_is_not_reported_as_a_missing_session() {
    let (_fake, user) = signed_out().await;
    let result = user.ctl_with("login alice --password-stdin", "wrong").await;
    assert_eq!(result.code, 3);
    insta::assert_snapshot!(result.err);
    assert!(!user.profile().exists());
}

#[tokio::test]
async fn a_refused_connection_is_unavailable() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let result = TestUser::new().ctl(&format!("--server {server} whoami")).await;
    assert_eq!(result.code, 6, "{result:?}");
    assert!(result.err.starts_with(&format!("error: no gateway answers at `{server}`: ")));
    assert_eq!(result.err.lines().count(), 2);
}

#[tokio::test]
async fn an_invalid_command_line_is_a_usage_error() {
    let user = TestUser::new();
    for line in [
        "",
        "nonsense",
        "key create",
        "key create ci --expires soon",
        "key create ci --rpm -1",
        "request list -o xml",
        "--server gate.example:8081 whoami",
        "upstream add up --url u --profile fancy",
    ] {
        let result = user.ctl(line).await;
        assert_eq!((result.code, result.out.as_str()), (2, ""), "{line}");
        assert_ne!(result.err, "", "{line}");
    }
    assert_eq!(user.ctl("--version").await.ok(), format!("ctl {}\n", version::LONG));
}

#[tokio::test]
async fn global_flags_are_accepted_in_any_position() {
    let (fake, mut user) = signed_in().await;
    user.environment.server = None;
    let server = &fake.server;
    let before = user.ctl(&format!("-o csv --server {server} plan list")).await.ok();
    let between = user.ctl(&format!("plan --output csv --server {server} list")).await.ok();
    let after = user.ctl(&format!("plan list --server {server} -o csv")).await.ok();
    assert_eq!((&before, &before), (&between, &after));
}

/// A stdout whose reader closed the pipe.
struct ClosedPipe;

impl Write for ClosedPipe {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_broken_pipe_is_success() {
    let (_fake, user) = signed_in().await;
    for line in
        ["key list", "key list -o csv", "request tail -o jsonl", "--help", "completions bash"]
    {
        let args = ["ctl"].into_iter().chain(line.split(' '));
        let mut err = Vec::new();
        let code =
            ctl::run(args, &user.environment, &mut io::empty(), &mut ClosedPipe, &mut err).await;
        assert_eq!((code, String::from_utf8(err).unwrap().as_str()), (0, ""), "{line}");
    }
}

#[test]
fn the_command_future_is_send() {
    fn check(_: impl Send) {}
    let user = TestUser::new();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut stdin = io::empty();
    check(ctl::run(["ctl"], &user.environment, &mut stdin, &mut out, &mut err));
}

/// A stdout that stops the gateway's runtime at the first write.
struct StopOnWrite(Option<tokio::runtime::Runtime>);

impl Write for StopOnWrite {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if let Some(gateway) = self.0.take() {
            gateway.shutdown_background();
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_gateway_that_stops_during_a_call_is_unavailable() {
    let mut user = TestUser::new();
    let gateway =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (fake, started) = tokio::sync::oneshot::channel();
    let _started = gateway.spawn(async move { fake.send(FakeGateway::start().await).ok() });
    user.environment.server = Some(started.await.unwrap().server);
    let (mut out, mut err) = (StopOnWrite(Some(gateway)), Vec::new());
    let args = ["ctl", "request", "tail", "--no-reconnect", "-o", "jsonl"];
    let code = ctl::run(args, &user.environment, &mut io::empty(), &mut out, &mut err).await;
    let err = String::from_utf8(err).unwrap();
    assert_eq!(code, 6, "{err}");
    assert!(err.contains("ctl request tail --cursor c"), "{err}");
}
