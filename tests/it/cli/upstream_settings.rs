//! The settings of an upstream: stored, shown, exported, removed and audited.

use serde_json::json;
use tests::Product;

use super::user::User;

/// The options that set everything, the same as it is shown, and the options that remove it.
const SETTINGS: [(&str, &str, &str); 8] = [
    ("--key-env A --key-env B --key-file /nowhere", "credentials", "--no-key"),
    ("--health-check /up", "health_check", "--no-health-check"),
    (
        "--health-check /up --health-check-interval-ms 60000",
        "health_check_interval_ms",
        "--no-health-check",
    ),
    ("--proxy socks5://p.example:1080", "proxy", "--default-proxy"),
    ("--no-proxy", "proxy", "--default-proxy"),
    ("--total-ms 90000", "total_ms", "--total-ms 0"),
    ("--max-connections 4", "max_connections", "--max-connections 0"),
    ("--max-connections 4 --max-waiting 0", "max_waiting", "--max-connections 0"),
];

#[tokio::test]
async fn settings_of_an_upstream_are_stored_exported_applied_and_audited() {
    let mut product = Product::start().await;
    for (set, field, remove) in SETTINGS {
        let operator = User::operator(&product);
        let added = operator.json(&format!("upstream add u --url http://u.example/v1 {set}")).await;
        assert_ne!(added[field], json!(null), "{set}");
        product = product.stop().await.start().await;
        let operator = User::operator(&product);
        let exported = operator.ok("export").await;
        assert!(exported.contains(field), "{exported}");
        let catalogue = product.home.scratch().join("catalogue.toml");
        std::fs::write(&catalogue, &exported).unwrap();
        let apply = format!("apply -f {}", catalogue.display());
        let ran = operator.ctl(&apply).await;
        assert!(ran.code == 0 && ran.err.contains("no changes"), "{ran:?}");
        operator.ok(&format!("upstream update u {remove}")).await;
        assert!(!operator.ok("export").await.contains(field));
        operator.ok(&apply).await;
        assert_eq!(operator.ok("export").await, exported);
        let audit = operator.ok("audit list -o json").await;
        assert!(audit.contains(&format!("{field}: ")), "{audit}");
        operator.ok("upstream remove u --yes").await;
    }
}

#[tokio::test]
async fn the_login_for_a_proxy_is_exported_without_its_password() {
    let product = Product::start().await;
    let operator = User::operator(&product);
    let add = "upstream add u --url http://u.example/v1 --proxy http://p.example:3128";
    let line = format!("{add} --key-stdin --proxy-user gate --proxy-password-stdin -o json");
    let ran = operator.ctl_with(&line, "sk-key\nhidden word\n").await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let added: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&added["proxy_user"], &added["proxy_password"]),
        (&json!("gate"), &json!("secret"))
    );

    let exported = operator.ok("export").await;
    let catalogue = product.home.scratch().join("catalogue.toml");
    let apply = format!("apply -f {}", catalogue.display());
    let apply_with = async |from: &str, to: &str| {
        assert!(exported.contains(from), "{exported}");
        std::fs::write(&catalogue, exported.replace(from, to)).unwrap();
        operator.ctl(&apply).await
    };
    let ran = apply_with("", "").await;
    assert!(ran.code == 0 && ran.err.contains("no changes"), "{ran:?}");
    // The stored password stays with another user.
    assert_eq!(apply_with("\"gate\"", "\"other\"").await.code, 0);
    let shown = operator.json("upstream show u").await;
    assert_eq!((&shown["proxy_user"], &shown["problem"]), (&json!("other"), &json!(null)));
    operator.ok("upstream update u --proxy-user gate --proxy-password-env NOT_SET").await;
    let shown = operator.json("upstream show u").await;
    assert_eq!(shown["proxy_password_name"], json!("NOT_SET"));
    assert!(shown["problem"].to_string().contains("`NOT_SET` is not set"), "{shown}");
    let ran = apply_with("", "").await;
    assert!(ran.code == 5 && ran.err.contains("--proxy-password-stdin"), "{ran:?}");

    let audit = operator.ok("audit list -o json").await;
    assert!(audit.contains("proxy_user: ") && audit.contains("proxy_password: sealed"), "{audit}");
    for text in [&exported, &audit] {
        assert!(!text.contains("hidden"), "{text}");
    }
    operator.ok("upstream update u --no-proxy-user").await;
    assert!(!operator.ok("export").await.contains("proxy_login"));
    let ran = operator.ctl("upstream update u --proxy-password-env A").await;
    assert_eq!(ran.code, 2, "{ran:?}");
    let ran = operator.ctl("upstream update u --no-proxy --proxy-user a").await;
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[tokio::test]
async fn waiting_requests_are_bounded_only_with_connections() {
    let product = Product::start().await;
    let operator = User::operator(&product);
    let ran = operator.ctl("upstream add u --url sim: --max-waiting 4").await;
    assert!(ran.code == 2 && ran.err.contains("`max_connections`"), "{ran:?}");
    let added = operator.json("upstream add u --url sim: --max-connections 4").await;
    assert_eq!(added["max_waiting"], json!(100));
}
