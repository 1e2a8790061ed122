//! The audit log.

use super::super::audit::AuditQuery;
use super::super::invites::InviteRequest;
use super::super::keys::NewKey;
use super::super::plans::NewPlan;
use super::super::upstreams::NewCredential;
use super::*;
use domain::audit::AuditAction;
use domain::id::PlanName;
use domain::limit::Limits;

/// Returns the entries visible to `caller`, oldest first, as `actor action object (account)
/// details`.
async fn log(bench: &Bench, caller: &Caller, query: AuditQuery) -> Vec<String> {
    let page = bench.control.list_audit(caller, query, 1_000, "").await.unwrap();
    let line = |view: super::super::audit::AuditView| {
        let entry = view.entry;
        let action = entry.action.as_str();
        format!("{} {action} {} ({}) {}", view.actor, entry.object, view.account, entry.details)
    };
    page.items.into_iter().rev().map(line).collect()
}

#[tokio::test]
async fn every_change_is_audited_without_secrets() {
    let bench = Bench::new(Registration::Open).await;
    let (control, operator) = (&bench.control, &bench.operator);
    let ann = bench.member("ann").await;
    let request = NewKey { label: "ci".into(), ..NewKey::default() };
    let (key, secret) = control.create_key(&ann, request).await.unwrap();
    let (new, _) = control.rotate_key(&ann, key.key.id.as_str(), Duration::ZERO).await.unwrap();
    control.revoke_key(operator, new.key.id.as_str()).await.unwrap();
    control.credit_account(operator, "ann", Nanos(2_000_000_000), "gift").await.unwrap();
    let invited = control.create_invite(operator, InviteRequest::default()).await.unwrap();
    control.suspend_account(operator, "ann", "spam").await.unwrap();
    control.resume_account(operator, "ann").await.unwrap();
    let new_password = "another horse";
    control.change_password(&ann, None, PASSWORD.into(), new_password.into()).await.unwrap();
    control.revoke_other_sessions(&ann).await.unwrap();
    bench.model("m").await;
    control.update_model(operator, "m".into(), ModelChange::default()).await.unwrap();
    control.remove_model(operator, "m".into()).await.unwrap();
    let sim = UpstreamName::new("sim");
    let hidden = crate::control::upstreams::NewCredential::Secret("sk-hidden".into());
    let change = UpstreamChange { credentials: Some(vec![hidden]), ..UpstreamChange::default() };
    control.update_upstream(operator, sim.to_string(), change).await.unwrap();
    control.remove_upstream(operator, sim.to_string()).await.unwrap();

    let lines = log(&bench, operator, AuditQuery::default()).await;
    let (old, new) = (&key.key.id, &new.key.id);
    let now = bench.clock.now();
    let week = now + Duration::from_hours(7 * 24);
    let model = "input_usd: 0, cached_usd: 0, output_usd: 0, price_version: 1, deployments: [sim:m], routing: weighted";
    let (sign_ins, lines): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| line.contains(" session.create "));
    let expected = [
        " account.register operator (operator) by the first start, plan `free`, credit 5 dollars"
            .to_owned(),
        "operator account.register ann (ann) plan `free`, trial credit 5 dollars".to_owned(),
        format!("ann key.create {old} (ann) label: `ci`"),
        format!("ann key.rotate {old} (ann) label `ci`, replaced by `{new}`, ends {now}"),
        format!("operator key.revoke {new} (ann) label `ci`"),
        "operator account.credit ann (ann) 2 dollars: gift".to_owned(),
        format!("operator account.invite {} () until {week}", invited.invite.invite.id),
        "operator account.suspend ann (ann) spam".to_owned(),
        "operator account.resume ann (ann) ".to_owned(),
        "ann account.password ann (ann) ".to_owned(),
        "ann session.revoke_others ann (ann) ".to_owned(),
        "operator upstream.add sim () url: `sim:`, profile: generic".to_owned(),
        format!("operator model.add m () {model}"),
        "operator model.update m () no change".to_owned(),
        format!("operator model.remove m () {model}"),
        "operator upstream.update sim () credential: none -> sealed".to_owned(),
        "operator upstream.remove sim () url: `sim:`, credential: sealed, profile: generic"
            .to_owned(),
    ];
    assert_eq!(lines, expected);
    let [sign_in] = &sign_ins[..] else { panic!("{sign_ins:?}") };
    assert!(sign_in.starts_with("ann ") && sign_in.ends_with(" (ann) from the admin socket"));
    let shown = lines.concat();
    for secret in
        [PASSWORD, new_password, "sk-hidden", secrecy::ExposeSecret::expose_secret(&secret)]
    {
        assert!(!shown.contains(secret));
    }
}

#[tokio::test]
async fn an_entry_has_the_old_and_new_values() {
    let bench = Bench::new(Registration::Open).await;
    let (control, operator) = (&bench.control, &bench.operator);
    bench.model("m").await;
    let dollars = |amount: i64| Nanos(amount * 1_000_000_000);
    let limits = |rpm| Limits { rpm, ..Limits::default() };
    for (output, rpm, description) in [(2, 60, "first"), (3, 0, "second")] {
        let change = ModelChange {
            output: Some(dollars(output)),
            limits: limits(Some(rpm)),
            description: Some(description.into()),
            ..ModelChange::default()
        };
        control.update_model(operator, "m".into(), change).await.unwrap();
    }
    for monthly_tokens in [None, Some(1_000_000)] {
        let limits = Limits { monthly_tokens, ..Limits::default() };
        let (name, trial_credit) = (PlanName::new("free"), dollars(5));
        let plan = NewPlan { name, trial_credit, limits, max_keys: None, models: Vec::new() };
        control.put_plan(operator, plan).await.unwrap();
    }
    let upstream_change = |url: &str, secret: &str| UpstreamChange {
        url: Some(url.into()),
        credentials: Some(vec![NewCredential::Secret(secret.into())]),
        ..UpstreamChange::default()
    };
    for (url, secret) in [("http://a/v1", "sk-one"), ("http://a/v1", "sk-two"), ("sim:", "sk-two")]
    {
        control
            .update_upstream(operator, "sim".into(), upstream_change(url, secret))
            .await
            .unwrap();
    }
    let lines = log(&bench, operator, AuditQuery::default()).await;
    let details = |line: &String| line.split_once(" () ").unwrap().1.to_owned();
    let details: Vec<_> = lines.iter().skip(3).map(details).collect();
    assert_eq!(
        details,
        [
            "description: none -> `first`, rpm: none -> 60, output_usd: 0 -> 2, price_version: 1 -> 2",
            "description: `first` -> `second`, rpm: 60 -> none, output_usd: 2 -> 3, price_version: 2 -> 3",
            "no change",
            "monthly_tokens: none -> 1000000",
            "url: `sim:` -> `http://a/v1`, credential: none -> sealed",
            "credential: sealed -> sealed anew",
            "url: `http://a/v1` -> `sim:`, credential: sealed -> sealed anew",
        ]
    );
    assert!(!lines.concat().contains("sk-"), "{lines:?}");
}

#[tokio::test]
async fn members_read_only_the_entries_of_their_account() {
    let bench = Bench::new(Registration::Open).await;
    let (ann, bob) = (bench.member("ann").await, bench.member("bob").await);
    bench.control.suspend_account(&bench.operator, "bob", "spam").await.unwrap();
    bench.model("m").await;
    let seen = log(&bench, &ann, AuditQuery::default()).await;
    assert!(seen.len() == 2 && seen[0].contains("register ann"), "{seen:?}");
    let seen = log(&bench, &bob, AuditQuery::default()).await;
    assert!(seen.len() == 3 && seen[2].ends_with("(bob) spam"), "the reason is visible: {seen:?}");
    let of = |name: &str| AuditQuery { account: Some(name.into()), ..AuditQuery::default() };
    let refused = bench.control.list_audit(&ann, of("bob"), 9, "").await;
    assert!(matches!(refused, Err(ControlError::NotFound(_))), "{refused:?}");
    assert_eq!(log(&bench, &bench.operator, of("bob")).await.len(), 3);
}

#[tokio::test]
async fn a_refused_change_has_no_entry_and_pages_are_contiguous() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    let request = NewKey { label: " ".into(), ..NewKey::default() };
    bench.control.create_key(&ann, request).await.unwrap_err();
    bench.control.revoke_session(&ann, "nix").await.unwrap_err();
    let all = log(&bench, &bench.operator, AuditQuery::default()).await;
    assert_eq!(all.len(), 3, "{all:?}");
    let list = async |token: &str| {
        bench.control.list_audit(&bench.operator, AuditQuery::default(), 1, token).await
    };
    let first = list("").await.unwrap();
    assert_eq!(first.items[0].entry.action, AuditAction::SessionCreate);
    let second = list(&first.next.unwrap()).await.unwrap();
    assert_eq!(second.items[0].entry.object, "ann");
    let third = list(&second.next.unwrap()).await.unwrap();
    assert_eq!((third.items[0].entry.object.as_str(), third.next), ("operator", None));
    assert_eq!(field(list("x").await), "page_token");
}
