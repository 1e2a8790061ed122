//! Upstreams and their credentials.

use secrecy::ExposeSecret;

use super::super::audit::AuditQuery;
use super::super::upstreams::{NewCredential, NewProxyLogin, UpstreamView};
use super::*;
use domain::upstream::{CredentialSource, Deadlines, Profile, ProxyChoice};

fn url(url: &str) -> UpstreamChange {
    UpstreamChange { url: Some(url.into()), ..UpstreamChange::default() }
}

fn secret(secret: &str) -> UpstreamChange {
    let credentials = Some(vec![NewCredential::Secret(secret.into())]);
    UpstreamChange { credentials, ..UpstreamChange::default() }
}

async fn add(
    bench: &Bench,
    name: &str,
    change: UpstreamChange,
) -> Result<UpstreamView, ControlError> {
    bench.control.add_upstream(&bench.operator, UpstreamName::new(name), change).await
}

async fn update(bench: &Bench, change: UpstreamChange) -> Result<UpstreamView, ControlError> {
    bench.control.update_upstream(&bench.operator, "u".into(), change).await
}

#[tokio::test]
async fn validates_urls_and_does_not_quote_them_in_errors() {
    let bench = Bench::new(Registration::Open).await;
    for bad in [
        "",
        "localhost:8000",
        "ftp://host/v1",
        "http://",
        "http:///v1",
        "https://user:hunter2@host/v1",
        "http://hunter2@host",
        "http://host/v1?key=hunter2",
        "http://host/v1#hunter2",
        "http://ho st/",
        "sim: x",
    ] {
        let error = add(&bench, "u", url(bad)).await;
        let text = error.as_ref().unwrap_err().to_string();
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!(field(error), "url", "{bad}");
    }
    for (index, (given, kept)) in [
        ("http://10.0.0.5:8000/v1/", "http://10.0.0.5:8000/v1"),
        ("https://api.example.com//", "https://api.example.com"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
        ("sim:", "sim:"),
    ]
    .into_iter()
    .enumerate()
    {
        let view = add(&bench, &format!("u{index}"), url(given)).await.unwrap();
        assert_eq!(view.upstream.url, kept);
    }
    assert!(matches!(add(&bench, "u0", url("sim:")).await, Err(ControlError::Exists(_))));
}

#[tokio::test]
async fn a_credential_is_stored_only_in_encrypted_form() {
    let bench = Bench::new(Registration::Open).await;
    add(&bench, "u", UpstreamChange { ..url("sim:") }).await.unwrap();
    let view = update(&bench, secret("sk-very-hidden")).await.unwrap();
    assert!(matches!(view.upstream.credentials[..], [CredentialSource::Sealed(_)]));
    assert_eq!(view.problem, "");
    let check = |bench: &Bench| {
        let entry = bench.control.directory.catalogue().upstreams["u"].clone();
        let found = bench.control.credentials.find(&entry).unwrap();
        let secrets = found.as_ref().as_ref().unwrap();
        assert_eq!(secrets.credentials[0].as_ref().unwrap().expose_secret(), "sk-very-hidden");
    };
    check(&bench);
    for file in std::fs::read_dir(bench.dir.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(11).any(|window| window == b"very-hidden"));
    }

    let dir = bench.dir.clone();
    drop(bench);
    let bench = Bench::over(dir.clone(), Registration::Open).await;
    check(&bench);
    drop(bench);
    std::fs::remove_file(dir.path().join("seal.key")).unwrap();
    // `CountingEntropy` would generate the same key again.
    std::fs::write(dir.path().join("seal.key"), "07".repeat(32)).unwrap();
    let bench = Bench::over(dir, Registration::Open).await;
    let views = bench.control.list_upstreams(&bench.operator).unwrap();
    assert!(views[0].problem.contains("set it again"), "{}", views[0].problem);
    update(&bench, secret("sk-very-hidden")).await.unwrap();
    check(&bench);
}

#[tokio::test]
async fn validates_credentials_and_deadlines() {
    let bench = Bench::new(Registration::Open).await;
    add(&bench, "u", url("sim:")).await.unwrap();
    let with_all = |credentials| UpstreamChange {
        credentials: Some(credentials),
        ..UpstreamChange::default()
    };
    let with = |credential| with_all(vec![credential]);
    for (change, expected) in [
        (secret(""), "credential.secret"),
        (secret("two words"), "credential.secret"),
        (with(NewCredential::Env("A=hunter2".into())), "credential.env"),
        (with(NewCredential::Env(String::new())), "credential.env"),
        (with(NewCredential::File("relative".into())), "credential.file"),
        (with(NewCredential::Current(0)), "credential.current"),
        (with(NewCredential::Current(1)), "credential.current"),
        (
            with_all((0..33).map(|index| NewCredential::Env(format!("A{index}"))).collect()),
            "credentials",
        ),
    ] {
        assert_eq!(field(update(&bench, change).await), expected);
    }
    let deadlines = |seconds| UpstreamChange {
        deadlines: Deadlines { idle: Some(Duration::from_secs(seconds)), ..Deadlines::default() },
        ..UpstreamChange::default()
    };
    assert_eq!(field(update(&bench, deadlines(1_000_000)).await), "deadlines.idle_ms");
    let kept = update(&bench, deadlines(7)).await.unwrap().upstream.deadlines.idle;
    assert_eq!(kept, Some(Duration::from_secs(7)));
    let profile = UpstreamChange { profile: Some(Profile::Vllm), ..UpstreamChange::default() };
    let view = update(&bench, profile).await.unwrap();
    assert_eq!(view.upstream.deadlines.idle, Some(Duration::from_secs(7)));
    assert_eq!(view.upstream.profile, Profile::Vllm);
    assert_eq!(update(&bench, deadlines(0)).await.unwrap().upstream.deadlines.idle, None);

    let missing = with(NewCredential::Env("TOLLGATE_NO_SUCH".into()));
    let view = update(&bench, missing).await.unwrap();
    assert!(view.problem.contains("`TOLLGATE_NO_SUCH`"), "{}", view.problem);
    assert_eq!(update(&bench, with_all(Vec::new())).await.unwrap().problem, "");
}

#[tokio::test]
async fn a_credential_that_cannot_be_read_does_not_disable_the_others() {
    let bench = Bench::new(Registration::Open).await;
    add(&bench, "u", url("sim:")).await.unwrap();
    let all = |credentials| UpstreamChange { credentials: Some(credentials), ..Default::default() };
    let missing = || NewCredential::Env("TOLLGATE_NO_SUCH".into());
    let secret = |text: &str| NewCredential::Secret(text.into());
    let view = update(&bench, all(vec![secret("sk-1"), missing(), secret("sk-2")])).await.unwrap();
    assert!(view.problem.starts_with("credential 2: "), "{}", view.problem);
    let before = view.upstream;
    assert_eq!(bench.control.credentials.unusable(&before), None);

    let kept = vec![NewCredential::Current(3), missing(), NewCredential::Current(1)];
    let after = update(&bench, all(kept)).await.unwrap().upstream;
    let [first, second, third] = &before.credentials[..] else { panic!("{before:?}") };
    assert_eq!(after.credentials, [third.clone(), second.clone(), first.clone()]);

    let view = update(&bench, all(vec![missing(), missing()])).await.unwrap();
    let problem = bench.control.credentials.unusable(&view.upstream).unwrap();
    assert!(
        problem.contains("credential 1: ") && problem.contains("; credential 2: "),
        "{problem}"
    );
    assert_eq!(view.problem, problem);
}

#[tokio::test]
async fn refuses_to_remove_an_upstream_with_deployments() {
    let bench = Bench::new(Registration::Open).await;
    bench.model("m").await;
    let remove = async || bench.control.remove_upstream(&bench.operator, "sim".into()).await;
    let error = remove().await.unwrap_err();
    assert!(matches!(error, ControlError::InUse(_)), "{error:?}");
    assert!(error.to_string().contains("`m`"), "{error}");
    bench.control.remove_model(&bench.operator, "m".into()).await.unwrap();
    let entry = bench.control.directory.catalogue().upstreams["sim"].clone();
    assert!(bench.control.credentials.find(&entry).is_some());
    remove().await.unwrap();
    assert!(matches!(remove().await, Err(ControlError::NotFound(_))));
    assert!(bench.control.credentials.find(&entry).is_none());
}

fn login(user: &str, password: Option<NewCredential>) -> NewProxyLogin {
    NewProxyLogin { user: user.to_owned(), password }
}

fn only_login(user: &str) -> UpstreamChange {
    UpstreamChange { proxy_login: Some(login(user, None)), ..UpstreamChange::default() }
}

fn through(proxy: &str, proxy_login: Option<NewProxyLogin>) -> UpstreamChange {
    UpstreamChange { proxy: Some(proxy.to_owned()), proxy_login, ..UpstreamChange::default() }
}

#[tokio::test]
async fn the_login_for_a_proxy_stays_until_it_or_the_proxy_is_removed() {
    let bench = Bench::new(Registration::Open).await;
    add(&bench, "u", url("http://host/v1")).await.unwrap();
    let secret = || Some(NewCredential::Secret("word".into()));
    let shown = |view: &UpstreamView| {
        let login = view.upstream.proxy.login().map(|login| login.user.clone());
        (view.upstream.proxy.text().map(str::to_owned), login)
    };
    let (http, socks) = ("http://p:3128".to_owned(), "socks5://p:1080".to_owned());
    let user = |user: &str| Some(user.to_owned());
    for (change, expected) in [
        (through(&http, Some(login("a", secret()))), (Some(http.clone()), user("a"))),
        // The password stays with another user and another proxy.
        (only_login("b"), (Some(http), user("b"))),
        (through(&socks, None), (Some(socks.clone()), user("b"))),
        (only_login(""), (Some(socks.clone()), None)),
        (
            through(&socks, Some(login("c:d", Some(NewCredential::Env("A".into()))))),
            (Some(socks), user("c:d")),
        ),
        (through("direct", None), (Some("direct".to_owned()), None)),
        (through("", None), (None, None)),
    ] {
        let view = update(&bench, change).await.unwrap();
        assert_eq!(shown(&view), expected);
    }
    assert_eq!(bench.control.directory.catalogue().upstreams["u"].proxy, ProxyChoice::Environment);
    let rotate = || through("http://p:3128", Some(login("a", secret())));
    update(&bench, rotate()).await.unwrap();
    update(&bench, rotate()).await.unwrap();
    let query = AuditQuery::default();
    let entries = bench.control.list_audit(&bench.operator, query, 1, "").await.unwrap();
    assert_eq!(entries.items[0].entry.details, "proxy_password: sealed -> sealed anew");
}

#[tokio::test]
async fn validates_logins_for_proxies() {
    let bench = Bench::new(Registration::Open).await;
    add(&bench, "u", url("http://host/v1")).await.unwrap();
    let env = || Some(NewCredential::Env("A".into()));
    let http = |user: &str, password| through("http://p:3128", Some(login(user, password)));
    let secret = |text: &str| Some(NewCredential::Secret(text.into()));
    for (change, expected) in [
        (http("a", None), "proxy_login.password"),
        (http("a", secret("")), "proxy_login.password.secret"),
        (http("a", secret(&"w".repeat(256))), "proxy_login.password.secret"),
        (http("a", secret("hunter2\n")), "proxy_login.password.secret"),
        (http("a", Some(NewCredential::Env("A=hunter2".into()))), "proxy_login.password.env"),
        (http("a", Some(NewCredential::File("relative".into()))), "proxy_login.password.file"),
        (http("a", Some(NewCredential::Current(1))), "proxy_login.password.current"),
        (http(&"a".repeat(256), env()), "proxy_login.user"),
        (http("a:b", env()), "proxy_login"),
        (through("direct", Some(login("a", env()))), "proxy_login"),
        (through("", Some(login("a", env()))), "proxy_login"),
    ] {
        let error = update(&bench, change).await;
        let text = error.as_ref().unwrap_err().to_string();
        assert!(!text.contains("hunter2") && !text.contains("www"), "{text}");
        assert_eq!(field(error), expected, "{text}");
    }
}

/// Regression test: the removal of one of several sealed credentials was described as `sealed -> sealed anew`.
#[tokio::test]
async fn the_audit_log_names_the_sealed_credentials_that_changed() {
    let bench = Bench::new(Registration::Open).await;
    add(&bench, "u", url("http://host/v1")).await.unwrap();
    let secret = |text: &str| NewCredential::Secret(text.into());
    let kept = NewCredential::Current;
    for (credentials, expected) in [
        (vec![secret("sk-a"), secret("sk-b"), secret("sk-c")], "credentials: none -> "),
        (vec![kept(1), kept(3)], "sealed credentials: removed number 2"),
        (vec![kept(2), kept(1)], "credentials: in another order"),
        (vec![kept(1), secret("sk-d")], "sealed credentials: removed number 2; added number 2"),
        (vec![kept(2)], "sealed credentials: removed number 1"),
        (vec![secret("sk-e")], "credential: sealed -> sealed anew"),
        (vec![kept(1)], "no change"),
    ] {
        let change = UpstreamChange { credentials: Some(credentials), ..UpstreamChange::default() };
        update(&bench, change).await.unwrap();
        let query = AuditQuery::default();
        let entries = bench.control.list_audit(&bench.operator, query, 1, "").await.unwrap();
        let details = &entries.items[0].entry.details;
        assert!(details.contains(expected), "{expected}: {details}");
        assert_eq!(details.contains("anew"), expected.contains("anew"), "{details}");
        assert!(!details.contains("sk-"), "{details}");
    }
}
