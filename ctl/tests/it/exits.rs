//! Exit codes, and the two lines that an error is.

use std::io::{self, Write};

use tonic::Code;

use crate::fake::Fake;
use crate::harness::{Person, signed_in, stranger};

#[tokio::test]
async fn every_status_has_its_code_and_says_what_it_is() {
    let (fake, person) = signed_in().await;
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
        let ran = person.ctl("key revoke k").await;
        assert_eq!((ran.code, ran.out.as_str()), (exit, ""), "{code:?}");
        assert_eq!(ran.err.lines().next(), Some("error: what happened [2J"), "{code:?}");
        fake.refuse("RevokeKey", code, "");
        let ran = person.ctl("key revoke k").await;
        assert!(ran.err.lines().next().unwrap().len() > "error: ".len(), "{code:?}");
    }
}

#[tokio::test]
async fn a_stranger_is_told_how_to_sign_in() {
    let (_fake, person) = stranger().await;
    let ran = person.ctl("whoami").await;
    assert_eq!(ran.code, 3);
    insta::assert_snapshot!(ran.err);
}

#[tokio::test]
async fn a_member_is_told_where_this_hosts_operator_token_is() {
    let (fake, person) = signed_in().await;
    let mut told = Vec::new();
    for _ in 0..2 {
        fake.refuse("RevokeKey", Code::PermissionDenied, "only operators may do that");
        told.push(person.ctl("key revoke k").await.err);
        person.finds_operator_token();
    }
    let file = person.environment.data_dir.as_deref().unwrap().join("operator.token");
    assert!(!told[0].contains("operator.token"), "there was none yet: {}", told[0]);
    assert!(told[1].ends_with(&format!("--token-file {}`\n", file.display())), "{}", told[1]);
}

#[tokio::test]
async fn an_operator_is_not_told_to_ask_one() {
    let (fake, person) = stranger().await;
    person.finds_operator_token();
    let file = person.environment.data_dir.as_deref().unwrap().join("operator.token");
    let named = format!("--token-file {} key revoke k", file.display());
    for command in ["key revoke k", &named] {
        fake.refuse("RevokeKey", Code::PermissionDenied, "only its owner may do that");
        let ran = person.ctl(command).await;
        assert_eq!((ran.code, ran.err.as_str()), (3, "error: only its owner may do that\n"));
    }
    let other = person.path("other.token");
    std::fs::write(&other, "a session's").unwrap();
    fake.refuse("RevokeKey", Code::PermissionDenied, "only operators may do that");
    let ran = person.ctl(&format!("--token-file {} key revoke k", other.display())).await;
    assert!(ran.err.contains("as the operator of this host"), "{}", ran.err);
}

#[tokio::test]
async fn a_wrong_password_is_not_a_missing_session() {
    let (_fake, person) = stranger().await;
    let ran = person.ctl_with("login alice --password-stdin", "wrong").await;
    assert_eq!(ran.code, 3);
    insta::assert_snapshot!(ran.err);
    assert!(!person.profile().exists());
}

#[tokio::test]
async fn nobody_at_the_address_is_unavailable() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let ran = Person::new().ctl(&format!("--server {server} whoami")).await;
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.err.starts_with(&format!("error: no gateway answers at `{server}`: ")));
    assert_eq!(ran.err.lines().count(), 2);
}

#[tokio::test]
async fn a_wrong_command_line_is_usage() {
    let person = Person::new();
    for line in [
        "",
        "nonsense",
        "key create",
        "key create ci --expires soon",
        "key create ci --rpm -1",
        "request list -o xml",
        "--server 127.0.0.1:8081 whoami",
        "upstream add up --url u --profile fancy",
    ] {
        let ran = person.ctl(line).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{line}");
        assert_ne!(ran.err, "", "{line}");
    }
    assert_eq!(person.ctl("--version").await.ok(), "ctl 0.1.0\n");
}

#[tokio::test]
async fn global_flags_go_before_and_after() {
    let (fake, mut person) = signed_in().await;
    person.environment.server = None;
    let server = &fake.server;
    let before = person.ctl(&format!("-o csv --server {server} plan list")).await.ok();
    let between = person.ctl(&format!("plan --output csv --server {server} list")).await.ok();
    let after = person.ctl(&format!("plan list --server {server} -o csv")).await.ok();
    assert_eq!((&before, &before), (&between, &after));
}

/// A reader that went away.
struct Gone;

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_broken_pipe_is_success() {
    let (_fake, person) = signed_in().await;
    for line in ["key list", "request tail -o jsonl", "--help", "completions bash"] {
        let args = ["ctl"].into_iter().chain(line.split(' '));
        let mut err = Vec::new();
        let code = ctl::run(args, &person.environment, &mut io::empty(), &mut Gone, &mut err).await;
        assert_eq!((code, String::from_utf8(err).unwrap().as_str()), (0, ""), "{line}");
    }
}

#[test]
fn a_command_can_run_on_any_thread() {
    fn check(_: impl Send) {}
    let person = Person::new();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut stdin = io::empty();
    check(ctl::run(["ctl"], &person.environment, &mut stdin, &mut out, &mut err));
}

/// A reader who pulls the gateway's plug at the first line.
struct Plug(Option<tokio::runtime::Runtime>);

impl Write for Plug {
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
async fn a_gateway_that_dies_is_unavailable() {
    let mut person = Person::new();
    let gateway =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (fake, started) = tokio::sync::oneshot::channel();
    let _started = gateway.spawn(async move { fake.send(Fake::start().await).ok() });
    person.environment.server = Some(started.await.unwrap().server);
    let (mut out, mut err) = (Plug(Some(gateway)), Vec::new());
    let args = ["ctl", "request", "tail", "--no-reconnect", "-o", "jsonl"];
    let code = ctl::run(args, &person.environment, &mut io::empty(), &mut out, &mut err).await;
    let err = String::from_utf8(err).unwrap();
    assert_eq!(code, 6, "{err}");
    assert!(err.contains("ctl request tail --cursor c"), "{err}");
}
