//! No member reads or changes data of another account, by any RPC, and each role may do what it should.
//!
//! The list of RPCs comes from the descriptors: a new one fails these tests until it has a case, in
//! the file of its service.

mod accounts;
mod attempt;
mod catalogue;
mod people;
mod usage;

use prost::Message;
use proto::v1;
use tests::{Product, Session, question};
use tonic::{Code, Status};

use attempt::{Attempt, Case, attempt};

/// The callers that may use an RPC, with data of another account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Any caller may call it.
    Open,
    /// It answers with the caller's own data only.
    Own,
    /// It answers members as if the object did not exist, and serves all other roles.
    Hidden,
    /// It answers members as if the object did not exist, and needs the role operator.
    HiddenOperator,
    /// It answers members as if the object did not exist, and refuses all other roles with the code.
    Private(Code),
    /// It needs the role support.
    Support,
    /// It needs the role operator.
    Operator,
    /// It needs the role owner.
    Owner,
}

impl Rule {
    /// Returns the code with which callers with `role` are refused; `None` if they may call it.
    fn refusal(self, role: v1::Role) -> Option<Code> {
        let rank = match role {
            v1::Role::Unspecified | v1::Role::Member => 0,
            v1::Role::Support => 1,
            v1::Role::Operator => 2,
            v1::Role::Owner => 3,
        };
        let least = match self {
            Self::Open | Self::Own => 0,
            Self::Hidden | Self::HiddenOperator | Self::Private(_) if rank == 0 => {
                return Some(Code::NotFound);
            }
            Self::Private(code) => return Some(code),
            Self::Hidden | Self::Support => 1,
            Self::Operator | Self::HiddenOperator => 2,
            Self::Owner => 3,
        };
        (rank < least).then_some(Code::PermissionDenied)
    }
}

/// The account whose data must stay private.
struct Victim {
    session: Session,
    id: String,
    session_id: String,
    key: tests::NewKey,
    request: String,
    /// A person of the account, and the id of that person.
    person: Session,
    person_id: String,
}

impl Victim {
    /// The name and the id of the account.
    fn names(&self) -> [String; 2] {
        [self.session.name.clone(), self.id.clone()]
    }
}

fn every_rpc() -> Vec<String> {
    let files = prost_types::FileDescriptorSet::decode(proto::DESCRIPTOR).unwrap().file;
    let services = files.into_iter().filter(|file| file.package() == "tollgate.admin.v1");
    let rpcs: Vec<_> = services
        .flat_map(|file| file.service)
        .flat_map(|service| {
            let name = service.name().to_owned();
            service.method.into_iter().map(move |method| format!("{name}/{}", method.name()))
        })
        .collect();
    assert!(rpcs.len() >= 40, "{rpcs:?}");
    rpcs
}

fn code(attempt: &Attempt) -> Code {
    attempt.as_ref().map_or_else(Status::code, |_| Code::Ok)
}

/// Returns an account with a key, a request and a balance that no other account has.
async fn victim(product: &Product) -> Victim {
    let session = product.member("alice").await;
    product.operator().await.credit("alice", "1234.567").await;
    let key = session.key_with(|key| key.label = "private-label".into()).await;
    product.chat(&key.secret, &question("sim-chat", "hi")).answer().await;
    let request = session.record().await.id;
    let id = session.account().await.id;
    let sessions = session.accounts().list_sessions(v1::ListSessionsRequest {}).await.unwrap();
    let session_id = sessions.into_inner().sessions.remove(0).id;
    let person = session.person(&product.admin, "zoe-of-alice", v1::PersonRole::Member).await;
    let caller = person.accounts().who_am_i(v1::WhoAmIRequest {}).await.unwrap().into_inner();
    let person_id = caller.person.unwrap().id;
    Victim { session, id, session_id, key, request, person, person_id }
}

#[tokio::test]
async fn no_rpc_gives_a_member_data_of_another_account() {
    let product = Product::start().await;
    let bob = product.member("bob").await;
    no_rpc_gives_data_of_another_account(&product, &bob).await;
}

#[tokio::test]
async fn no_rpc_gives_an_admin_of_an_account_data_of_another_account() {
    let product = Product::start().await;
    let bob = product.member("bob").await;
    let carol = bob.person(&product.admin, "carol", v1::PersonRole::Admin).await;
    no_rpc_gives_data_of_another_account(&product, &carol).await;
}

async fn no_rpc_gives_data_of_another_account(product: &Product, caller: &Session) {
    let victim = victim(product).await;
    let before = victim.session.account().await;
    for rpc in every_rpc() {
        let Case { rule, attempts, foreign } = attempt(&rpc, caller, &victim).await;
        let expected = rule.refusal(v1::Role::Member).unwrap_or(Code::Ok);
        let attempts = attempts.into_iter().map(|attempt| (attempt, expected));
        for (attempt, expected) in attempts.chain(foreign) {
            assert_eq!(code(&attempt), expected, "{rpc}: {attempt:?}");
            let Ok(text) = attempt else { continue };
            let ids = [
                &victim.id,
                &victim.session_id,
                &victim.key.id,
                &victim.request,
                &victim.person_id,
            ];
            for private in ids.into_iter().chain([&victim.key.secret]) {
                assert!(!text.contains(&**private), "{rpc}: {text}");
            }
            if rpc == "UsageService/SummarizeUsage" {
                assert!(text.contains("requests: 0"), "{text}");
            }
            for private in ["alice", "private-label", "1239.56"] {
                assert!(!text.contains(private), "{rpc}: {text}");
            }
        }
    }
    assert_eq!(victim.session.account().await, before, "the victim's account is unchanged");
    assert_eq!(victim.person.account().await, before, "the session of its person is open");
    let answer = product.chat(&victim.key.secret, &question("sim-chat", "hi")).answer().await;
    assert_eq!(answer.status, 200, "the key still works");
}

#[tokio::test]
async fn each_role_may_call_what_its_rule_says() {
    for role in [v1::Role::Support, v1::Role::Operator, v1::Role::Owner] {
        let product = Product::start().await;
        let victim = victim(&product).await;
        let bob = product.member("bob").await;
        let request = v1::GrantRoleRequest { account: "bob".into(), role: role.into() };
        product.operator().await.accounts().grant_role(request).await.unwrap();
        for rpc in every_rpc() {
            let Case { rule, attempts, foreign } = attempt(&rpc, &bob, &victim).await;
            for attempt in &attempts {
                if let Some(expected) = rule.refusal(role) {
                    assert_eq!(code(attempt), expected, "{rpc}: {attempt:?}");
                } else {
                    // A call that is permitted may fail because of the state of the gateway.
                    let refused = [Code::PermissionDenied, Code::Unauthenticated];
                    assert!(!refused.contains(&code(attempt)), "{role:?} {rpc}: {attempt:?}");
                }
            }
            for (attempt, _) in foreign {
                assert_eq!(code(&attempt), Code::Ok, "{role:?} {rpc}: {attempt:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_role_is_lost_at_once_by_open_sessions_and_streams() {
    let product = Product::start().await;
    let (operator, bob) = (product.operator().await, product.member("bob").await);
    let grant = async |role: v1::Role| {
        let request = v1::GrantRoleRequest { account: "bob".into(), role: role.into() };
        operator.accounts().grant_role(request).await.unwrap();
    };
    grant(v1::Role::Support).await;
    let request = v1::WatchTrafficRequest { account: "*".to_owned(), interval_ms: 250 };
    let mut traffic = bob.traffic().watch_traffic(request).await.unwrap().into_inner();
    traffic.message().await.unwrap().unwrap();
    let list = async || bob.accounts().list_accounts(v1::ListAccountsRequest::default()).await;
    list().await.unwrap();

    grant(v1::Role::Member).await;
    assert_eq!(list().await.unwrap_err().code(), Code::PermissionDenied);
    let ended = tests::with_timeout("the end of the stream", async {
        loop {
            if let Err(status) = traffic.message().await {
                break status;
            }
        }
    });
    assert_eq!(ended.await.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn the_last_owner_keeps_its_role_and_no_smaller_role_suspends_it() {
    let product = Product::start().await;
    let owner = product.operator().await;
    let bob = product.member("bob").await;
    let grant = async |session: &Session, account: &str, role: v1::Role| {
        let request = v1::GrantRoleRequest { account: account.into(), role: role.into() };
        session.accounts().grant_role(request).await.map(tonic::Response::into_inner)
    };
    let suspend = async |session: &Session, account: &str| {
        let (account, reason) = (account.to_owned(), "a test".to_owned());
        session.accounts().suspend_account(v1::SuspendAccountRequest { account, reason }).await
    };
    let refused = grant(&owner, "operator", v1::Role::Member).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    grant(&owner, "bob", v1::Role::Operator).await.unwrap();
    let refused = suspend(&bob, "operator").await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");

    // With another owner, the account of the operator token can be suspended; then bob is the last.
    grant(&owner, "bob", v1::Role::Owner).await.unwrap();
    suspend(&bob, "operator").await.unwrap();
    let refused = grant(&bob, "bob", v1::Role::Member).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let twice = grant(&bob, "bob", v1::Role::Owner).await.unwrap();
    assert_eq!(twice.account.unwrap().role(), v1::Role::Owner);
    let refused = grant(&bob, "bob", v1::Role::Unspecified).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
}

#[tokio::test]
async fn only_registration_sign_in_password_resets_and_the_address_are_open_to_anonymous_callers() {
    let product = Product::start().await;
    let victim = victim(&product).await;
    let anonymous = product.anonymous().await;
    let forger = Session::with_token(&product.admin, "forger", "tgs-0123456789").await;
    for caller in [anonymous, forger] {
        for rpc in every_rpc() {
            let Case { rule, attempts, foreign } = attempt(&rpc, &caller, &victim).await;
            let foreign = foreign.into_iter().map(|(attempt, _)| attempt);
            for attempt in attempts.into_iter().chain(foreign).filter(|_| rule != Rule::Open) {
                assert_eq!(code(&attempt), Code::Unauthenticated, "{rpc}");
            }
        }
        let refused = caller.accounts().sign_out(v1::SignOutRequest {}).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
}

#[tokio::test]
async fn an_api_key_is_not_accepted_on_the_admin_plane() {
    let product = Product::start().await;
    let victim = victim(&product).await;
    let holder = Session::with_token(&product.admin, "holder", &victim.key.secret).await;
    let refused = holder.accounts().who_am_i(v1::WhoAmIRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
}
