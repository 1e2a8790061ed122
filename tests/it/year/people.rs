//! The people who share accounts: they come, work, go, and are forgotten with their account.

use proto::v1::{self, PersonRole};
use tests::Session;
use tonic::Code;

use super::first_schema::FOUNDER;
use super::team::Year;

/// An admin of the founder's account from February to August.
const ADMIN: &str = "dora@example.org";
/// A member of the founder's account since May.
const MEMBER: &str = "eric";
/// A member of an account that is deleted.
const GUEST: &str = "gina";
/// The account of the guest: the newcomer of September.
const HOST: &str = "member-9";

impl Year {
    /// What happens with people in a month.
    pub(super) async fn share_accounts(&mut self, month: i8) {
        match month {
            2 => self.invite(FOUNDER, ADMIN, PersonRole::Admin).await,
            5 => {
                self.invite(ADMIN, MEMBER, PersonRole::Member).await;
                let key = self.signed_in(MEMBER).await.key().await;
                self.record(MEMBER, "key.create");
                self.key_of_member = Some(key);
            }
            8 => self.remove_admin().await,
            9 => self.invite(HOST, GUEST, PersonRole::Member).await,
            12 => self.check_forgotten().await,
            _ => {}
        }
        if let Some(key) = self.key_of_member.clone() {
            assert_eq!(self.ask(&key).await, 200);
        }
    }

    async fn signed_in(&self, name: &str) -> Session {
        Session::sign_in(&self.product.admin, name).await
    }

    async fn invite(&mut self, by: &str, name: &str, role: PersonRole) {
        let person = self.signed_in(by).await.person(&self.product.admin, name, role).await;
        self.record(by, "person.add");
        self.record(name, "account.password");
        let caller = person.accounts().who_am_i(v1::WhoAmIRequest {}).await.unwrap().into_inner();
        assert_eq!(caller.person.as_ref().unwrap().role(), role);
        if name == GUEST {
            self.guest_id = caller.person.unwrap().id;
        }
    }

    /// The admin is removed: its open session ends, and what the member made stays.
    async fn remove_admin(&mut self) {
        let admin = self.signed_in(ADMIN).await;
        let request = v1::RemovePersonRequest { person: ADMIN.to_owned() };
        self.signed_in(FOUNDER).await.people().remove_person(request).await.unwrap();
        self.record(FOUNDER, "person.remove");
        let refused = admin.accounts().who_am_i(v1::WhoAmIRequest {}).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }

    /// The host was deleted, and the guest with it: the log has a pseudonym.
    async fn check_forgotten(&mut self) {
        let pseudonym = format!("deleted-{}", self.guest_id);
        for (actor, _) in self.steps.iter_mut().filter(|(actor, _)| actor == GUEST) {
            actor.clone_from(&pseudonym);
        }
        let request =
            v1::SignInRequest { name: GUEST.to_owned(), password: tests::password_of(GUEST) };
        let refused = self.product.anonymous().await.accounts().sign_in(request).await;
        assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
    }
}
