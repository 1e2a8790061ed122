//! The catalogue as a file: export and apply round-trip.

use ctl::profile::Environment;
use tests::{Product, question};

/// Runs a command line as the operator. Returns its exit code, stdout and stderr.
async fn operator(product: &Product, line: &str, stdin: &str) -> (u8, String, String) {
    let home = tempfile::tempdir().unwrap();
    let mut environment = Environment::for_home(home.path());
    environment.server = Some(product.admin.clone());
    environment.token = Some(product.home.operator_token().into());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = std::iter::once("ctl").chain(line.split(' '));
    let code = ctl::run(args, &environment, &mut stdin.as_bytes(), &mut out, &mut err).await;
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

const CATALOGUE: &str = r#"
[plans.team]
trial_credit_usd = "2.50"
models = ["house", "small"]
limits = { rpm = 600, concurrency = 8 }

[upstreams.local]
url = "sim:"
profile = "vllm"
idle_ms = 5000

[upstreams.remote]
url = "https://api.example/v1"
credential = { env = "REMOTE_KEY" }

[models.house]
display_name = "House"
context_window = 8192
input_usd = "1.00"
output_usd = "2"
abilities = ["tools", "structured_output"]
aliases = ["best"]
limits = { tpm = 90000 }
deployments = [{ upstream = "local", upstream_model = "sim-chat" }]

[models.tiny]
aliases = ["small"]
deployments = [{ upstream = "local", weight = 3, priority = 1 }]
"#;

#[tokio::test]
async fn an_export_applied_to_another_gateway_gives_the_same_catalogue() {
    let (first, second) = (Product::start().await, Product::start().await);
    let (code, _, err) = operator(&first, "apply -f -", CATALOGUE).await;
    assert_eq!(code, 0, "{err}");
    let (_, exported, _) = operator(&first, "export", "").await;
    for product in [&first, &second] {
        let (code, _, err) = operator(product, "apply --prune --yes -f -", &exported).await;
        assert_eq!(code, 0, "{err}");
        assert_eq!(operator(product, "export", "").await.1, exported);
        let again = operator(product, "apply --prune --dry-run -f -", &exported).await;
        assert_eq!(again, (0, String::new(), "no changes\n".to_owned()));
    }
}

#[tokio::test]
async fn an_applied_change_takes_effect_for_clients() {
    let product = Product::start().await;
    operator(&product, "apply -f -", CATALOGUE).await;
    // The alias moves from one model to another, which still has it at first.
    let moved = CATALOGUE
        .replace(r#"aliases = ["small"]"#, r#"aliases = ["best"]"#)
        .replacen(r#"aliases = ["best"]"#, "aliases = []", 1)
        .replace(r#"["house", "small"]"#, r#"["house", "best"]"#)
        .replace("rpm = 600, ", "");
    let (code, out, err) = operator(&product, "apply -f -", &moved).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("limits.rpm: 600 -> default"), "{out}");
    let same = operator(&product, "apply --dry-run -f -", &moved).await;
    assert_eq!((same.0, same.2.as_str()), (0, "no changes\n"), "{}", same.1);
    let shown = operator(&product, "model show best -o json", "").await.1;
    assert!(shown.contains(r#""id": "tiny""#), "{shown}");

    operator(&product, "account credit operator 5 --reason test", "").await;
    let key = operator(&product, "key create k --quiet", "").await.1;
    let pruned = moved.split("[models.tiny]").next().unwrap().replace(r#", "best""#, "");
    let (code, out, err) = operator(&product, "apply --prune --yes -f -", &pruned).await;
    assert_eq!(code, 0, "{out}{err}");
    let answer = product.chat(key.trim(), &question("best", "hi")).answer().await;
    assert_eq!(answer.status, 404);
    let answer = product.chat(key.trim(), &question("house", "hi")).answer().await;
    assert_eq!(answer.status, 200, "{}", answer.json());
}

#[tokio::test]
async fn the_example_catalogue_can_be_applied() {
    let product = Product::start().await;
    for expected in ["added plan team\n", "no changes\n"] {
        let (code, _, err) = operator(&product, "apply -f -", examples::CATALOGUE).await;
        assert_eq!(code, 0, "{err}");
        assert!(err.ends_with(expected), "{err}");
    }
}

/// Errors of a catalogue as a whole: some or all of its parts would be valid alone.
#[tokio::test]
async fn an_invalid_file_changes_nothing_and_its_dry_run_fails_alike() {
    let product = Product::start().await;
    operator(&product, "apply -f -", CATALOGUE).await;
    let exported = operator(&product, "export", "").await.1;
    let audited = operator(&product, "audit list -o json", "").await.1;
    let missing_upstream = CATALOGUE.replace("rpm = 600", "rpm = 601").replace(
        r#"deployments = [{ upstream = "local", weight"#,
        r#"deployments = [{ upstream = "nowhere", weight"#,
    );
    let taken_alias = CATALOGUE.replace(r#"["small"]"#, r#"["best"]"#);
    let missing_model = CATALOGUE
        .replace("idle_ms = 5000", "idle_ms = 6000")
        .replace(r#"models = ["house", "small"]"#, r#"models = ["house", "none"]"#);
    let used = CATALOGUE
        .split("[models.house]")
        .next()
        .unwrap()
        .replace("[upstreams.local]", "[upstreams.other]");
    let used = used.replace(r#"models = ["house", "small"]"#, "models = []")
        + "[models.tiny]\ndeployments = [{ upstream = \"local\" }]\n";
    for (file, flags, expected) in [
        (&missing_upstream, "", "model tiny: upstream `nowhere` does not exist"),
        (&taken_alias, "", "`best` is a name of model"),
        (&missing_model, "", "plan team: model `none` does not exist"),
        (&used, "--prune --yes ", "upstream `local` serves `tiny`"),
    ] {
        for dry in ["--dry-run ", ""] {
            let (code, _, err) = operator(&product, &format!("apply {dry}{flags}-f -"), file).await;
            assert!(code != 0 && err.contains(expected), "{dry}{expected}: {code} {err}");
            assert_eq!(operator(&product, "export", "").await.1, exported, "{expected}");
        }
    }
    assert_eq!(
        operator(&product, "audit list -o json", "").await.1,
        audited,
        "nothing was changed"
    );
}

#[tokio::test]
async fn every_applied_change_has_an_audit_entry() {
    let product = Product::start().await;
    let (code, _, err) = operator(&product, "apply -f -", CATALOGUE).await;
    assert_eq!(code, 0, "{err}");
    let changed = CATALOGUE.replace(r#"output_usd = "2""#, r#"output_usd = "3.5""#);
    let changed =
        changed.replace("tpm = 90000", "rpm = 7").replace("rpm = 600", "monthly_tokens = 9");
    let (code, _, err) = operator(&product, "apply -f -", &changed).await;
    assert_eq!(code, 0, "{err}");
    let log = operator(&product, "audit list -o csv", "").await.1;
    for line in [
        "model.update,house,,\"rpm: none -> 7, tpm: 90000 -> none, output_usd: 2 -> 3.5, price_version: 1 -> 2\"",
        "plan.put,team,,\"rpm: 600 -> none, monthly_tokens: none -> 9\"",
        "plan.put,team,,\"trial_credit_usd: 2.5, rpm: 600, concurrency: 8, max_keys: 100, models: [house, tiny]\"",
        "upstream.add,remote,,\"url: `https://api.example/v1`, credential: env `REMOTE_KEY`, profile: generic\"",
    ] {
        assert!(log.contains(line), "{line} is not in {log}");
    }
}
