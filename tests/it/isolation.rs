//! No member reads or changes data of another account, by any RPC.
//!
//! The list of RPCs comes from the descriptors: a new one fails these tests until it has a case, in
//! the file of its service.

mod accounts;
mod attempt;
mod catalogue;
mod usage;

use prost::Message;
use proto::v1;
use tests::{Product, Session, question};
use tonic::{Code, Status};

use attempt::attempt;

/// The expected result when a member requests data of another account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Any caller may call it.
    Open,
    /// It answers with the caller's own data only.
    Own,
    /// It answers as if the object did not exist.
    Hidden,
    /// Only operators may call it.
    Operator,
}

/// The account whose data must stay private.
struct Victim {
    session: Session,
    id: String,
    session_id: String,
    key: tests::NewKey,
    request: String,
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
    Victim { session, id, session_id, key, request }
}

#[tokio::test]
async fn no_rpc_gives_a_member_data_of_another_account() {
    let product = Product::start().await;
    let victim = victim(&product).await;
    let bob = product.member("bob").await;
    let before = victim.session.account().await;
    for rpc in every_rpc() {
        let (rule, attempts) = attempt(&rpc, &bob, &victim).await;
        for attempt in attempts {
            let code = attempt.as_ref().map_or_else(Status::code, |_| Code::Ok);
            let expected = match rule {
                Rule::Open | Rule::Own => Code::Ok,
                Rule::Hidden => Code::NotFound,
                Rule::Operator => Code::PermissionDenied,
            };
            assert_eq!(code, expected, "{rpc}: {attempt:?}");
            let Ok(text) = attempt else { continue };
            let ids = [&victim.id, &victim.session_id, &victim.key.id, &victim.request];
            for private in ids.into_iter().chain([&victim.key.secret]) {
                assert!(!text.contains(&**private), "{rpc}: {text}");
            }
            for private in ["alice", "private-label", "1239.56"] {
                assert!(!text.contains(private), "{rpc}: {text}");
            }
        }
    }
    assert_eq!(victim.session.account().await, before, "the victim's account is unchanged");
    let answer = product.chat(&victim.key.secret, &question("sim-chat", "hi")).answer().await;
    assert_eq!(answer.status, 200, "the key still works");
}

#[tokio::test]
async fn only_registration_sign_in_and_the_address_are_open_to_anonymous_callers() {
    let product = Product::start().await;
    let victim = victim(&product).await;
    let anonymous = product.anonymous().await;
    let forger = Session::with_token(&product.admin, "forger", "tgs-0123456789").await;
    for caller in [anonymous, forger] {
        for rpc in every_rpc() {
            let (rule, attempts) = attempt(&rpc, &caller, &victim).await;
            for attempt in attempts.into_iter().filter(|_| rule != Rule::Open) {
                assert_eq!(attempt.unwrap_err().code(), Code::Unauthenticated, "{rpc}");
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
