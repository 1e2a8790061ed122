//! The settings of an upstream: stored, shown, exported, removed and audited.

use serde_json::json;
use tests::Product;

use super::user::User;

/// The options that set everything, the same as it is shown, and the options that remove it.
const SETTINGS: [(&str, &str, &str); 7] = [
    ("--key-env A --key-env B --key-file /nowhere", "credentials", "--no-key"),
    ("--health-check /up", "health_check", "--no-health-check"),
    (
        "--health-check /up --health-check-interval-ms 60000",
        "health_check_interval_ms",
        "--no-health-check",
    ),
    ("--proxy socks5://p.example:1080", "proxy", "--no-proxy"),
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
async fn waiting_requests_are_bounded_only_with_connections() {
    let product = Product::start().await;
    let operator = User::operator(&product);
    let ran = operator.ctl("upstream add u --url sim: --max-waiting 4").await;
    assert!(ran.code == 2 && ran.err.contains("`max_connections`"), "{ran:?}");
    let added = operator.json("upstream add u --url sim: --max-connections 4").await;
    assert_eq!(added["max_waiting"], json!(100));
}
