//! Which program runs, and which schema its database has.

use gateway::app::SCHEMAS;
use serde_json::json;
use tests::{Product, process};

#[tokio::test]
async fn health_shows_the_version_only_if_asked_for_it() {
    let product = Product::start().await;
    for plain in ["/healthz", "/healthz?verbosity", "/readyz?verbose"] {
        let answer = product.get(plain).answer().await;
        assert_eq!((answer.status, answer.text()), (200, r#"{"status":"ok"}"#));
    }
    for verbose in ["/healthz?verbose", "/healthz?a&verbose=1"] {
        let answer = product.get(verbose).answer().await;
        let expected = json!({
            "status": "ok",
            "version": version::VERSION,
            "commit": version::COMMIT,
            "database": "SQLite",
            "schema": SCHEMAS[0].version,
        });
        assert_eq!((answer.status, answer.json()), (200, expected), "{verbose}");
    }
}

#[tokio::test]
async fn the_programs_print_their_version_and_the_schema() {
    let printed = async |name, argument| {
        let output = process::command(name).arg(argument).output().await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let schemas = SCHEMAS.map(|it| it.version);
    let [sqlite, postgres] = schemas;
    let long = version::LONG;
    let expected =
        format!("gateway {long}\nSQLite schema {sqlite}, PostgreSQL schema {postgres}\n");
    assert_eq!(printed("gateway", "--version").await, expected);
    assert_eq!(printed("gateway", "-V").await, format!("gateway {}\n", version::VERSION));
    for name in ["ctl", "tui"] {
        assert_eq!(printed(name, "--version").await, format!("{name} {long}\n"));
    }
}
