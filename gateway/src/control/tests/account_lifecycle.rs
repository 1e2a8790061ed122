//! Renamed, closed and deleted accounts.

use secrecy::ExposeSecret;

use super::super::audit::AuditQuery;
use super::super::invites::InviteRequest;
use super::super::keys::NewKey;
use super::*;
use domain::account::AccountStatus;
use domain::key::KeyDigest;
use domain::response::StoredResponse;
use store::RequestFilter;

#[tokio::test]
async fn a_renamed_account_keeps_its_id_and_frees_its_name() {
    let bench = Bench::new(Registration::Open).await;
    let (ann, _) = (bench.member("ann").await, bench.member("bob").await);
    let control = &bench.control;
    let rename = async |from: &str, to: &str| {
        control.rename_account(&bench.operator, from, to).await.map(|view| view.account)
    };
    for taken in ["bob", "BOB", "operator", "deleted-1"] {
        rename("ann", taken).await.unwrap_err();
    }
    assert!(matches!(rename("operator", "root2").await, Err(ControlError::InUse(_))));
    let carol = rename("ann", "carol").await.unwrap();
    assert_eq!((carol.id, carol.name.as_str()), (ann.account.id, "carol"));
    assert_eq!(rename("carol", "carol").await.unwrap(), carol, "idempotent");
    assert_eq!(rename("carol", "Carol").await.unwrap().name, "Carol", "only the case changes");

    let sign_in = async |name: &str| control.sign_in(None, name, PASSWORD.into()).await;
    sign_in("carol").await.unwrap();
    sign_in("ann").await.unwrap_err();
    let other = bench.member("ann").await;
    assert_ne!(other.account.id, ann.account.id);

    // A repeated call with an idempotency key finds the account under its new name.
    let keyed = || {
        let caller = bench.operator.clone();
        control.with_idempotency_key(caller, "Rename", "k", b"ann to eve").unwrap()
    };
    let first = control.rename_account(&keyed(), "ann", "eve").await.unwrap().account;
    let second = control.rename_account(&keyed(), "ann", "eve").await.unwrap().account;
    assert_eq!((first.id, second), (other.account.id, first));
}

/// An entry about a change of the operator.
fn audit_entry(bench: &Bench) -> domain::audit::AuditEntry {
    domain::audit::AuditEntry {
        at: bench.clock.now(),
        actor: Some(bench.operator.account.id),
        address: None,
        action: domain::audit::AuditAction::SessionCreate,
        object: String::new(),
        account: None,
        details: String::new(),
        call: None,
    }
}

#[tokio::test]
async fn a_closed_account_has_no_access_and_keeps_its_balance() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    let control = &bench.control;
    let signed_in = control.sign_in(None, "ann", PASSWORD.into()).await.unwrap();
    let new_key = NewKey { label: "laptop".into(), ..NewKey::default() };
    let (_, secret) = control.create_key(&ann, new_key.clone()).await.unwrap();
    let digest = KeyDigest::of(secret.expose_secret());

    let refused = control.close_account(&bench.operator, "operator").await;
    assert!(matches!(refused, Err(ControlError::InUse(_))), "{refused:?}");
    let closed = control.close_account(&bench.operator, "ann").await.unwrap();
    let again = control.close_account(&bench.operator, "ann").await.unwrap();
    assert_eq!((closed.account.status, again.balance), (AccountStatus::Closed, closed.balance));
    assert_eq!(closed.balance, Nanos(5_000_000_000));
    assert!(!control.directory.find_key(&digest).unwrap().is_usable(bench.clock.now()));
    control.authenticate(&signed_in.token, None).await.unwrap_err();
    let refused = control.sign_in(None, "ann", PASSWORD.into()).await.unwrap_err();
    assert!(matches!(&refused, ControlError::Forbidden(text) if text.contains("closed")));
    control.create_key(&ann, new_key.clone()).await.unwrap_err();
    // Another gateway may have opened a session before it knew that the account was closed.
    let session = domain::account::Session {
        id: domain::id::SessionId::new("late"),
        digest: super::super::token::digest(&signed_in.token),
        account: ann.account.id,
        created_at: bench.clock.now(),
        expires_at: bench.clock.now() + Duration::from_hours(1),
    };
    let hash = control.store.find_password_hash("ann").await.unwrap().unwrap().1;
    control.store.add_session(&session, &hash, 9, &audit_entry(&bench)).await.unwrap();
    control.authenticate(&signed_in.token, None).await.unwrap_err();
    control.refuse_if_demoted(&ann).unwrap_err();
    let kept = control.store.load().await.unwrap();
    assert!(kept.accounts.contains(&closed.account), "{kept:?}");
    assert!(kept.keys.is_empty());

    control.resume_account(&bench.operator, "ann").await.unwrap();
    control.sign_in(None, "ann", PASSWORD.into()).await.unwrap();
    assert!(!control.directory.find_key(&digest).unwrap().is_usable(bench.clock.now()));
    control.create_key(&ann, new_key).await.unwrap();
}

#[tokio::test]
async fn an_invite_of_a_closed_account_is_refused() {
    let bench = Bench::new(Registration::Invite).await;
    let (eve, control) = (bench.member("eve").await, &bench.control);
    control.grant_role(&bench.operator, "eve", domain::account::Role::Operator).await.unwrap();
    let eve = Caller { account: control.directory.find_account(eve.account.id).unwrap(), ..eve };
    let invite = control.create_invite(&eve, InviteRequest::default()).await.unwrap();
    control.close_account(&bench.operator, "eve").await.unwrap();
    let register =
        async || control.register(None, None, "bob", PASSWORD.into(), &invite.code).await.map(drop);
    assert!(matches!(register().await, Err(ControlError::Forbidden(_))));
    control.resume_account(&bench.operator, "eve").await.unwrap();
    register().await.unwrap();
}

#[tokio::test]
async fn a_smaller_role_changes_nothing_of_an_account_with_a_greater_one() {
    let bench = Bench::new(Registration::Open).await;
    let (eve, owner, control) =
        (bench.member("eve").await, bench.member("owner-two").await, &bench.control);
    let new_key = NewKey { label: "theirs".into(), ..NewKey::default() };
    let (key, _) = control.create_key(&owner, new_key).await.unwrap();
    control.grant_role(&bench.operator, "eve", domain::account::Role::Operator).await.unwrap();
    control.grant_role(&bench.operator, "owner-two", domain::account::Role::Owner).await.unwrap();
    let eve = Caller { account: control.directory.find_account(eve.account.id).unwrap(), ..eve };
    for refused in [
        control.credit_account(&eve, "owner-two", Nanos(-1), "theft").await.map(drop),
        control.set_plan(&eve, "owner-two", "free".into()).await.map(drop),
        control.close_account(&eve, "owner-two").await.map(drop),
        control.revoke_key(&eve, key.key.id.as_str()).await.map(drop),
    ] {
        assert!(
            matches!(&refused, Err(ControlError::Forbidden(text)) if text.contains("`owner`")),
            "{refused:?}"
        );
    }
    control.revoke_key(&owner, key.key.id.as_str()).await.unwrap();
}

/// Texts that must be gone after a deletion.
const PRIVATE: [&str; 6] = [
    "annabel@example.org",
    "earlier-name",
    "private-label",
    "private-reason",
    "private-prompt",
    "private-note",
];

/// Returns the private texts in the files of the database.
fn private_texts_in_files(bench: &Bench) -> Vec<&'static str> {
    let read = |name: &str| std::fs::read(bench.dir.path().join(name)).unwrap_or_default();
    let files = [read("gateway.db"), read("gateway.db-wal")].concat();
    let has = |text: &&str| files.windows(text.len()).any(|part| part == text.as_bytes());
    PRIVATE.into_iter().filter(has).collect()
}

/// Registers an account and stores all private texts.
async fn account_with_texts(bench: &Bench) -> AccountId {
    let control = &bench.control;
    let ann = bench.member("earlier-name").await;
    let id = ann.account.id;
    control.rename_account(&bench.operator, "earlier-name", PRIVATE[0]).await.unwrap();
    let label = NewKey { label: "private-label".into(), ..NewKey::default() };
    control.create_key(&ann, label).await.unwrap();
    let caller = bench.operator.clone();
    let keyed = control.with_idempotency_key(caller, "Credit", "k", b"credit").unwrap();
    control.credit_account(&keyed, PRIVATE[0], Nanos(9), "private-reason").await.unwrap();
    let record = RequestRecord {
        cost: None,
        notes: vec!["private-note".into()],
        idempotency: Some(domain::idempotency::IdempotencyDigest([7; 32])),
        ..bench.request(id)
    };
    control.store.commit(Arc::new(vec![record])).await.unwrap();
    let raw = |text: &str| serde_json::value::RawValue::from_string(text.to_owned()).unwrap();
    let responses = (0..300_u128).map(|number| StoredResponse {
        id: RequestId(uuid::Uuid::from_u128(number)),
        account: id,
        previous: None,
        created_at: bench.clock.now(),
        input: raw(r#"[{"role":"user","content":"private-prompt"}]"#).get().into(),
        object: raw("{}").get().into(),
        items: vec![format!("item-{number}")],
    });
    control.store.keep_responses(responses.collect(), 1 << 30).await.unwrap();
    id
}

/// Checks that nothing but the pseudonym and the ledger is left.
async fn assert_gone(bench: &Bench, id: AccountId, balance: Nanos) {
    let control = &bench.control;
    let store = &control.store;
    let first = store.find_response(id, RequestId(uuid::Uuid::from_u128(0))).await.unwrap();
    assert!(first.is_none());
    let filter = RequestFilter { account: Some(id), ..RequestFilter::default() };
    let records = store.requests_before(&filter, None, 9).await.unwrap();
    assert_eq!(records.len(), 1);
    assert!(records[0].1.notes.is_empty() && records[0].1.idempotency.is_none());
    let pseudonym = format!("deleted-{id}");
    let log = control.list_audit(&bench.operator, AuditQuery::default(), 99, "").await.unwrap();
    let own = log.items.iter().map(|view| &view.entry).filter(|entry| entry.actor == Some(id));
    assert!(own.clone().count() > 0 && own.clone().all(|entry| entry.address.is_none()));
    let text = format!("{log:?}");
    assert!(PRIVATE.iter().all(|private| !text.contains(private)), "{text}");
    assert!(text.contains("account.credit") || text.contains("AccountCredit"));
    let found = control.get_account(&bench.operator, &pseudonym).await.unwrap();
    assert_eq!((found.account.status, found.balance), (AccountStatus::Deleted, balance));
    let verified = control.verify_ledger(&bench.operator).await.unwrap();
    assert!(verified.proof.is_consistent(), "{verified:?}");
    assert_eq!(private_texts_in_files(bench), Vec::<&str>::new());
}

#[tokio::test]
async fn a_deleted_account_leaves_only_its_ledger_under_a_pseudonym() {
    let bench = Bench::new(Registration::Open).await;
    let control = &bench.control;
    let id = account_with_texts(&bench).await;
    let delete = async |account: &str, confirm: &str| {
        control.delete_account(&bench.operator, account, confirm).await
    };
    let name = PRIVATE[0];
    let refused = delete(name, name).await.unwrap_err();
    assert!(matches!(&refused, ControlError::InUse(text) if text.contains("ctl account close")));
    let balance = control.close_account(&bench.operator, name).await.unwrap().balance;
    assert_eq!(field(delete(name, "ann").await), "confirm");
    assert_eq!(private_texts_in_files(&bench), PRIVATE, "the search finds what is there");

    let deleted = delete(name, name).await.unwrap();
    assert_eq!(deleted.account.id, id);
    assert_gone(&bench, id, balance).await;
    delete(&id.to_string(), "").await.unwrap();
    delete(name, name).await.unwrap_err();
    for change in [
        control.resume_account(&bench.operator, &id.to_string()).await,
        control.rename_account(&bench.operator, &id.to_string(), "ann").await,
        control.close_account(&bench.operator, &id.to_string()).await,
        control.credit_account(&bench.operator, &id.to_string(), Nanos(1), "late").await,
    ] {
        assert!(matches!(change, Err(ControlError::InUse(_))), "{change:?}");
    }
    // The name is free, and its new owner is another account.
    assert_ne!(bench.member(name).await.account.id, id);
}

#[tokio::test]
async fn an_interrupted_deletion_is_completed_later() {
    let bench = Bench::new(Registration::Open).await;
    let control = &bench.control;
    let id = account_with_texts(&bench).await;
    let closed = control.close_account(&bench.operator, PRIVATE[0]).await.unwrap();
    // What a crash behind the first transaction and one step leaves.
    let (deleted, now) = (closed.account.deleted(), bench.clock.now());
    let audit = domain::audit::AuditEntry {
        action: domain::audit::AuditAction::AccountDelete,
        object: deleted.name.clone(),
        account: Some(id),
        ..audit_entry(&bench)
    };
    control.store.delete_account(&deleted, "", now, &audit).await.unwrap();
    assert_eq!(control.store.purge_deleted(now, 7).await.unwrap(), 7);
    let dir = bench.dir.clone();
    drop(bench);

    let bench = Bench::over(dir, Registration::Open).await;
    let control = &bench.control;
    control.delete_account(&bench.operator, &id.to_string(), "").await.unwrap();
    assert_gone(&bench, id, closed.balance).await;
    // A response of a request that ended after the deletion is removed by a later sweep.
    let late = StoredResponse {
        id: RequestId(uuid::Uuid::from_u128(999)),
        account: id,
        previous: None,
        created_at: now,
        input: "[]".into(),
        object: "{}".into(),
        items: Vec::new(),
    };
    control.store.keep_responses(vec![late], 1 << 30).await.unwrap();
    assert_eq!(control.store.purge_deleted(now, 7).await.unwrap(), 1);
    let settled = now + Duration::from_secs(1);
    assert_eq!(control.store.purge_deleted(settled, 7).await.unwrap(), 0);
}
