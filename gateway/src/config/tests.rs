//! Precedence and validation of settings.

use super::*;

fn parse(text: &str) -> Result<Settings, toml::de::Error> {
    toml::from_str(text)
}

#[test]
fn flags_take_precedence_over_the_file() {
    let file = parse("listen = \"127.0.0.1:1\"\nregistration = \"closed\"\nmax_body_bytes = 9000")
        .unwrap();
    let flags = Settings {
        listen: "127.0.0.1:2".parse().ok(),
        data_dir: Some("d".into()),
        ..Settings::default()
    };
    let config = flags.or(file).resolve().unwrap();
    assert_eq!(config.listen.port(), 2);
    assert_eq!(config.registration, Registration::Closed);
    assert_eq!((config.max_body_bytes, config.simulator), (9000, true));
}

#[test]
fn registration_defaults_to_invite_on_a_public_admin_address() {
    let resolve = |text: &str| {
        let settings = Settings { data_dir: Some("d".into()), ..parse(text).unwrap() };
        settings.resolve().unwrap().registration
    };
    assert_eq!(resolve(""), Registration::Open);
    let public = "admin_listen = \"0.0.0.0:8081\"\nallow_plaintext = true";
    assert_eq!(resolve(public), Registration::Invite);
    assert_eq!(resolve(&format!("{public}\nregistration = \"open\"")), Registration::Open);
}

#[test]
fn an_address_that_other_hosts_can_reach_requires_tls_or_permission() {
    let resolve =
        |text: &str| Settings { data_dir: Some("d".into()), ..parse(text).unwrap() }.resolve();
    for address in
        ["listen = \"0.0.0.0:1\"", "listen = \"[::]:1\"", "admin_listen = \"192.0.2.1:1\""]
    {
        let error = resolve(address).unwrap_err().to_string();
        let name = address.split(' ').next().unwrap();
        assert!(error.starts_with(&format!("`{name}` ")), "{error}");
        assert!(error.contains("`tls_cert`") && error.contains("--allow-plaintext"), "{error}");
        assert!(resolve(&format!("{address}\nallow_plaintext = true")).is_ok());
        assert!(resolve(&format!("{address}\nallow_plaintext = false")).is_err());
        assert!(resolve(&format!("{address}\ntls_cert = \"c\"\ntls_key = \"k\"")).is_ok());
    }
    for address in ["listen = \"[::1]:1\"", "admin_listen = \"unix:/run/admin.sock\""] {
        assert!(resolve(address).is_ok(), "{address}");
    }
}

#[test]
fn origins_have_a_scheme_and_a_host() {
    let resolve = |list: &str| {
        let settings = parse(&format!("cors_origins = {list}")).unwrap();
        Settings { data_dir: Some("d".into()), ..settings }.resolve().map(|config| config.cors)
    };
    assert_eq!(resolve("[]").unwrap(), None);
    for all in ["[\"*\"]", "\"*\""] {
        assert_eq!(resolve(all).unwrap(), Some(CorsOrigins::Any));
    }
    assert_eq!(
        resolve("\"https://a, https://b\"").unwrap(),
        resolve("[\"https://a\", \"https://b\"]").unwrap()
    );
    let error = parse("cors_origins = 7").unwrap_err().to_string();
    assert!(error.contains("must be a list of origins"), "{error}");
    let listed = resolve("[\"https://App.example\", \"http://localhost:5173/\"]").unwrap();
    let expected = ["https://app.example", "http://localhost:5173"];
    let expected = expected.map(http::HeaderValue::from_static).to_vec();
    assert_eq!(listed, Some(CorsOrigins::Listed(expected)));
    for wrong in
        ["[\"app.example\"]", "[\"https://a/b\"]", "[\"*\", \"https://a\"]", "[\"https://u@a\"]"]
    {
        let error = resolve(wrong).unwrap_err().to_string();
        assert!(error.contains("cors_origins") && error.contains("https://"), "{error}");
    }
}

#[test]
fn a_certificate_requires_its_key() {
    let resolve =
        |text: &str| Settings { data_dir: Some("d".into()), ..parse(text).unwrap() }.resolve();
    assert_eq!(resolve("tls_cert = \"\"\ntls_key = \"\"").unwrap().tls, None);
    let both = resolve("tls_cert = \"c\"\ntls_key = \"k\"").unwrap().tls.unwrap();
    assert_eq!((both.certificate, both.key), ("c".into(), "k".into()));
    for text in ["tls_cert = \"c\"", "tls_key = \"k\"", "tls_cert = \"c\"\ntls_key = \"\""] {
        assert!(resolve(text).unwrap_err().to_string().contains("`tls_key`"), "{text}");
    }
}

#[test]
fn the_public_url_must_be_a_base_url() {
    let resolve = |url: &str| {
        let settings = parse(&format!("public_url = \"{url}\"")).unwrap();
        Settings { data_dir: Some("d".into()), ..settings }.resolve()
    };
    for (given, kept) in [
        ("", None),
        ("https://gate.example", Some("https://gate.example/v1")),
        ("https://gate.example/", Some("https://gate.example/v1")),
        ("https://gate.example:8443/v1/", Some("https://gate.example:8443/v1")),
        ("http://gate.example/llm/v1", Some("http://gate.example/llm/v1")),
    ] {
        assert_eq!(resolve(given).unwrap().public_url.as_deref(), kept, "{given}");
    }
    for wrong in ["gate.example", "ftp://gate.example", "https://u:p@gate.example", "https://a?b"] {
        let error = resolve(wrong).unwrap_err().to_string();
        assert!(error.contains("public_url") && error.contains("https://"), "{error}");
    }
}

#[test]
fn refuses_unusable_settings_by_name() {
    for (text, name) in [
        ("max_body_bytes = 0", "`max_body_bytes` is 0"),
        ("max_body_bytes = 1023", "set at least 1024"),
        ("drain_seconds = 18446744073709551615", "`drain_seconds`"),
        ("drain_delay_seconds = 86401", "`drain_delay_seconds`"),
        ("client_idle_seconds = 18446744073709551615", "`client_idle_seconds`"),
        ("admin_client_ca = \"a\"", "`tls_cert`"),
        (
            "admin_client_ca = \"a\"\ntls_cert = \"c\"\ntls_key = \"k\"\nadmin_listen = \"unix:/a\"",
            "`admin_listen`",
        ),
        ("[responses]\nretention_days = 0", "`responses.store`"),
        ("[responses]\naccount_mib = 0", "`responses.store`"),
    ] {
        let settings = Settings { data_dir: Some("d".into()), ..parse(text).unwrap() };
        let error = settings.resolve().unwrap_err().to_string();
        assert!(error.contains(name), "{text}: {error}");
    }
    let unset = Settings { data_dir: Some("".into()), ..Settings::default() };
    assert_eq!(unset.resolve().unwrap().data_dir, default_data_dir().unwrap());
}

#[test]
fn zero_keeps_every_record() {
    let resolve = |text: &str| {
        let settings = Settings { data_dir: Some("d".into()), ..parse(text).unwrap() };
        settings.resolve().unwrap().records
    };
    assert!(resolve("").keeps_all());
    assert!(resolve("records_keep_days = 0\nrecords_max_rows = 0").keeps_all());
    let kept = resolve("records_keep_days = 2\nrecords_max_rows = 5");
    let two_days = Duration::from_hours(48);
    assert_eq!(kept, RecordRetention { keep_for: Some(two_days), max_rows: Some(5) });
}

#[test]
fn zero_means_no_limit_on_clients() {
    let resolve = |text: &str| {
        let settings = Settings { data_dir: Some("d".into()), ..parse(text).unwrap() };
        settings.resolve().unwrap()
    };
    let none =
        resolve("client_idle_seconds = 0\nmax_connections = 0\nmax_connections_per_address = 0");
    assert_eq!((none.client_idle, none.connections), (None, ConnectionLimits::default()));
    let some = resolve("max_connections = 3\nmax_connections_per_address = 2");
    let limits = ConnectionLimits { total: Some(3), per_address: Some(2) };
    assert_eq!((some.client_idle, some.connections), (Some(Duration::from_mins(2)), limits));
}

#[test]
fn body_memory_is_at_least_one_maximum_body() {
    let resolve =
        |text: &str| Settings { data_dir: Some("d".into()), ..parse(text).unwrap() }.resolve();
    assert_eq!(resolve("").unwrap().body_memory_bytes, DEFAULT_BODY_MEMORY_BYTES);
    let long = resolve("max_body_bytes = 1000000000").unwrap();
    assert_eq!(long.body_memory_bytes, 1_000_000_000);
    let error = resolve("max_body_bytes = 9\nbody_memory_bytes = 8").unwrap_err().to_string();
    assert!(error.contains("`body_memory_bytes`"), "{error}");
}

#[test]
fn a_misspelt_key_is_reported_with_its_line() {
    let error = parse("\nlistn = \"127.0.0.1:1\"").unwrap_err().to_string();
    assert!(error.contains("listn") && error.contains("line 2"), "{error}");
}
