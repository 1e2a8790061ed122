//! Several people in one account: what each may do, and what ends with a person.

use proto::v1;
use proto::v1::PersonRole::{Admin, Member};
use tests::{NewKey, Product, Session, question};
use tonic::{Code, Status};

async fn status_of(product: &Product, key: &NewKey) -> u16 {
    product.chat(&key.secret, &question("sim-chat", "hi")).answer().await.status
}

async fn add(by: &Session, account: &str, name: &str) -> Result<v1::AddPersonResponse, Status> {
    let (account, name) = (account.to_owned(), name.to_owned());
    let request = v1::AddPersonRequest { account, name, role: Member.into() };
    by.people().add_person(request).await.map(tonic::Response::into_inner)
}

async fn set_role(by: &Session, person: &str, role: v1::PersonRole) -> Result<v1::Person, Status> {
    let request = v1::SetPersonRoleRequest { person: person.to_owned(), role: role.into() };
    Ok(by.people().set_person_role(request).await?.into_inner().person.unwrap())
}

async fn remove(by: &Session, person: &str) -> Result<(), Status> {
    let request = v1::RemovePersonRequest { person: person.to_owned() };
    by.people().remove_person(request).await.map(drop)
}

async fn revoke(by: &Session, key: &NewKey) -> Result<v1::Key, Status> {
    let request = v1::RevokeKeyRequest { id: key.id.clone() };
    Ok(by.keys().revoke_key(request).await?.into_inner().key.unwrap())
}

async fn reset_code(by: &Session, name: &str) -> Result<String, Status> {
    let request = v1::CreatePasswordResetRequest { account: name.to_owned() };
    Ok(by.accounts().create_password_reset(request).await?.into_inner().code)
}

async fn log(session: &Session, account: &str) -> Vec<v1::AuditEntry> {
    let account = account.to_owned();
    let request = v1::ListAuditRequest { account, page_size: 1_000, ..Default::default() };
    session.audit().list_audit(request).await.unwrap().into_inner().entries
}

#[track_caller]
fn expect<T: std::fmt::Debug>(outcome: Result<T, Status>, code: Code) {
    assert_eq!(outcome.unwrap_err().code(), code);
}

#[tokio::test]
async fn people_act_for_the_account_each_within_a_role() {
    let product = Product::start().await;
    let acme = product.member("acme").await;
    let admin = acme.person(&product.admin, "carol@example.org", Admin).await;
    let member = admin.person(&product.admin, "dave", Member).await;
    assert_eq!(member.account().await, acme.account().await);
    let (of_owner, of_admin, of_member) = (acme.key().await, admin.key().await, member.key().await);
    for key in [&of_owner, &of_admin, &of_member] {
        assert_eq!(status_of(&product, key).await, 200);
    }
    // All see the requests and the keys of the account, with who created them.
    assert_eq!(member.records(3).await.len(), 3);
    let keys = member.keys().list_keys(v1::ListKeysRequest::default()).await.unwrap();
    let mut creators: Vec<_> =
        keys.into_inner().keys.into_iter().map(|key| (key.account, key.created_by)).collect();
    creators.sort();
    let names = ["acme", "carol@example.org", "dave"];
    assert_eq!(creators, names.map(|name| ("acme".to_owned(), name.to_owned())));

    // A member changes its own keys only, and manages no people.
    expect(revoke(&member, &of_owner).await, Code::PermissionDenied);
    let id = of_admin.id.clone();
    let rotation = v1::RotateKeyRequest { id: id.clone(), overlap_seconds: 0 };
    expect(member.keys().rotate_key(rotation).await, Code::PermissionDenied);
    let change = v1::UpdateKeyRequest { id, label: Some("mine".to_owned()), ..Default::default() };
    expect(member.keys().update_key(change).await, Code::PermissionDenied);
    revoke(&member, &of_member).await.unwrap();
    expect(add(&member, "", "eric").await, Code::PermissionDenied);
    expect(set_role(&member, "dave", Admin).await, Code::PermissionDenied);
    expect(remove(&member, "carol@example.org").await, Code::PermissionDenied);
    expect(reset_code(&member, "carol@example.org").await, Code::PermissionDenied);
    let export = v1::ExportResponsesRequest::default();
    expect(member.usage().export_responses(export.clone()).await, Code::PermissionDenied);
    admin.usage().export_responses(export).await.unwrap();
    // An admin manages keys and people, but not the owner's password.
    revoke(&admin, &of_owner).await.unwrap();
    expect(reset_code(&admin, "acme").await, Code::PermissionDenied);
    assert_eq!(set_role(&admin, "dave", Admin).await.unwrap().role(), Admin);
    revoke(&member, &of_admin).await.unwrap();
    assert_eq!(set_role(&acme, "dave", Member).await.unwrap().role(), Member);
    expect(add(&member, "", "eric").await, Code::PermissionDenied);

    // The log names the person as well as the account.
    let made: Vec<_> = log(&acme, "").await;
    let by = |actor: &str, action: &str| {
        made.iter()
            .filter(|it| it.actor == actor && it.action == action && it.account == "acme")
            .count()
    };
    assert_eq!((by("acme", "key.create"), by("dave", "key.create")), (1, 1));
    assert_eq!((by("dave", "key.revoke"), by("carol@example.org", "person.add")), (2, 1));
    assert_eq!((by("dave", "session.create"), by("dave", "account.password")), (1, 1));
    assert!(made.iter().all(|entry| !entry.actor.is_empty()));
    assert!(log(&admin, "dave").await.iter().all(|entry| entry.actor == "dave"));
}

/// What staff read of other people's prompts and answers is in the audit log, with who read it and from where.
#[tokio::test]
async fn reads_of_other_peoples_content_are_audited() {
    let product = Product::start().await;
    let (operator, alice) = (product.operator().await, product.member("alice").await);
    let export = async |by: &Session| {
        let request = v1::ExportResponsesRequest { account: "alice".to_owned() };
        by.usage().export_responses(request).await.unwrap();
    };
    export(&alice).await;
    let exports = async || {
        let mut made = log(&operator, "").await;
        made.retain(|entry| ["responses.export", "database.backup"].contains(&&*entry.action));
        made
    };
    assert_eq!(exports().await.len(), 0, "it is its own content");
    export(&operator).await;
    operator.maintenance().backup(v1::BackupRequest {}).await.unwrap();
    let found = exports().await;
    let seen: Vec<_> = found
        .iter()
        .map(|it| (&*it.action, &*it.object, &*it.actor, &*it.account, it.address.is_empty()))
        .collect();
    assert_eq!(
        seen,
        [
            ("database.backup", "database", "operator", "", false),
            ("responses.export", "alice", "operator", "alice", false),
        ]
    );
    let own = log(&alice, "").await;
    assert!(own.iter().any(|it| it.action == "responses.export" && it.actor == "operator"));
}

/// Regression test: support could read the prompts and answers of accounts with greater roles.
#[tokio::test]
async fn stored_responses_of_greater_roles_are_not_exported() {
    let product = Product::start().await;
    let operator = product.operator().await;
    let (sue, deputy) = (product.member("sue").await, product.member("deputy").await);
    product.member("alice").await;
    for (account, role) in [("sue", v1::Role::Support), ("deputy", v1::Role::Operator)] {
        let request = v1::GrantRoleRequest { account: account.to_owned(), role: role.into() };
        operator.accounts().grant_role(request).await.unwrap();
    }
    let export = async |by: &Session, account: &str| {
        let request = v1::ExportResponsesRequest { account: account.to_owned() };
        by.usage().export_responses(request).await.map(drop)
    };
    for (by, account, above) in
        [(&sue, "deputy", "operator"), (&sue, "operator", "owner"), (&deputy, "operator", "owner")]
    {
        let refused = export(by, account).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        let role = format!("the account `{account}` has the role `{above}`, which is above");
        assert!(refused.message().contains(&role), "{refused}");
    }
    for (by, account) in [(&sue, "alice"), (&sue, "sue"), (&deputy, "sue"), (&operator, "deputy")] {
        export(by, account).await.unwrap();
    }
    let made = log(&operator, "").await.into_iter().filter(|it| it.action == "responses.export");
    let objects: Vec<_> = made.map(|it| it.object).collect();
    assert_eq!(objects, ["deputy", "sue", "alice"]);
}

#[tokio::test]
async fn a_removed_person_loses_its_sessions_and_keeps_its_keys_and_its_name_in_the_log() {
    let product = Product::start().await;
    let acme = product.member("acme").await;
    let dave = acme.person(&product.admin, "dave", Admin).await;
    let key = dave.key().await;
    let pending = reset_code(&dave, "dave").await;
    assert_eq!(pending.unwrap_err().code(), Code::FailedPrecondition, "its own password");
    let eric = add(&dave, "", "eric").await.unwrap();
    let request = v1::WatchTrafficRequest { interval_ms: 250, ..Default::default() };
    let mut traffic = dave.traffic().watch_traffic(request).await.unwrap().into_inner();
    traffic.message().await.unwrap().unwrap();

    remove(&acme, "DAVE").await.unwrap();
    let refused = dave.accounts().who_am_i(v1::WhoAmIRequest {}).await;
    expect(refused, Code::Unauthenticated);
    let ended = tests::with_timeout("the end of the stream", async {
        loop {
            if let Err(status) = traffic.message().await {
                break status;
            }
        }
    });
    assert!([Code::Unauthenticated, Code::PermissionDenied].contains(&ended.await.code()));
    let sign_in =
        v1::SignInRequest { name: "dave".to_owned(), password: tests::password_of("dave") };
    expect(product.anonymous().await.accounts().sign_in(sign_in).await, Code::Unauthenticated);
    let code = v1::ResetPasswordRequest {
        name: "eric".to_owned(),
        code: eric.code,
        new_password: "another long one".to_owned(),
    };
    let used = product.anonymous().await.accounts().reset_password(code).await;
    assert_eq!(used.unwrap_err().code(), Code::Unauthenticated, "the code of a removed admin");
    expect(remove(&acme, "dave").await, Code::NotFound);

    let product = product.stop().await.start().await;
    assert_eq!(status_of(&product, &key).await, 200);
    let acme = Session::sign_in(&product.admin, "acme").await;
    let keys = acme.keys().list_keys(v1::ListKeysRequest::default()).await.unwrap().into_inner();
    assert_eq!(keys.keys[0].created_by, "dave");
    assert!(log(&acme, "").await.iter().any(|it| it.actor == "dave" && it.action == "key.create"));
    let people = acme.people().list_people(v1::ListPeopleRequest::default()).await.unwrap();
    let people = people.into_inner().people;
    let by_dave = log(&acme, &people[0].id).await;
    assert!(by_dave.iter().any(|it| it.action == "key.create"), "{by_dave:?}");
    let other = product.member("bob").await;
    let request = v1::ListAuditRequest { account: people[0].id.clone(), ..Default::default() };
    expect(other.audit().list_audit(request).await, Code::NotFound);
    let people: Vec<_> = people.into_iter().map(|it| (it.name, it.removed)).collect();
    assert_eq!(people, [("dave".to_owned(), true), ("eric".to_owned(), false)]);
    // The name is free for an account and taken by it.
    let account = product.member("dave").await;
    assert_eq!(account.account().await.name, "dave");
    expect(add(&acme, "", "Dave").await, Code::AlreadyExists);
    expect(add(&acme, "", "ACME").await, Code::AlreadyExists);
}

#[tokio::test]
async fn staff_accounts_have_no_people_and_people_have_no_role_of_the_gateway() {
    let product = Product::start().await;
    let (operator, acme) = (product.operator().await, product.member("acme").await);
    expect(add(&operator, "", "eve").await, Code::FailedPrecondition);
    let dave = acme.person(&product.admin, "dave", Admin).await;
    let grant = async |role: v1::Role| {
        let request = v1::GrantRoleRequest { account: "acme".to_owned(), role: role.into() };
        operator.accounts().grant_role(request).await
    };
    expect(grant(v1::Role::Support).await, Code::FailedPrecondition);
    let request = v1::GrantRoleRequest { account: "dave".to_owned(), role: v1::Role::Owner.into() };
    expect(operator.accounts().grant_role(request).await, Code::NotFound);
    remove(&operator, "dave").await.unwrap();
    grant(v1::Role::Support).await.unwrap();
    expect(add(&acme, "", "eve").await, Code::FailedPrecondition);
    expect(dave.accounts().who_am_i(v1::WhoAmIRequest {}).await, Code::Unauthenticated);
}

#[tokio::test]
async fn suspending_closing_and_deleting_an_account_covers_its_people() {
    let product = Product::start().await;
    let (operator, acme) = (product.operator().await, product.member("acme").await);
    let dave = acme.person(&product.admin, "dave", Admin).await;
    let account = || "acme".to_owned();
    let suspend = v1::SuspendAccountRequest { account: account(), reason: "late".to_owned() };
    operator.accounts().suspend_account(suspend).await.unwrap();
    let new_key = v1::CreateKeyRequest { label: "more".to_owned(), ..Default::default() };
    expect(dave.keys().create_key(new_key).await, Code::PermissionDenied);
    expect(add(&dave, "", "eve").await, Code::PermissionDenied);
    operator
        .accounts()
        .resume_account(v1::ResumeAccountRequest { account: account() })
        .await
        .unwrap();
    dave.key().await;

    let close = v1::CloseAccountRequest { account: account() };
    operator.accounts().close_account(close).await.unwrap();
    expect(dave.accounts().who_am_i(v1::WhoAmIRequest {}).await, Code::Unauthenticated);
    let sign_in =
        v1::SignInRequest { name: "dave".to_owned(), password: tests::password_of("dave") };
    let refused = product.anonymous().await.accounts().sign_in(sign_in.clone()).await;
    expect(refused, Code::PermissionDenied);
    let delete = v1::DeleteAccountRequest { account: account(), confirm: account() };
    operator.accounts().delete_account(delete).await.unwrap();
    expect(product.anonymous().await.accounts().sign_in(sign_in).await, Code::Unauthenticated);
    let request = v1::ListAuditRequest { page_size: 1_000, ..Default::default() };
    let log = operator.audit().list_audit(request).await.unwrap().into_inner();
    assert!(!format!("{log:?}").contains("dave"), "{log:?}");
    product.member("dave").await;
}

#[tokio::test]
async fn an_account_has_a_bounded_number_of_people() {
    let product = Product::start().await;
    let acme = product.member("acme").await;
    for n in 0..100 {
        add(&acme, "", &format!("person-{n:03}")).await.unwrap();
    }
    let refused = add(&acme, "", "one-more").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("ctl account people remove"), "{refused}");
    remove(&acme, "person-007").await.unwrap();
    add(&acme, "", "one-more").await.unwrap();
}
